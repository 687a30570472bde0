"""`merge`, `unmerge` and `remove`: adapters made part of the kernels, and taken away again."""

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np

from ramet._arguments import check_flag
from ramet.adapt._use import weights_of
from ramet.adapt.adapting.freezing import Flags, Identity
from ramet.adapt.adapting.rounding import rounding
from ramet.adapt.adapting.steps import Drop, Put, merged, put_on
from ramet.adapt.adapting.taken import adapted_layers, check_known, names_in
from ramet.errors import GraphError, StateError
from ramet.graph import Graph, Layer
from ramet.graph.data import Step
from ramet.graph.names import counted, listed
from ramet.graph.paths import layer_paths
from ramet.layers import Adapted, Entry, is_quantized, kernel_at
from ramet.tracing.trace import trace


def merge(
    model: Any,
    adapters: str | Iterable[str] | Mapping[str, float] | None = None,
    *,
    requantize: bool = False,
) -> Graph:
    """Add adapters to the kernels, and remove all adapters.

    The new model has the layers of the base again and computes what the adapted one does, up to
    rounding. Where kernels are bfloat16 or float16, the journal says by how much merging rounds
    them. The adapted model stays what it is: keep it, and `unmerge` restores the base's bits
    from it.

    Args:
        model: A model or graph with adapters.
        adapters: Which, as in `use`; by default those that are in use. The others are dropped:
            they fit the kernels that they were trained with.
        requantize: Whether kernels of integers are quantized again with the updates, which rounds:
            an update that is smaller than the steps of the integers is lost.

    Raises:
        GraphError: If there are no adapters, or none of that name; or if a kernel is quantized,
            without `requantize`.
        OptionError: If `adapters` is of another type.

    Examples:
        >>> adapted = ramet.adapt.lora(model, "head", rank=2).build()
        >>> ramet.adapt.merge(adapted).build().get_layer("head").__class__.__name__
        'Dense'
    """
    check_flag(requantize, "requantize")
    graph = trace(model)
    known = _need_adapters(graph)
    rounded = _quantized_kernels(graph)
    if rounded and not requantize:
        message = (
            f"the kernels {listed(rounded, 4)} are quantized, so that merging rounds the updates; "
            "pass requantize=True to accept that, or keep the adapters"
        )
        raise GraphError(message)
    weights = None if adapters is None else weights_of(adapters)
    if weights is not None:
        check_known(f"graph '{graph.name}'", known, [*weights])
    which = (
        "those in use" if weights is None else listed([f"'{name}'" for name in weights] or ["none"])
    )
    promise = "changed" if rounded else "equal"
    text = f"merge adapters: {which}{rounding(graph, weights)}"
    return _without_adapters(graph, Drop(weights), text, promise)


def _quantized_kernels(graph: Graph) -> list[str]:
    """List the adapted kernels that consist of integers."""
    return [
        f"{path}/{target.path}"
        for path, record, entries in adapted_layers(graph).values()
        for entry in entries
        for target in entry.targets
        if (found := kernel_at(record.origin, target.held, target.variable)) is not None
        and is_quantized(found[1])
    ]


def remove(model: Any) -> Graph:
    """Remove all adapters: the new model is the base again, with the same bits.

    Args:
        model: A model or graph with adapters.

    Raises:
        GraphError: If there are none.

    Examples:
        >>> adapted = ramet.adapt.lora(model, "head", rank=2).build()
        >>> base = ramet.adapt.remove(adapted).build()
    """
    graph = trace(model)
    names = listed([f"'{name}'" for name in _need_adapters(graph)])
    return _without_adapters(graph, Drop(merges=False), f"remove adapters: {names}", "changed")


def _need_adapters(graph: Graph) -> list[str]:
    known = names_in(graph)
    if not known:
        message = f"graph '{graph.name}' has no adapters; add one with ramet.adapt.lora"
        raise GraphError(message)
    return known


