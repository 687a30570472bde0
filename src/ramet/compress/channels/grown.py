"""The weights of layers that get more channels, so that the function stays the same.

A new channel is read with weights of zero, or it is a copy of an old one, and both share what
reads the old one, in unequal parts, so that they learn different things.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from ramet.compress.channels.atoms import Labels
from ramet.compress.channels.site import Kind
from ramet.graph.values import Role, Value, add, multiply, take

Method: TypeAlias = Literal["zeros", "copies"]
"""What new channels are: read with zeros, or copies of old ones."""

_ONES = frozenset({"gamma", "scale", "variance", "moving_variance", "moving_stddev", "stddev"})
"""Variables of which a new channel starts with one."""


def sources_for(old: int, new: int, method: Method) -> list[int]:
    """Return for each channel of a wider group the old one that it comes from, or -1."""
    extra = range(new - old)
    return [*range(old), *((i % old if method == "copies" else -1) for i in extra)]


def grown(
    value: Value, role: Role, shape: tuple[int, ...], moved: Sequence[tuple[Labels | None, Kind]]
) -> Value:
    """Return a variable with more channels along some axes.

    Args:
        value: The variable.
        role: What it is in its layer.
        shape: Its shape.
        moved: For each axis, the old index of each new one, or -1, and what the variable does
            with the channels; `None` if the axis stays.
    """
    for axis, (indices, kind) in enumerate(moved):
        if indices is None:
            continue
        value = take(value, indices, axis)
        shape = (*shape[:axis], len(indices), *shape[axis + 1 :])
        if kind == "read":
            value = _shared(value, indices, axis, len(shape))
        elif (indices < 0).any():
            value = add(value, _start(role, shape, indices, axis))
    return value


def _shared(value: Value, indices: Labels, axis: int, rank: int) -> Value:
    """Return weights that read copies, so that the parts of each old channel add up to one."""
    counts = Counter(indices[indices >= 0].tolist())
    if all(count == 1 for count in counts.values()):
        return value
    met: Counter[int] = Counter()
    factors: list[float] = []
    for index in indices.tolist():
        met[index] += 1
        count = counts[index]
        factors.append(2 * met[index] / (count * (count + 1)) if index >= 0 else 1.0)
    shape = [1] * rank
    shape[axis] = len(factors)
    return multiply(value, np.array(factors).reshape(shape))


def _start(role: Role, shape: tuple[int, ...], indices: Labels, axis: int) -> np.ndarray[Any, Any]:
    """Return what new channels of a variable start with, and zeros for the old ones."""
    start = np.zeros(shape)
    new = np.moveaxis(start, axis, 0)
    count = int((indices < 0).sum())
    if role[-1] in _ONES:
        new[indices < 0] = 1.0
    elif len(shape) > 1:
        # As Glorot's initializer: kernels read all axes but the last.
        scale = np.sqrt(2.0 / (np.prod(shape[:-1]) + shape[-1]))
        rng = np.random.default_rng([len(role[-1]), *shape])
        new[indices < 0] = rng.normal(0.0, scale, (count, *new.shape[1:]))
    return start
