"""A graph as a profile."""

from typing import Any

from ramet import keras_internals as internals
from ramet.graph import Graph, Layer
from ramet.profiling.count import Counter
from ramet.profiling.sizes import input_tensors, notes_on
from ramet.profiling.timing import timed
from ramet.results.profile import Profile
from ramet.tracing.origin import live_of

_HOW = (
    "times are medians of eager calls, one by one, with what Python and the backend take for each; "
    "a compiled model is faster"
)


def profile_of(graph: Graph, *, batch: int = 1, shapes: Any = None, time: bool = False) -> Profile:
    """Return what the calls of a graph cost.

    Args:
        graph: A graph as it was traced, without edits.
        batch: The batch size.
        shapes: The sizes of inputs; see `input_tensors`.
        time: Whether to measure the time of each call.
    """
    inputs = input_tensors(graph, batch, shapes)
    counter = Counter()
    quiet = internals.untouched_names(), internals.untouched_randomness()
    with internals.room_for(graph), quiet[0], quiet[1]:
        level = counter.count(graph, inputs)
    other = _other_weights(counter, graph)
    costs, notes = tuple(level.costs), notes_on(graph, inputs, batch)
    if time:
        costs = timed(graph, inputs, costs)
        notes.append(_HOW)
    return Profile(
        name=graph.name,
        batch=batch,
        calls=costs,
        peak_bytes=counter.memory.peak,
        other_params=other[0],
        other_weight_bytes=other[1],
        notes=tuple(notes),
    )


def _other_weights(counter: Counter, graph: Graph) -> tuple[int, int]:
    """Return number and bytes of the model's weights that no call of its graph has."""
    model = live_of(graph).model
    if model is None:
        return 0, 0
    _, count, _, size = counter.weights(Layer(graph.name, type(model).__name__, model))
    return count, size
