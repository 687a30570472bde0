"""Recurrent layers: their cell, once for each time step."""

from typing import Any

import keras
from keras import layers

from ramet.profiling.registry import Called, UncountedError, counts_layers
from ramet.profiling.tensors import Tensor

_GATES = {layers.LSTMCell: 4, layers.GRUCell: 3, layers.SimpleRNNCell: 1}
"""How many matrices a cell multiplies inputs and state by."""


@counts_layers("RNN")
def recurrent(called: Called) -> int:
    """Count the cell of a recurrent layer for all time steps."""
    batch, steps, *features = called.inputs[0].shape
    step = Tensor((batch, *features), called.inputs[0].dtype)
    return int(steps or 0) * called.inside(called.layer.cell, step, outputs=())


@counts_layers("LSTMCell", "GRUCell", "SimpleRNNCell")
def cell(called: Called) -> int:
    """Count one step of an LSTM, a GRU or a simple recurrent cell."""
    units, (batch, features) = called.layer.units, called.inputs[0].shape
    gates = next(count for cls, count in _GATES.items() if isinstance(called.layer, cls))
    return int(batch or 0) * gates * units * (int(features or 0) + units)


@counts_layers("StackedRNNCells")
def stacked_cells(called: Called) -> int:
    """Count one step of several cells, each on the output of the one before."""
    step, total = called.inputs[0], 0
    for each in called.layer.cells:
        total += called.inside(each, step, outputs=())
        step = Tensor((step.shape[0], _width(each)), step.dtype)
    return total


def _width(each: Any) -> int:
    """Return the number of features that a cell returns."""
    size: Any = getattr(each, "output_size", None)
    if size is None:
        size = keras.tree.flatten(each.state_size)[0]
    if not isinstance(size, int):
        raise UncountedError(f"the output size of cell '{each.name}' is not known")
    return size
