"""The arithmetic of folding: functions of arrays, evaluated on build, in float64."""

from collections.abc import Sequence
from typing import Any, TypeAlias, overload

import numpy as np

from ramet.backends.memory import aligned_like
from ramet.graph.values import Array, Computed, Value

Spread: TypeAlias = tuple[str, int]
"""How channels lie in a kernel: `("axis", -1)`, along an axis; `("pairs", 0)`, in the last two
axes; `("groups", 4)`, the input channels of a convolution in groups."""


_PIECE = 512
"""How many numbers are converted to float64 at a time: twice as fast as NumPy's 8192."""


def norm_scale(variance: Value, gamma: Value | None, epsilon: float) -> Computed:
    """Return by what a norm multiplies: `gamma / sqrt(variance + epsilon)`."""
    operands = (variance,) if gamma is None else (variance, gamma)
    return Computed(_norm_scale, operands, {"epsilon": epsilon})


def norm_shift(mean: Value, scale: Value, beta: Value | None) -> Computed:
    """Return what a norm adds: `beta - mean * scale`."""
    return Computed(_norm_shift, (mean, scale) if beta is None else (mean, scale, beta))


@overload
def times(first: Value, second: Value | None) -> Value: ...
@overload
def times(first: Value | None, second: Value) -> Value: ...
@overload
def times(first: Value | None, second: Value | None) -> Value | None: ...
def times(first: Value | None, second: Value | None) -> Value | None:
    """Return a product; `None` stands for 1."""
    if first is None or second is None:
        return first if second is None else second
    return Computed(_times, (first, second))


@overload
def plus(first: Value, second: Value | None) -> Value: ...
@overload
def plus(first: Value | None, second: Value) -> Value: ...
@overload
def plus(first: Value | None, second: Value | None) -> Value | None: ...
def plus(first: Value | None, second: Value | None) -> Value | None:
    """Return a sum; `None` stands for 0."""
    if first is None or second is None:
        return first if second is None else second
    return Computed(_plus, (first, second))


def part(value: Value, start: int, stop: int) -> Value:
    """Return the numbers for some of the channels; a single number is for all."""
    return Computed(_part, (value,), {"start": start, "stop": stop})


def flattened(value: Value, shape: Sequence[int], axis: int) -> Value:
    """Return the numbers for the channels of a tensor that was flattened."""
    return Computed(_flattened, (value,), {"shape": tuple(shape), "axis": axis})


def full(value: Value, like: Value, spread: Spread) -> Value:
    """Return numbers for channels, one for each channel of a kernel."""
    return Computed(_full, (value, like), {"spread": spread})


def kernel(
    value: Value, out: tuple[Value, Spread] | None, into: tuple[Value, Spread] | None, *, cast: bool
) -> Value:
    """Return a kernel, scaled by its output and by its input channels.

    Args:
        value: The kernel.
        out: What scales its output channels, and how they lie in it.
        into: The same for its input channels.
        cast: Whether the result has the kernel's dtype, not float64.
    """
    sides = [side for side in (out, into) if side is not None]
    if not sides and cast:
        return value
    spreads = tuple(spread for _, spread in sides)
    operands = (value, *(factor for factor, _ in sides))
    return Computed(_kernel, operands, {"spreads": spreads, "cast": cast})


def contracted(value: Value, shift: Value, spread: Spread, axes: Sequence[int]) -> Value:
    """Return what a shift of its input channels adds to the output channels of a kernel.

    Args:
        value: The kernel.
        shift: The shift of each input channel.
        spread: How the input channels lie in the kernel.
        axes: The axes of the kernel to sum over; the others, counted in order, are those of the
            result.
    """
    return Computed(_contracted, (value, shift), {"spread": spread, "axes": tuple(axes)})


def flat(value: Value) -> Value:
    """Return an array as a vector."""
    return Computed(_flat, (value,))


def mixed(shift: Value, pointwise: Value) -> Value:
    """Return what a pointwise kernel makes of the shift of its input channels."""
    return Computed(_mixed, (shift, pointwise))


def along(value: Value, axis: int, rank: int) -> Value:
    """Return numbers for channels in a shape that multiplies a bias of several axes."""
    return value if rank == 1 else Computed(_along, (value,), {"axis": axis, "rank": rank})


def summed(kernels: Sequence[tuple[Value, tuple[int, ...]]], size: Sequence[int]) -> Value:
    """Return the sum of kernels, each at an offset in a window of some size, in float64."""
    offsets = tuple(offset for _, offset in kernels)
    return Computed(
        _summed,
        tuple(each for each, _ in kernels),
        {"offsets": offsets, "size": tuple(size)},
    )


def cast_like(value: Value, like: Value) -> Value:
    """Return a value in the dtype of another."""
    return Computed(_cast_like, (value, like))


