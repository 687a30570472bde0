"""The weights of layers that get more channels, so that the function stays the same.

A new channel starts in one of several ways in each variable; `Growth` says in which. By default,
it is made at random and read with weights of zero.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from ramet.compress.channels.atoms import Labels
from ramet.compress.channels.site import Kind
from ramet.graph.values import Role, Value, mean, multiply, scaled, started, take, weighed

Start: TypeAlias = Literal["random", "zeros", "average", "offsets", "shared"]
"""How new channels of a variable start: at random, with zeros, as the average of the old ones,
with small positive numbers, or as copies that share what the old channel had. Copies that are not
shared are whole."""

Place: TypeAlias = tuple[tuple[int, int], Role]
"""A variable, by the identity of its layer and its role."""

_ONES = frozenset({"gamma", "scale", "variance", "moving_variance", "moving_stddev", "stddev"})
"""Variables of which a new channel starts with one."""


@dataclass(frozen=True)
class Growth:
    """How the layers of a wider group start."""

    copies: bool = False
    """Whether new channels are copies of old ones."""
    starts: Mapping[Place, Mapping[Kind, Start]] = field(default_factory=dict[Place, Any])
    """How variables start that do not start as usual, by what they do with the channels."""
    factors: Mapping[Place, float] = field(default_factory=dict[Place, float])
    """What variables are multiplied by."""
    changes: Mapping[tuple[int, int], Mapping[str, Any]] = field(
        default_factory=dict[tuple[int, int], Mapping[str, Any]]
    )
    """Constructor arguments that change, by the identities of layers."""

    def start(self, place: Place, kind: Kind) -> Start:
        """Return how new channels along an axis of a variable start."""
        known = self.starts.get(place, {})
        if kind in known:
            return known[kind]
        return "random" if kind != "read" else "shared" if self.copies else "zeros"

    def grown(
        self,
        value: Value,
        place: Place,
        shape: tuple[int, ...],
        moved: Sequence[tuple[Labels | None, Kind]],
    ) -> Value:
        """Return a variable with more channels along some axes.

        Args:
            value: The variable.
            place: Which it is.
            shape: Its shape.
            moved: For each axis, the old index of each new one, or -1, and what the variable
                does with the channels; `None` if the axis stays.
        """
        for axis, (indices, kind) in enumerate(moved):
            if indices is None:
                continue
            old = value
            value = take(value, indices, axis)
            shape = (*shape[:axis], len(indices), *shape[axis + 1 :])
            start = self.start(place, kind)
            if self.copies:
                value = _copied(value, indices, axis, len(shape), shared=start == "shared")
            elif start == "average":
                value = started(value, multiply(mean(old, axis), _mask(indices, axis, len(shape))))
            elif start == "offsets":
                offsets = np.random.default_rng(len(indices)).uniform(0.1, 0.3, len(indices))
                value = started(
                    value, _along(np.where(indices < 0, offsets, 0.0), axis, len(shape))
                )
            elif start == "random":
                value = started(value, _start(place[1], shape, indices, axis))
        factor = self.factors.get(place, 1.0)
        return value if factor == 1.0 else scaled(value, np.array(factor))


def sources_for(old: int, new: int, *, copies: bool) -> list[int]:
    """Return for each channel of a wider group the old one that it comes from, or -1."""
    extra = range(new - old)
    return [*range(old), *((i % old if copies else -1) for i in extra)]


def _along(values: Any, axis: int, rank: int) -> np.ndarray[Any, Any]:
    """Return an array that has some values along one axis, and size one along all others."""
    shape = [1] * rank
    shape[axis] = -1
    return np.array(values, np.float64).reshape(shape)


def _mask(indices: Labels, axis: int, rank: int) -> np.ndarray[Any, Any]:
    return _along(indices < 0, axis, rank)


def _copied(value: Value, indices: Labels, axis: int, rank: int, *, shared: bool) -> Value:
    """Return copies of channels, whose parts in what reads them add up to one.

    What reads a copy gets the whole gradient; what makes it, the part of the loss that is read.
    """
    counts = Counter(indices[indices >= 0].tolist())
    if all(count == 1 for count in counts.values()):
        return value
    met: Counter[int] = Counter()
    parts: list[float] = []
    for index in indices.tolist():
        met[index] += 1
        count = counts[index]
        parts.append(2 * met[index] / (count * (count + 1)) if index >= 0 else 1.0)
    along = _along(parts, axis, rank)
    return weighed(scaled(value, along) if shared else value, along)


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
