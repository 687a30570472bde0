"""Advice for a layer that cannot be called on the tensors that an edit leads to it."""

from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.building.reconfigure import made_with
from ramet.building.weights.roles import roles_of
from ramet.graph import Call, Graph, Layer

_REORDER = ("Flatten", "Reshape", "Permute", "Transpose", "SpaceToDepth", "DepthToSpace")
"""Layers and operations after which a position means something else at another size."""


def remedy(graph: Graph, call: Call, layer: Any, arguments: tuple[Any, Any], place: str) -> str:
    """Return how a layer can be called on other shapes than before, as far as that is known.

    Args:
        graph: The graph.
        call: The call that failed.
        layer: The new layer.
        arguments: Its positional and keyword arguments.
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
        return f"; insert a layer before it that restores {old}, or replace it"
    if not _would_fit(layer, *arguments):
        return "; replace it by a layer that accepts these shapes"
    if _is_reordered(graph, call):
        return (
            f"; configure('{place}', weights='fresh') re-creates it for these shapes (its "
            "weights belong to positions that the new size moves)"
        )
    return f"; configure('{place}', weights='grow') re-creates it for these shapes"


def _tensors(tree: Any) -> list[Any]:
    return [leaf for leaf in keras.tree.flatten(tree) if isinstance(leaf, keras.KerasTensor)]


def _would_fit(layer: Any, args: Any, kwargs: Any) -> bool:
    """Whether a re-created layer has the same weights, apart from their sizes."""

    def bare(leaf: Any) -> Any:
        if not isinstance(leaf, keras.KerasTensor):
            return leaf
        return keras.KerasTensor(leaf.shape, leaf.dtype, sparse=leaf.sparse)

    try:
        twin = made_with(layer, {})
        with internals.untouched_names(), internals.untouched_randomness():
            inputs, options = keras.tree.map_structure(bare, (args, kwargs))
            twin(*inputs, **options)
        ranks = [{r: len(v.shape) for r, v in roles_of(each).items()} for each in (layer, twin)]
    except Exception:  # noqa: BLE001 advice is given only if it works
        return False
    return ranks[0] == ranks[1]


def _is_reordered(graph: Graph, call: Call) -> bool:
    """Whether the inputs of a call come from a layer that rearranges its own input.

    Layers without weights keep positions, so the search goes up through them.
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
