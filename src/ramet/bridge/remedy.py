"""What helps a layer that cannot be called on what an edit gives it."""

from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.reconfigure import made_with
from ramet.bridge.roles import roles_of
from ramet.graph import Call, Graph, Layer

_REORDER = ("Flatten", "Reshape", "Permute", "Transpose", "SpaceToDepth", "DepthToSpace")
"""Layers and operations after which a place no longer means what it meant at another size."""


def remedy(graph: Graph, call: Call, layer: Any, arguments: tuple[Any, Any], place: str) -> str:
    """Says how a layer can be called on other shapes than before, as far as that is known.

    Args:
        graph: The graph.
        call: The call that failed.
        layer: The new layer.
        arguments: What it was called on, positional and by keyword.
        place: The path of the layer from the outermost graph.
    """
    before = [tuple(tensor.shape) for tensor in call.origin.node.input_tensors]
    after = [tuple(tensor.shape) for tensor in _tensors(arguments)]
    pairs = [*zip(before, after, strict=False)]
    for old, new in pairs:
        if len(old) != len(new):
            return f"; insert a layer before it that restores {len(old)} axes, such as a Reshape"
    if internals.functional_of(layer) is not None:
        return f"; flatten('{place}') lets the layers inside take other shapes"
    if not getattr(layer, "weights", None):
        old = next((old for old, new in pairs if old != new), before[0])
        return f"; insert a layer before it that gives {old} again, or replace it"
    if not _would_fit(layer, *arguments):
        return "; replace it by a layer that takes these shapes"
    if _is_reordered(graph, call):
        return (
            f"; configure('{place}', weights='fresh') makes it again for these shapes (its "
            "weights belong to places that the new size moves)"
        )
    return f"; configure('{place}', weights='grow') makes it again for these shapes"


def _tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in keras.tree.flatten(tree) if isinstance(leaf, keras.KerasTensor)]


def _would_fit(layer: Any, args: Any, kwargs: Any) -> bool:
    """Whether a layer that is made again has the same weights, but for their sizes."""

    def bare(leaf: Any) -> Any:
        if not isinstance(leaf, keras.KerasTensor):
            return leaf
        return keras.KerasTensor(leaf.shape, leaf.dtype, sparse=leaf.sparse)

    try:
        made = made_with(layer, {})
        with internals.untouched_names(), internals.untouched_randomness():
            inputs, options = keras.tree.map_structure(bare, (args, kwargs))
            made(*inputs, **options)
        ranks = [{r: len(v.shape) for r, v in roles_of(each).items()} for each in (layer, made)]
    except Exception:  # noqa: BLE001 whatever it is, it is no help
        return False
    return ranks[0] == ranks[1]


def _is_reordered(graph: Graph, call: Call) -> bool:
    """Whether what a call reads comes from a layer that lays its input out in another way.

    What has no weights keeps places, so the way up leads through such layers.
    """
    waiting, met = [*call.written_refs], set[str]()
    while waiting:
        above = graph.calls[waiting.pop().call]
        layer: Layer | None = graph.layers.get(above.layer or "")
        if above.name in met or layer is None or getattr(layer.origin, "weights", None):
            continue
        if layer.kind in _REORDER:
            return True
        met.add(above.name)
        waiting += above.written_refs
    return False