def _without_adapters(graph: Graph, step: Drop, text: str, promise: Any) -> Graph:
    layers = adapted_layers(graph)
    entries: list[Entry] = [entry for *_, each in layers.values() for entry in each]
    froze = tuple(path for entry in entries for path in entry.froze)
    thawed = tuple(path for entry in entries for path in entry.thawed)
    flags = Flags.undone(graph, froze, tuple(path for path in thawed if path not in froze))
    return put_on(graph, dict.fromkeys(layers, (step,)), flags, text, promise)


TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 0.05, "float16": 0.01}
"""How far a merged kernel may be from what merging gives, relative to its largest number."""


def unmerge(merged_model: Any, adapted: Any) -> Graph:
    """Restore the kernels of the base in a merged model, bit for bit.

    Subtracting an update does not restore all bits, so the kernels are taken from the adapted
    model, which still has them.

    Args:
        merged_model: A model or graph whose adapters were merged. It may have been edited since.
        adapted: The model with adapters that was merged.

    Raises:
        GraphError: If a layer that was adapted is missing.
        StateError: If a kernel is not the result of merging, so that later changes to it would
            be lost.

    Examples:
        >>> adapted = ramet.adapt.lora(model, "head", rank=2).build()
        >>> merged = ramet.adapt.merge(adapted).build()
        >>> base = ramet.adapt.unmerge(merged, adapted).build()
    """
    graph, source = trace(merged_model), trace(adapted)
    _need_adapters(source)
    records = dict(layer_paths(graph))
    steps: dict[Identity, tuple[Step, ...]] = {}
    for path, record, _ in adapted_layers(source).values():
        if not isinstance(record.origin, Adapted):
            message = (
                f"the adapted graph '{source.name}' is not built; pass the model that was merged"
            )
            raise GraphError(message)
        if path not in records:
            message = (
                f"graph '{graph.name}' has no layer '{path}', which was adapted in "
                f"'{source.name}'; unmerge before other edits"
            )
            raise GraphError(message)
        steps[records[path].identity] = (Put(_base_kernels(path, records[path], record)),)
    text = f"unmerge adapters: the kernels of {counted(len(steps), 'layer')} as in '{source.name}'"
    return put_on(graph, steps, Flags(), text, "changed")


def _base_kernels(path: str, record: Layer, source: Layer) -> dict[tuple[str, str], np.ndarray]:
    """Return the kernels of the base, if those of the merged layer are made of them."""
    values: dict[tuple[str, str], np.ndarray] = {}
    layer: Any = source.origin
    expected = {id(variable): value for variable, value in merged(layer)}
    for held, name in layer.adapters.by_kernel():
        _check_not_rounded(path, layer, held, name)
        now, before = kernel_at(record.origin, held, name), kernel_at(layer, held, name)
        if now is None or before is None or now[1].shape != before[1].shape:
            message = f"layer '{path}' has no kernel like that of the adapted one; pass its model"
            raise StateError(message)
        want = keras.ops.convert_to_numpy(expected[id(before[1])]).astype("float64")
        have = keras.ops.convert_to_numpy(now[1]).astype("float64")
        far = np.max(np.abs(want - have), initial=0) / max(np.max(np.abs(want), initial=0), 1e-30)
        if not far <= TOLERANCE.get(keras.backend.standardize_dtype(now[1].dtype), 1e-5):
            message = (
                f"the kernel of layer '{path}' is not what merging the adapters in use makes of "
                f"the base's: they differ by {far:.1e} of the largest number; pass the model that "
                "was merged, with the same adapters in use"
            )
            raise StateError(message)
        values[held, name] = keras.ops.convert_to_numpy(before[1])
    return values


def _check_not_rounded(path: str, layer: Any, held: str, name: str) -> None:
    found = kernel_at(layer, held, name)
    if found is not None and is_quantized(found[1]):
        message = (
            f"the kernel of layer '{path}' is quantized, so merging rounded it, and it cannot be "
            "checked; use remove on the adapted model instead"
        )
        raise GraphError(message)
