"""How long the calls of a model take, measured by running it."""

import dataclasses
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import keras

from ramet import backends
from ramet.comparing.running.data import explained_failures
from ramet.comparing.running.run import Tapped, copied_data, without_traces
from ramet.comparing.running.samples import make_sample
from ramet.errors import OptionError
from ramet.graph import Call, Graph, Ref
from ramet.profiling.tensors import Tensor
from ramet.results.profile import CallCost
from ramet.tracing.origin import live_of

_WARM_UP, _LEAST, _MOST = 2, 3, 20
"""How often the model runs before it is measured, and how often at least and at most then."""
_ENOUGH = 1.0
"""Seconds after which no further measurement begins, if there are enough."""


def timed(
    graph: Graph, inputs: Mapping[Ref, Tensor], costs: tuple[CallCost, ...]
) -> tuple[CallCost, ...]:
    """Return costs with the median time of each call, in inference.

    The model runs eagerly, call by call, on made-up data, and is not changed.

    Args:
        graph: A graph as it was traced, without edits.
        inputs: The sizes of its inputs.
        costs: What its calls cost.

    Raises:
        OptionError: If the size of an input is not known, or the model cannot be run.
    """
    for ref, tensor in inputs.items():
        if not tensor.is_known:
            message = (
                f"times of graph '{graph.name}' cannot be measured, since the size of input "
                f"'{ref.call}' is not known; pass shapes={{'{ref.call}': ...}}"
            )
            raise OptionError(message)
    model, clock = live_of(graph).model, _Clock(graph)
    data = _data(graph, inputs)
    with without_traces(model), explained_failures(model, data):
        for _ in range(_WARM_UP):
            clock.run(copied_data(data), training=False)
        clock.seconds.clear()
        begun = time.perf_counter()
        for number in range(_MOST):
            if number >= _LEAST and time.perf_counter() - begun > _ENOUGH:
                break
            clock.run(copied_data(data), training=False)
    medians = {path: statistics.median(times) for path, times in clock.seconds.items()}
    return tuple(_with_times(cost, medians) for cost in costs)


def _with_times(cost: CallCost, medians: Mapping[str, float]) -> CallCost:
    inside = tuple(_with_times(inner, medians) for inner in cost.inside)
    return dataclasses.replace(cost, seconds=medians.get(cost.path), inside=inside)


def _data(graph: Graph, inputs: Mapping[Ref, Tensor]) -> Any:
    """Make up data of some sizes."""
    calls = graph.parts("calls")
    for ref, tensor in inputs.items():
        specs = [*calls[ref.call].outputs]
        specs[ref.index] = dataclasses.replace(specs[ref.index], shape=tensor.shape)
        calls[ref.call] = dataclasses.replace(calls[ref.call], outputs=tuple(specs))
    sample = make_sample([live_of(graph).model], [graph.changed(calls=calls)], 8, 0)
    return None if sample is None else sample.args[0]


class _Clock(Tapped):
    """Runs a model, and measures each call until its outputs are computed."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self._begun: list[tuple[str, float]] = []
        self._backend = backends.current()

    def given(self, path: str, value: Any) -> None:
        """Inputs take no time."""

    def entered(self, path: str, arguments: tuple[Any, Any]) -> None:
        self._backend.wait_for(keras.tree.flatten(arguments))
        self._begun.append((path, time.perf_counter()))

    def seen(self, path: str, graph: Graph, call: Call, outputs: Any) -> Any:  # noqa: ARG002 the call entered last
        self._backend.wait_for(keras.tree.flatten(outputs))
        entered, begun = self._begun.pop()
        self.seconds[entered].append(time.perf_counter() - begun)
        return outputs
