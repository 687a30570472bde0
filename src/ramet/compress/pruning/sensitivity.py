"""How much each channel matters to outputs and loss, by running the model on data.

The source is run in a stateless scope, so that nothing on it changes.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np

from ramet import backends
from ramet.backends.values import to_numpy
from ramet.comparing.running.run import Tapped, without_traces
from ramet.compress.channels.follow import Channels
from ramet.compress.channels.site import Axis, Tensor
from ramet.compress.pruning.criteria import Array, Values, per_channel, weighed
from ramet.errors import OptionError
from ramet.graph import Call, Graph
from ramet.results.groups import Group
from ramet.tracing.origin import live_of

_BATCH = 32
"""How many examples are computed at once."""


def check_pair(data: Any, by: str) -> None:
    """Check that data is a pair of inputs and targets.

    Raises:
        OptionError: If it is something else.
    """
    if not isinstance(data, tuple) or len(data) != 2:  # noqa: PLR2004 inputs and targets
        message = f"by='{by}' needs inputs and targets; pass data=(inputs, targets)"
        raise OptionError(message)


def _batches(data: Any, size: int) -> Iterator[Any]:
    """Yield parts of a structure of arrays, along its first axis."""
    count = min(len(leaf) for leaf in keras.tree.flatten(data))
    for start in range(0, count, size):
        yield keras.tree.map_structure(lambda leaf: leaf[start : start + size], data)  # noqa: B023 used at once


# --- activations ---


class _Activations(Tapped):
    """Adds up the magnitudes of what layers make, channel by channel."""

    def __init__(self, graph: Graph, channels: Channels) -> None:
        super().__init__(graph)
        self._flows = {flow.path: flow for flow in channels.flows.values()}
        self.sums: dict[int, float] = {}
        """The sum of magnitudes for each atom."""

    def given(self, path: str, value: Any) -> None:
        """Ignore inputs."""

    def seen(self, path: str, graph: Graph, call: Call, outputs: Any) -> Any:
        """Add up what a layer made."""
        del graph
        prefix = path.rpartition("/")[0]
        flow = self._flows.get(f"{prefix}/{call.layer}" if prefix else str(call.layer))
        if flow is not None:
            for axis in flow.made.values():
                self._add(axis, flow.outputs.get(id(call), ()), keras.tree.flatten(outputs))
        return outputs

    def _add(self, made: Axis, tensors: Sequence[Tensor], outputs: Sequence[Any]) -> None:
        """Add up the magnitudes of an axis that a layer made, where its outputs have it."""
        for tensor, output in zip(tensors, outputs, strict=False):
            for at, axis in enumerate(tensor):
                if made.labels is None or axis.labels is None:
                    continue
                if np.array_equal(made.labels, axis.labels):
                    others = [i for i in range(len(tensor)) if i != at]
                    means = to_numpy(keras.ops.mean(keras.ops.abs(output), axis=others))
                    for atom, mean in zip(axis.labels.tolist(), means.tolist(), strict=True):
                        self.sums[atom] = self.sums.get(atom, 0.0) + mean


def activations(
    channels: Channels, places: dict[int, tuple[str, int]], groups: list[Group], data: Any
) -> dict[str, Array]:
    """Return the mean magnitude of each channel where it is made, by group."""
    graph = channels.seen
    model = live_of(graph).model
    tapped = _Activations(graph, channels)
    with without_traces(model):
        for batch in _batches(data, _BATCH):
            tapped.run(batch, training=False)
    scores = {group.name: np.zeros(group.size) for group in groups}
    met: set[str] = set()
    for atom, total in tapped.sums.items():
        for basic in channels.atoms.basics(atom):
            name, number = places.get(basic, ("", 0))
            if name in scores:
                scores[name][number] += total
                met.add(name)
    return {name: score for name, score in scores.items() if name in met}


# --- gradients ---


def gradients(
    channels: Channels, groups: list[Group], data: Any, loss: Any, *, squared: bool
) -> dict[str, Array]:
    """Return how much the loss depends on each channel, by group.

    Args:
        channels: The channels of the graph.
        groups: The groups.
        data: Inputs and targets.
        loss: A function of targets and outputs, or what names one.
        squared: Whether squared gradients of single examples are taken, which estimate the
            second derivative, instead of the gradient of each batch.
    """
    values = Values(channels)
    members = [(group, member) for group in groups for member in weighed(group)]
    variables = {id(v): v for v in (values.variable(member) for _, member in members)}
    trained = [v for v in variables.values() if "float" in keras.backend.standardize_dtype(v.dtype)]
    totals = _totals(channels, trained, data, loss, squared=squared)
    scores: dict[str, list[Array]] = {}
    for group, member in members:
        slope = totals.get(id(values.variable(member)))
        if slope is not None:
            weights = values.array(member)
            change = np.square(weights) * slope / 2 if squared else np.abs(weights * slope)
            scores.setdefault(group.name, []).append(per_channel(member, change))
    return {name: np.mean(each, axis=0) for name, each in scores.items()}


def _totals(
    channels: Channels, variables: list[Any], data: Any, loss: Any, *, squared: bool
) -> dict[int, Array]:
    """Return the gradients of variables, or their squares, added up over the data."""
    model = live_of(channels.seen).model
    is_several = isinstance(loss, (list, tuple, dict))
    function = keras.tree.map_structure(keras.losses.get, loss) if is_several else loss
    function = function if is_several else keras.losses.get(loss)
    totals: dict[int, Array] = {}
    with without_traces(model):
        for inputs, targets in _batches(data, 1 if squared else _BATCH):
            slopes = backends.current().gradients(
                _loss_of(model, function, variables, inputs, targets),
                [variable.value for variable in variables],
            )
            for variable, slope in zip(variables, slopes, strict=True):
                if slope is not None:
                    array = np.asarray(to_numpy(slope), np.float64)
                    array = np.square(array) if squared else array
                    totals[id(variable)] = totals.get(id(variable), 0) + array
    return totals


def _loss_of(
    model: Any, function: Any, variables: list[Any], inputs: Any, targets: Any
) -> Callable[[list[Any]], Any]:
    """Return the loss of a batch as a function of the values of variables."""

    def loss(values: list[Any]) -> Any:
        with keras.StatelessScope(state_mapping=[*zip(variables, values, strict=True)]):
            outputs = model(inputs, training=False)
            flat = keras.tree.flatten(outputs)
            functions = keras.tree.flatten(function)
            functions = functions if len(functions) == len(flat) else functions * len(flat)
            parts = zip(functions, keras.tree.flatten(targets), flat, strict=True)
            return sum(keras.ops.mean(each(y, output)) for each, y, output in parts)

    return loss
