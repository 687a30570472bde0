"""What an axis is made of, and which old index each index of a new one comes from.

An axis is a *run* of channels from one source, several parts *joined* end to end (the
output of Concatenate), parts *crossed* like rows and columns (the output of Flatten, and
the gates of an LSTM, each as wide as the layer), or parts that must *agree* (the inputs
of Add). Old and new axes are compared part by part.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np


@dataclass(frozen=True, eq=False, slots=True)
class Run:
    """Consecutive channels from one source."""

    key: Hashable
    """Identifies the source: the same before and after the edits."""
    size: int | None
    """How many there are; `None` if that is not known."""
    unclear: str | None = None
    """Why it is not known where a run of another size grew; `None` if it is at its end."""
    anchor: float = 0
    """The index that stays in its place: 0 for a run that grows at its end."""


@dataclass(frozen=True, eq=False, slots=True)
class Joined:
    """Parts end to end."""

    parts: "tuple[Part, ...]"
    """Two parts or more, none of them a `Joined`."""
    key: Hashable = field(init=False)
    """The keys of the parts."""
    size: int | None = field(init=False)
    """The sum of their sizes."""

    def __post_init__(self) -> None:
        """Add up the sizes."""
        object.__setattr__(self, "key", ("joined", *(part.key for part in self.parts)))
        object.__setattr__(self, "size", _total(self.parts, sum))


@dataclass(frozen=True, eq=False, slots=True)
class Crossed:
    """Parts like rows and columns: the last one varies fastest."""

    parts: "tuple[Part, ...]"
    """The parts, the one that varies slowest first."""
    key: Hashable = field(init=False)
    """The keys of the parts."""
    size: int | None = field(init=False)
    """The product of their sizes."""

    def __post_init__(self) -> None:
        """Multiply the sizes."""
        object.__setattr__(self, "key", ("crossed", *(part.key for part in self.parts)))
        object.__setattr__(self, "size", _total(self.parts, lambda sizes: int(np.prod(sizes))))


@dataclass(frozen=True, eq=False, slots=True)
class Agreed:
    """One axis that several parts have in common."""

    parts: "tuple[Part, ...]"
    """Two parts or more, none of them an `Agreed`."""
    key: Hashable = field(init=False)
    """The keys of the parts."""
    size: int | None = field(init=False)
    """The size that all of them have."""

    def __post_init__(self) -> None:
        """Use the size of the first part."""
        object.__setattr__(self, "key", ("agreed", *(part.key for part in self.parts)))
        object.__setattr__(self, "size", self.parts[0].size)


Part: TypeAlias = Run | Joined | Crossed | Agreed
Axes: TypeAlias = tuple[Part, ...]
"""The axes of one tensor or variable."""


class UnclearError(Exception):
    """It is not known how an old axis and a new one correspond; the message says why."""


def _total(parts: Sequence[Part], combine: Callable[[list[int]], int]) -> int | None:
    sizes = [part.size for part in parts if part.size is not None]
    return combine(sizes) if len(sizes) == len(parts) else None


def joined(parts: Sequence[Part]) -> Part:
    """Return parts end to end as one."""
    flat = tuple(p for part in parts for p in (part.parts if isinstance(part, Joined) else (part,)))
    return flat[0] if len(flat) == 1 else Joined(flat)


def crossed(parts: Sequence[Part]) -> Part:
    """Return parts like rows and columns as one."""
    flat = tuple(
        p for part in parts for p in (part.parts if isinstance(part, Crossed) else (part,))
    )
    return flat[0] if len(flat) == 1 else Crossed(flat)


def agreed(parts: Sequence[Part]) -> Part:
    """Return parts that describe one axis as one."""
    flat = (p for part in parts for p in (part.parts if isinstance(part, Agreed) else (part,)))
    unique = tuple({part.key: part for part in flat}.values())
    return unique[0] if len(unique) == 1 else Agreed(unique)


def index_map(old: Part, new: Part, *, repeat: bool = False) -> np.ndarray:
    """Return for each index of a new axis the old one that it corresponds to, or -1.

    Args:
        old: What the old axis was made of.
        new: What the new one is made of.
        repeat: Whether indices that a run gained correspond to its old ones, repeated.

    Raises:
        UnclearError: If that is not known.
    """
    if isinstance(old, Agreed) or isinstance(new, Agreed):
        return _agreed_map(old, new, repeat=repeat)
    if isinstance(old, Joined) or isinstance(new, Joined):
        return _joined_map(old, new, repeat=repeat)
    if isinstance(old, Crossed) and isinstance(new, Crossed) and len(old.parts) == len(new.parts):
        return _crossed_map(old.parts, new.parts, repeat=repeat)
    if isinstance(old, Run) and isinstance(new, Run):
        return _run_map(old, new, repeat=repeat)
    return _same_size(old, new, "it was composed in another way before")


def _same_size(old: Part, new: Part, reason: str) -> np.ndarray:
    """Return the identity for axes of one size, which can only be matched by position."""
    if old.size is None or old.size != new.size:
        raise UnclearError(reason)
    return np.arange(old.size)


def _run_map(old: Run, new: Run, *, repeat: bool) -> np.ndarray:
    if old.size == new.size:
        return _same_size(old, new, "its size is not known")
    offset, anchored = new.anchor - old.anchor, bool(new.anchor or old.anchor)
    unclear = new.unclear or old.unclear
    if anchored and old.key != new.key:
        unclear = "padding or strides changed as well"
    if old.size is None or new.size is None or unclear or offset != int(offset):
        raise UnclearError(unclear or "it is not known where it grew")
    if repeat and not anchored:
        return np.arange(new.size) % old.size
    indices = np.arange(new.size) - int(offset)
    return np.where((indices >= 0) & (indices < old.size), indices, -1)


def _crossed_map(old: Axes, new: Axes, *, repeat: bool) -> np.ndarray:
    indices = np.zeros(1, int)
    for before, now in zip(old, new, strict=True):
        step = index_map(before, now, repeat=repeat)
        combined = indices[:, None] * int(before.size or 0) + step[None, :]
        indices = np.where((indices[:, None] < 0) | (step[None, :] < 0), -1, combined).ravel()
    return indices


def _agreed_map(old: Part, new: Part, *, repeat: bool) -> np.ndarray:
    olds, news = (part.parts if isinstance(part, Agreed) else (part,) for part in (old, new))
    known = {part.key: part for part in olds}
    pairs = [(known[part.key], part) for part in news if part.key in known]
    if len(olds) == len(news) != len(pairs):
        pairs = [*zip(olds, news, strict=True)]
    if not pairs:
        return _same_size(old, new, "other tensors were merged before")
    maps = [index_map(before, now, repeat=repeat) for before, now in pairs]
    if any(not np.array_equal(maps[0], other) for other in maps[1:]):
        reason = "the tensors that are merged there grew in different places"
        raise UnclearError(reason)
    return maps[0]


def _joined_map(old: Part, new: Part, *, repeat: bool) -> np.ndarray:
    olds, news = (part.parts if isinstance(part, Joined) else (part,) for part in (old, new))
    pairs = _paired([part.key for part in olds], [part.key for part in news])
    if not pairs:
        unclear = (part.unclear for part in (*news, *olds) if isinstance(part, Run))
        return _same_size(old, new, next(filter(None, unclear), "other tensors were joined before"))
    starts = np.cumsum([0, *(part.size or 0 for part in olds)])
    pieces: list[np.ndarray] = []
    for position, part in enumerate(news):
        if position in pairs:
            at = pairs[position]
            inner = index_map(olds[at], part, repeat=repeat)
            pieces.append(np.where(inner < 0, -1, inner + starts[at]))
        elif part.size is None:
            reason = "its size is not known"
            raise UnclearError(reason)
        else:
            pieces.append(np.full(part.size, -1))
    return np.concatenate(pieces)


def _paired(olds: list[Hashable], news: list[Hashable]) -> dict[int, int]:
    """Pair parts: those with equal keys in order, the rest by position if as many are left.

    Raises:
        UnclearError: If one key occurs more or less often than before.
    """
    if olds == news:
        return {position: position for position in range(len(news))}
    before, now = Counter(olds), Counter(news)
    if any(before[key] not in (0, count) for key, count in now.items()):
        reason = "a tensor is joined more or less often than before"
        raise UnclearError(reason)
    waiting = {key: [i for i, other in enumerate(olds) if other == key] for key in before}
    pairs = {i: waiting[key].pop(0) for i, key in enumerate(news) if waiting.get(key)}
    used = {*pairs.values()}
    left = [i for i in range(len(olds)) if i not in used]
    if len(olds) == len(news) and left == [i for i in range(len(news)) if i not in pairs]:
        pairs |= {i: i for i in left}
    return pairs


def overlaid(new: np.ndarray, old: np.ndarray, maps: Sequence[np.ndarray]) -> np.ndarray:
    """Return new values, overwritten by the old ones wherever the maps lead to one."""
    values = new.copy()
    places = [np.flatnonzero(each >= 0) for each in maps]
    sources = [each[at] for each, at in zip(maps, places, strict=True)]
    values[np.ix_(*places)] = old[np.ix_(*sources)]
    return values
