"""Kernels rounded to int4 by what their layers read on data (GPTQ).

Keras calibrates only models that list their blocks themselves, and its format for GPTQ cannot be
loaded from a file. Here the graph says what each layer reads, and what is stored is Keras's int4.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops

from ramet import keras_internals as internals
from ramet.adapt._looking import Listener, data_for, live_model
from ramet.adapt.quantizing.moments import Contraction
from ramet.adapt.quantizing.rounding import Grid, rounded_in_turn, squared_error
from ramet.adapt.quantizing.weights import Trial, quantized_weights
from ramet.backends.values import to_numpy
from ramet.building.weights.roles import roles_of
from ramet.errors import GraphError, OptionError
from ramet.graph import Graph, Layer
from ramet.graph.paths import call_labels, layer_paths
from ramet.graph.reach import written_calls
from ramet.graph.values import Array

_STORED = ("kernel", "kernel_scale", "kernel_zero", "g_idx")
"""What Keras stores of a kernel in int4, by name."""


@dataclass(frozen=True)
class Calibrated:
    """A kernel that was rounded by what its layer reads."""

    recipe: Mapping[tuple[str, ...], Array]
    """What stores it, by role."""
    error: float
    """How far the results of the layer on the data are off, relative to their size."""


def calibrated(graph: Graph, paths: list[str], data: Any) -> dict[str, Calibrated]:
    """Round the kernels of layers to int4, in the order of their calls on data.

    What comes before a layer is quantized already, so that layers make up for each other. A layer
    that is called several times is calibrated on all that it reads in the graph as it is.

    Args:
        graph: A graph, in which layers of other modes are quantized already.
        paths: The layers.
        data: A batch to run the model on.

    Raises:
        OptionError: If the model cannot be called on the data.
        GraphError: If a layer is not called then.
    """
    calibration = _Calibration(live_model(graph), paths)
    batch = data_for(graph, data)
    calibration.gather_shared(batch)
    calibration.listen(batch)
    return {path: target.result(path) for path, target in calibration.targets.items()}


class _Calibration(Listener):
    """Runs a model, and rounds kernels on the way."""

    def __init__(self, model: Any, paths: list[str]) -> None:
        super().__init__(model, self._called)
        records = dict(layer_paths(self._graph))
        self.targets = {path: _Target(records[path]) for path in paths}
        targets = {target.record.identity: target for target in self.targets.values()}
        calls = [*_layer_calls(self._graph)]
        self._at = {path: targets[r.identity] for path, r in calls if r.identity in targets}
        counts = Counter(map(id, self._at.values()))
        self._shared = {id(each) for each in self._at.values() if counts[id(each)] > 1}
        self._is_gathering = False

    def gather_shared(self, data: Any) -> None:
        """Note what layers read that are called several times, if any are."""
        if self._shared:
            self._is_gathering = True
            self.listen(data)
            self._is_gathering = False

    def _called(self, path: str, args: Any, kwargs: Any) -> None:
        target = self._at.get(path)
        if target is None or target.calibrated is not None:
            return
        if self._is_gathering == (id(target) in self._shared):
            target.read(args[0] if args else kwargs["inputs"])
        if not self._is_gathering:
            target.round()


def _layer_calls(graph: Graph, prefix: str = "") -> Iterator[tuple[str, Layer]]:
    """Yield the layer of every call, by the path of the call."""
    labels = call_labels(graph)
    for call in written_calls(graph):
        if call.layer is not None:
            path, record = prefix + labels[call.name], graph.layers[call.layer]
            yield path, record
            if record.graph is not None:
                yield from _layer_calls(record.graph, f"{path}/")


class _Target:
    """A layer whose kernel is rounded."""

    def __init__(self, record: Layer) -> None:
        """Let Keras quantize the kernel, for the scales."""
        self.record = record
        self.calibrated: Calibrated | None = None
        self._kernel = roles_of(record.origin)["kernel",]
        self._plain = quantized_weights(to_numpy(self._kernel), trial=Trial.of(record), mode="int4")
        self._moments: Any = 0

    def read(self, inputs: Any) -> None:
        """Add the moments of what the layer reads in one call."""
        mask = internals.get_keras_mask(inputs)
        values, counts = to_numpy(inputs), None if mask is None else to_numpy(mask)
        rows = Contraction.of(self.record.origin, values.ndim).rows(values, counts)
        if not np.isfinite(rows).all():
            message = (
                f"layer '{self.record.name}' reads values that are not finite, so that it cannot "
                "be calibrated; pass other data"
            )
            raise OptionError(message)
        self._moments = self._moments + rows.T @ rows

    def round(self) -> None:
        """Round the kernel, and let the layer compute with what it is rounded to."""
        moments, self._moments = self._moments, None
        kernel = to_numpy(self._kernel)
        matrix = kernel.astype(np.float64).reshape(len(moments), -1)
        groups = self._plain["g_idx"].astype(int)
        grid = Grid(*(self._plain[name].astype(np.float64)[groups] for name in _STORED[1:3]))
        integers = rounded_in_turn(matrix, grid, moments)
        packed = keras.quantizers.pack_int4(integers.astype(np.int8), axis=-1)[0]
        stored = self._plain | {"kernel": to_numpy(packed)}
        floats = grid.floats(integers)
        size, off = (squared_error(each, moments) for each in (matrix, floats - matrix))
        error = float(np.sqrt(max(off, 0.0) / size)) if size > 0 else 0.0
        self.calibrated = Calibrated({(name,): stored[name] for name in _STORED}, error)
        # In the scope of a run, which ends with it.
        self._kernel.assign(ops.cast(floats.reshape(kernel.shape), self._kernel.dtype))

    def result(self, path: str) -> Calibrated:
        """Return the rounded kernel."""
        if self.calibrated is None:
            message = (
                f"layer '{path}' is not called when the model is run on the data, so that it "
                "cannot be calibrated; skip it, or use 'int4'"
            )
            raise GraphError(message)
        return self.calibrated
