"""`sensitivity`: what each layer's quantization, pruning or lower precision costs."""

from collections.abc import Sequence
from typing import Any, cast

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet._arguments import check_word, shown
from ramet.adapt._cast import cast as cast_layers
from ramet.adapt._choosing import chosen_by_any
from ramet.adapt._looking import data_for, live_model, outputs_of, relative_difference
from ramet.adapt._quantize import quantize
from ramet.adapt.casting.policies import POLICIES
from ramet.adapt.quantizing.modes import MODES, has_kernel
from ramet.building.weights.roles import roles_of
from ramet.errors import GraphError, OptionError
from ramet.graph import Graph, Layer
from ramet.graph.data import Edit
from ramet.graph.edits.remake import Remade, remake
from ramet.graph.journal import with_entry
from ramet.graph.select import Selection
from ramet.graph.values import Array, Computed, Variable
from ramet.results.sensitivity import LayerSensitivity, Sensitivity
from ramet.tracing.settled import settled

WAYS = (*MODES, "prune", *POLICIES)
"""The ways to change a layer."""


def sensitivity(
    model: Any,
    data: Any = None,
    *,
    how: Sequence[str] = ("int8", "int4", "prune", "bfloat16"),
    at: Any = None,
) -> Sensitivity:
    """Measure what each layer's quantization, pruning or lower precision costs in the outputs.

    Every layer with a kernel is changed by itself, the model is built on shared weights, and run
    on the data; the cost is how far its outputs are off, relative to their size (root mean
    squares; the largest of several outputs). This takes one build and one run per layer and
    way. Skip the layers that cost too much: `skip=costs.above(0.05, "int4")`.

    Args:
        model: A graph or a model.
        data: A batch that the model can be called on; by default generated inputs, on which costs
            may differ from those on your data.
        how: Ways to change a layer: a mode of `quantize`, a dtype of `cast`, or `"prune"`, which
            sets the smaller half of its kernels to zero.
        at: Which layers, as in `cast`; by default all that have a kernel.

    Returns:
        The costs by layer, which print as a table.

    Raises:
        OptionError: If `how` is unknown, or the model cannot be called on the data.
        GraphError: If `at` matches no layer with a kernel.

    Examples:
        >>> costs = ramet.adapt.sensitivity(model, how=["int8", "prune"])
        >>> [layer.path for layer in costs]
        ['conv', 'head']
    """
    ways = _checked(how)
    graph = settled(model)  # What starts afresh is drawn once.
    named = chosen_by_any(graph, "**" if at is None else at, "at")
    tried = {path: layer for path, layer in named.items() if has_kernel(layer)}
    if not tried:
        message = f"no layer of graph '{graph.name}' that is named has a kernel; name others"
        raise GraphError(message)
    batch = data_for(graph, data)
    before = outputs_of(live_model(graph), batch)

    def cost(path: str, layer: Layer, way: str) -> float | None:
        changed = _changed(graph, path, layer, way)
        if changed is None:
            return None
        return relative_difference(before, outputs_of(live_model(changed), batch))

    rows = [
        LayerSensitivity(
            path, layer.kind, _count(layer), {way: cost(path, layer, way) for way in ways}
        )
        for path, layer in tried.items()
    ]
    return Sensitivity(graph.name, ways, tuple(rows))


def _checked(how: Any) -> tuple[str, ...]:
    if not isinstance(how, (list, tuple)) or not how:
        message = f"how must be a list of ways, such as ['int8', 'prune'], got {shown(how)}"
        raise OptionError(message)
    for way in cast("list[Any]", how):
        check_word(way, "way", WAYS)
    return tuple(dict.fromkeys(cast("list[str]", how)))


def _count(layer: Layer) -> int:
    parts = internals.all_layers(layer.origin)
    variables = {id(v): v for part in parts for v in internals.layer_state(part)}
    return sum(int(np.prod(v.shape)) for v in variables.values() if _is_float(v))


def _is_float(variable: Any) -> bool:
    return keras.backend.is_float_dtype(variable.dtype)


def _changed(graph: Graph, path: str, layer: Layer, way: str) -> Graph | None:
    """Return a graph in which one layer is changed; `None` if it cannot be."""
    if way == "prune":
        return _pruned(graph, path, layer)
    only = Selection(graph, (path,), f"path={path!r}", missing_ok=False)
    try:
        if way in MODES:
            return quantize(graph, {only: way})
        return cast_layers(graph, only, way)
    except GraphError:
        return None


def _pruned(graph: Graph, path: str, layer: Layer) -> Graph | None:
    """Return a graph in which the smaller half of a layer's kernels is zero."""
    held = roles_of(layer.origin)
    kernels = [
        role for role, variable in held.items() if len(variable.shape) > 1 and _is_float(variable)
    ]
    if not kernels:
        return None
    edit = Edit(f"set half of '{path}' to zero", promise="changed")
    recipe = {role: Computed(_without_small, (Variable(layer, role),)) for role in kernels}
    return with_entry(remake(graph, {layer.identity: Remade({}, recipe)}, edit), edit)


def _without_small(kernel: Array) -> Array:
    sizes = np.abs(kernel.astype(np.float32))
    return np.where(sizes < np.median(sizes), 0, kernel)
