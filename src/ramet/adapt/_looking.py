"""What a model computes, without traces: its outputs, and the arguments of its calls."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from ramet.backends.values import to_numpy
from ramet.comparing.running.data import check_data, explained_failures
from ramet.comparing.running.run import Tapped, copied_data, without_traces
from ramet.comparing.running.samples import SIZES, make_sample
from ramet.errors import OptionError
from ramet.graph import Call, Graph
from ramet.tracing.origin import is_edited, traced_model
from ramet.tracing.settled import built_aside
from ramet.tracing.trace import trace


def live_model(graph: Graph) -> Any:
    """Return the model that a graph stands for; of an edited graph, one that is built aside."""
    return built_aside(graph) if is_edited(graph) else traced_model(graph)


def data_for(graph: Graph, data: Any, seed: int = 0) -> Any:
    """Return data to call a model with: what the user passes, or generated inputs.

    Raises:
        OptionError: If the shapes of its inputs are not known.
    """
    if data is not None:
        check_data(data, "data")
        if any(isinstance(leaf, keras.KerasTensor) for leaf in keras.tree.flatten(data)):
            raise OptionError("data must hold values, but holds a symbolic tensor; pass arrays")
        return data
    sample = make_sample([live_model(graph)], [graph], SIZES[0], seed)
    if sample is None:
        message = f"no inputs can be generated for graph '{graph.name}'; pass data"
        raise OptionError(message)
    return sample.args[0]


def outputs_of(model: Any, data: Any) -> list[np.ndarray]:
    """Return the outputs of a model for some data, in inference, as float64."""
    with without_traces(model), explained_failures(model, data):
        outputs = model(copied_data(data), training=False)
    return [to_numpy(each).astype(np.float64) for each in keras.tree.flatten(outputs)]


def relative_difference(before: list[np.ndarray], after: list[np.ndarray]) -> float:
    """Return how far outputs are from others, relative to their size: root mean squares.

    The largest of all outputs; infinite if one is not finite where it was.
    """
    return max(map(_distance, before, after), default=0.0)


def _distance(before: np.ndarray, after: np.ndarray) -> float:
    known = np.isfinite(before)
    if not np.isfinite(after[known]).all():
        return float("inf")
    size = np.sqrt(np.mean(before[known] ** 2)) if known.any() else 0.0
    distance = np.sqrt(np.mean((after[known] - before[known]) ** 2)) if known.any() else 0.0
    return float(distance / size) if size else float(distance)


class Listener(Tapped):
    """Runs a model and hands the arguments of its calls to a function."""

    def __init__(self, model: Any, hear: Callable[[str, Any, Any], None]) -> None:
        """Trace the model.

        Args:
            model: The model, with a graph.
            hear: Receives the path of a call, its positional arguments and its keywords.
        """
        super().__init__(trace(model))
        self._model, self._hear = model, hear

    def listen(self, data: Any) -> None:
        """Run the model on data, in inference, without traces."""
        with without_traces(self._model), explained_failures(self._model, data):
            self.run(copied_data(data), training=False)

    def given(self, path: str, value: Any) -> None:
        """Ignore the inputs of graphs."""

    def entered(self, path: str, arguments: tuple[Any, Any]) -> None:
        """Hand the arguments of a call on."""
        self._hear(path, *arguments)

    def seen(self, path: str, graph: Graph, call: Call, outputs: Any) -> Any:  # noqa: ARG002 part of the interface
        """Return the outputs as they are."""
        return outputs