def identity(like: Value, *, depthwise: bool, scale: Value | None) -> Value:
    """Return the kernel of size 1 that returns its input, scaled by channel.

    Args:
        like: A kernel with the same channels.
        depthwise: Whether it is one of a depthwise convolution.
        scale: By what the channels are scaled.
    """
    operands = (like,) if scale is None else (like, scale)
    return Computed(_identity, operands, {"depthwise": depthwise})


# --- evaluated on build ---


def _norm_scale(variance: Array, gamma: Array | None = None, *, epsilon: float) -> Array:
    scale = 1.0 / np.sqrt(variance.astype(np.float64) + epsilon)
    return scale if gamma is None else gamma.astype(np.float64) * scale


def _norm_shift(mean: Array, scale: Array, beta: Array | None = None) -> Array:
    shift = -mean.astype(np.float64) * scale
    return shift if beta is None else beta.astype(np.float64) + shift


def _times(first: Array, second: Array) -> Array:
    return first.astype(np.float64) * second.astype(np.float64)


def _plus(first: Array, second: Array) -> Array:
    return first.astype(np.float64) + second.astype(np.float64)


def _part(value: Array, *, start: int, stop: int) -> Array:
    return value if value.size == 1 else value[start:stop]


def _flattened(value: Array, *, shape: tuple[int, ...], axis: int) -> Array:
    if value.size == 1:
        return value
    places = [1] * len(shape)
    places[axis] = value.size
    return np.broadcast_to(value.reshape(places), shape).reshape(-1)


def _full(value: Array, like: Array, *, spread: Spread) -> Array:
    how, axis = spread
    shape = like.shape
    size = shape[-1] * shape[-2] if how == "pairs" else shape[axis]
    return np.broadcast_to(value.astype(np.float64), (size,))


def _spread(value: Array, shape: tuple[int, ...], spread: Spread) -> Array:
    """Return numbers for channels in a shape that multiplies a kernel."""
    how, number = spread
    if value.size == 1:
        return value.astype(np.float64).reshape(())
    value = value.astype(np.float64)
    if how == "pairs":
        return value.reshape(shape[-2:])
    if how == "groups":
        # Output channel `o` of a group reads the input channels of that group only.
        return np.repeat(value.reshape(number, -1).T, shape[-1] // number, 1)
    places = [1] * len(shape)
    places[number] = value.size
    return value.reshape(places)


def _kernel(value: Array, *factors: Array, spreads: tuple[Spread, ...], cast: bool) -> Array:
    factor: Any = np.float64(1)
    for each, spread in zip(factors, spreads, strict=True):
        factor = factor * _spread(each, value.shape, spread)
    if cast and value.dtype == np.float32:
        # Computed in float64 and cast once, in pieces that fit into the first cache.
        before = np.setbufsize(_PIECE)
        try:
            out = aligned_like(value)
            return np.multiply(value, factor, out=out, dtype=np.float64, casting="same_kind")
        finally:
            np.setbufsize(before)
    product = value.astype(np.float64) * factor
    return product.astype(value.dtype) if cast else product


def _contracted(value: Array, shift: Array, *, spread: Spread, axes: tuple[int, ...]) -> Array:
    return (value.astype(np.float64) * _spread(shift, value.shape, spread)).sum(axes)


def _flat(value: Array) -> Array:
    return value.reshape(-1)


def _mixed(shift: Array, pointwise: Array) -> Array:
    return shift.reshape(-1) @ pointwise.reshape(pointwise.shape[-2:]).astype(np.float64)


def _along(value: Array, *, axis: int, rank: int) -> Array:
    places = [1] * rank
    places[axis] = value.size
    return value.reshape(places)


def _summed(*kernels: Array, offsets: tuple[tuple[int, ...], ...], size: tuple[int, ...]) -> Array:
    total = np.zeros((*size, *kernels[0].shape[len(size) :]))
    for each, offset in zip(kernels, offsets, strict=True):
        places = zip(offset, each.shape, strict=False)
        total[tuple(slice(start, start + length) for start, length in places)] += each
    return total


def _cast_like(value: Array, like: Array) -> Array:
    return value.astype(like.dtype)


def _identity(like: Array, scale: Array | None = None, *, depthwise: bool) -> Array:
    inside, out = like.shape[-2:]
    if depthwise:
        ones = np.ones((inside, out))
    else:
        ones = np.zeros((inside, out))
        ones[np.arange(out) % inside, np.arange(out)] = 1
    if scale is not None:
        ones = ones * _spread(scale, ones.shape, ("pairs", 0) if depthwise else ("axis", -1))
    return ones.reshape((1,) * (like.ndim - 2) + ones.shape)
