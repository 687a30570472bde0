"""By what layers scale and shift the channels of a tensor, if that is all they do in inference."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import keras
import numpy as np

from ramet.backends import is_of_keras
from ramet.backends.values import is_symbolic, is_tensor, to_numpy
from ramet.compress.folding.arrays import norm_scale, norm_shift
from ramet.graph import Call, Layer, Ref
from ramet.graph.tree import leaves
from ramet.graph.values import Array, Value, Variable


@dataclass(frozen=True)
class Affine:
    """`x * scale + shift`, with a number for each channel or one for all."""

    scale: Value | None
    """By what it multiplies; `None` for 1."""
    shift: Value | None
    """What it adds; `None` for 0."""
    axis: int | None
    """The axis of the channels; `None` if one number is for all."""
    is_norm: bool = False
    """Whether it computes something else in training."""

    def without_shift(self) -> "Affine":
        """Return the scale alone."""
        return replace(self, shift=None)


@dataclass(frozen=True)
class Place:
    """A layer at one of its calls."""

    layer: Layer
    """The record of the layer."""
    call: Call
    """The call."""
    live: Any
    """The live layer."""
    shape: tuple[int | None, ...]
    """Shape of the tensor that it is called on."""
    is_settled: bool = True
    """Whether no edit may have changed that shape."""
    in_training: bool = False
    """Whether a model around it is called with `training=True`."""

    def variable(self, name: str) -> Variable:
        """Return a variable of the layer."""
        return Variable(self.layer, (name,))


OWN_STATISTICS = (
    "GroupNormalization",
    "LayerNormalization",
    "RMSNormalization",
    "UnitNormalization",
)
"""Norms that compute their statistics from each input, so that they can never be folded."""


def affine(place: Place) -> Affine | str | None:
    """Return what a layer does to channels.

    Returns:
        By what it scales and shifts; the reason why that is not known, of a layer that does so;
        or `None` for other layers.
    """
    kind = type(place.live)
    if place.layer.is_operation:
        read = _OPERATIONS.get(place.layer.kind)
        return None if read is None or not is_of_keras(kind) else _of_operation(place, read)
    if place.layer.kind in OWN_STATISTICS and is_of_keras(kind):
        return f"{place.layer.kind} takes its statistics from each input"
    reader = _LAYERS.get(place.layer.kind)
    if reader is not None and is_of_keras(kind):
        return reader(place)
    known = bases_among(kind, frozenset(_LAYERS))
    return f"{kind.__name__} may compute something else than {known[0]}" if known else None


@functools.cache
def bases_among(kind: type, names: frozenset[str]) -> list[str]:
    """List those of some classes of Keras that a class is or derives from."""
    return [base.__name__ for base in kind.__mro__ if base.__name__ in names and is_of_keras(base)]


def unsettled(place: Place) -> str | None:
    """Return why a norm below a new layer is not folded; `None` for other layers."""
    if place.layer.kind not in _LAYERS or not is_of_keras(type(place.live)):
        return None
    return "its shapes are not known; build the graph and trace the model first"


def runs_in_inference(place: Place) -> bool:
    """Whether a layer is not called to act as in training, and no model around it is."""
    return not place.in_training and not in_training(place.call)


def in_training(call: Call) -> bool:
    """Whether the author of a call has passed `training`, as anything but `False`."""
    training = call.written.get("training", call.args[1] if len(call.args) > 1 else None)
    return training is not None and training is not False


def _of_batch_norm(place: Place) -> Affine | str:
    live = place.live
    if not runs_in_inference(place):
        return "it is called with training=True, or a model around it is"
    if not isinstance(live.axis, int):
        return "it normalizes along several axes"
    gamma = place.variable("gamma") if live.scale else None
    beta = place.variable("beta") if live.center else None
    scale = norm_scale(place.variable("moving_variance"), gamma, live.epsilon)
    shift = norm_shift(place.variable("moving_mean"), scale, beta)
    return Affine(scale, shift, live.axis % len(place.shape), is_norm=True)


def _of_rescaling(place: Place) -> Affine | str:
    scale, shift = (np.asarray(each, np.float64) for each in (place.live.scale, place.live.offset))
    if max(scale.ndim, shift.ndim) > 1:
        return "it scales along several axes"
    is_scalar = scale.size == shift.size == 1
    if not is_scalar and keras.config.image_data_format() == "channels_first":
        return "its channels are not the last axis"
    return _constant(scale.reshape(-1), shift.reshape(-1), None if is_scalar else -1, place)


def _of_normalization(place: Place) -> Affine | str:
    live = place.live
    if live.mean is None:
        return "it has not been adapted"
    if len(live.axis) > 1:
        return "it normalizes along several axes"
    mean, variance = (
        to_numpy(each).astype(np.float64).ravel() for each in (live.mean, live.variance)
    )
    deviation = np.maximum(np.sqrt(variance), keras.config.epsilon())
    axis = live.axis[0] if live.axis else None
    if live.invert:
        return _constant(deviation, mean, axis, place)
    return _constant(1 / deviation, -mean / deviation, axis, place)


def _of_layer_scale(place: Place) -> Affine:
    return Affine(place.variable("gamma"), None, len(place.shape) - 1)


def _constant(scale: Array, shift: Array, axis: int | None, place: Place) -> Affine:
    """Return an affine function of constants, without a scale of 1 or a shift of 0."""
    return Affine(
        None if (scale == 1).all() else scale,
        None if (shift == 0).all() else shift,
        None if axis is None else axis % len(place.shape),
    )


_LAYERS: dict[str, Callable[[Place], Affine | str]] = {
    "BatchNormalization": _of_batch_norm,
    "LayerScale": _of_layer_scale,
    "Normalization": _of_normalization,
    "Rescaling": _of_rescaling,
}

_Read = Callable[[Array, bool], tuple[Array, Array]]
"""Returns scale and shift, for the constant of an operation and whether it comes first."""

_OPERATIONS: dict[str, _Read] = {
    "Add": lambda c, _: (np.ones(1), c),
    "Subtract": lambda c, first: (-np.ones(1), c) if first else (np.ones(1), -c),
    "Multiply": lambda c, _: (c, np.zeros(1)),
    "TrueDivide": lambda c, _: (1 / c, np.zeros(1)),
    "Divide": lambda c, _: (1 / c, np.zeros(1)),
    "Negative": lambda c, _: (-c, np.zeros(1)),
}


def _of_operation(place: Place, read: _Read) -> Affine | str | None:
    """Return what an operation with one tensor and one constant does."""
    items = [*leaves((place.call.args, place.call.written))]
    refs = [item for item in items if isinstance(item, Ref)]
    constants = [item for item in items if not isinstance(item, Ref)]
    if place.layer.kind == "Negative":
        constants = [1.0]
    if len(refs) != 1 or len(constants) != 1:
        return None
    number = _number(constants[0])
    if number is None:
        return "it computes with a value that is not a plain number"
    first = not isinstance(items[0], Ref)
    if first and "ivide" in place.layer.kind:
        return "it divides by the tensor"
    axis = _axis(number, len(place.shape))
    if isinstance(axis, str):
        return axis
    with np.errstate(all="ignore"):  # a division by zero stays one
        scale, shift = read(number.ravel(), first)
    if not np.isfinite(scale).all():
        return "it divides by zero"
    return _constant(scale, shift, axis, place)


def _number(value: Any) -> Array | None:
    """Return a constant as an array; `None` if it is a variable or no number."""
    if isinstance(value, (keras.Variable, keras.KerasTensor)):
        return None
    if is_tensor(value) and not is_symbolic(value):
        value = to_numpy(value)
    try:
        array = np.asarray(value)
        return array.astype(np.float64) if array.dtype.kind in "fiu" else None
    except (TypeError, ValueError):
        return None


def _axis(number: Array, rank: int) -> int | str | None:
    """Return the axis along which a constant differs; `None` if it is one number."""
    shape = (1,) * (rank - number.ndim) + cast("tuple[int, ...]", number.shape)
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if len(shape) > rank or len(axes) > 1 or axes == [0]:
        return "its constant is not one number for each channel"
    return axes[0] if axes else None
