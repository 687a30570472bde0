"""A pairing made better by trial: it is changed wherever fewer lines then say what differs.

Order and evidence settle nearly every pair. What they leave open, calls of one layer above all,
is decided by what counts: how long the description is.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import permutations
from typing import Any

from ramet.comparing.alignment.items import Item, is_identified
from ramet.comparing.alignment.lines import Count, Lines
from ramet.comparing.alignment.partners import Partners

_VISITS = 400_000
"""How many items are looked at in all: each trial looks at every item once."""

_PERMUTED = 4
"""Of how many equals all orders are tried. Of more, only two at a time change places."""

_DEPTH = 4
"""How many changes may follow one that saves no line by itself."""

_DETOUR = 2
"""How many lines more there may be on the way."""

Change = list[tuple[Item, Item | None]]
"""Items of the first graph, and which partners they get; `None` for none."""


def shorten(pairs: Partners) -> int:
    """Change a pairing in place until no trial makes the description shorter.

    Returns about how many lines it has then.

    Costs O(calls) for each trial, and few trials where few lines are to be explained.
    """
    search = _Search(pairs)
    while search.step():
        pass
    return search.lines


class _Search:
    def __init__(self, pairs: Partners) -> None:
        self._pairs = pairs
        self._lines = Lines(pairs)
        self._size = max(1, sum(map(len, pairs.sides)))
        self._left = _VISITS // self._size
        self._count = self._lines.count()

    @property
    def lines(self) -> int:
        """How many lines there are now."""
        return self._count.lines

    def step(self) -> bool:
        """Make the first change that saves a line; return whether there is one."""
        if self._count.lines < 1:
            return False
        before = self._pairs.joined()
        for change in self._changes():
            if self._left <= 0:
                return False
            self._make(change)
            count = self._counted()
            if self._is_better(count, before):
                self._count = count
                return True
            self._pairs.restore(before)
        return self._deep(before)

    def _deep(self, before: dict[int, int]) -> bool:
        """Make several changes that only save a line together.

        What one of them costs, the next ones near it have to save: where a chain of calls is
        compared with another of the same layers, all its calls have to change places.
        """
        start = self._count
        for change in [*self._single(*self._questioned())]:
            self._make(change)
            self._count = self._counted()
            done = {item.place for item, _ in change}
            for _ in range(_DEPTH):
                if self._count.lines > start.lines + _DETOUR or self._left <= 0:
                    break
                if not self._follow(done):
                    break
                count = self._count
                self._count = start
                if self._is_better(count, before):
                    self._count = count
                    return True
                self._count = count
            self._pairs.restore(before)
            self._count = start
            if self._left <= 0:
                break
        return False

    def _follow(self, done: set[int]) -> bool:
        """Make the change that leaves fewest lines, of items that were not changed yet."""
        here = self._pairs.joined()
        best: tuple[Count, Change] | None = None
        for change in [*self._single(*self._questioned())]:
            if self._left <= 0:
                break
            if not done.isdisjoint(item.place for item, _ in change):
                continue
            self._make(change)
            count = self._counted()
            if best is None or count.lines < best[0].lines:
                best = count, change
            self._pairs.restore(here)
        if best is None:
            return False
        self._make(best[1])
        self._count = best[0]
        done.update(item.place for item, _ in best[1])
        return True

    def _counted(self) -> Count:
        self._left -= 1
        return self._lines.count()

    def _is_better(self, count: Count, before: dict[int, int]) -> bool:
        return count.lines < self._count.lines and self._is_allowed(before)

    def _make(self, change: Change) -> None:
        for a, b in change:
            for item, side in ((a, 0), (b, 1)):
                partner = None if item is None else self._pairs.of[side].get(item.place)
                if item is not None and partner is not None:
                    self._pairs.part(*((item, partner) if side == 0 else (partner, item)))
        for a, b in change:
            if b is not None:
                self._pairs.join(a, b)

    def _is_allowed(self, before: dict[int, int]) -> bool:
        """Whether evidence allows the new pairs: layers that differ must stand at one place."""
        return all(
            before.get(a.place) == b.place
            or _equal(a) == _equal(b)
            or is_identified(a, b)
            or self._pairs.is_supported(a, b)
            for a, b in self._pairs.all()
        )

    # --- what is tried

    def _changes(self) -> Iterator[Change]:
        """Yield changes around what lines are about, the smallest first."""
        firsts, seconds = self._questioned()
        yield from self._single(firsts, seconds)
        yield from self._orders(firsts, seconds)

    def _questioned(self) -> tuple[list[Item], list[Item]]:
        """Return the items that lines are about, and those that are the same but for the place."""
        sides = self._pairs.sides
        places = [*map(set, self._count.about)]
        equals = {_equal(sides[side][place]) for side in (0, 1) for place in places[side]}
        for side in (0, 1):
            places[side] |= {item.place for item in sides[side] if _equal(item) in equals}
        for side in (0, 1):
            partners = {b.place for at in places[side] if (b := self._pairs.of[side].get(at))}
            places[1 - side] |= partners
        first, second = (
            [item for item in sides[side] if item.place in places[side]] for side in (0, 1)
        )
        return first, second

    def _single(self, firsts: list[Item], seconds: list[Item]) -> Iterator[Change]:
        """Yield changes of one pair, and of those that it takes the items from."""
        of = self._pairs.of
        for a in firsts:
            partner = of[0].get(a.place)
            if partner is not None and not _is_settled(a, partner):
                yield [(a, None)]
        for a in firsts:
            for b in seconds:
                mine, theirs = of[0].get(a.place), of[1].get(b.place)
                if mine is b or not self._may_pair(a, b):
                    continue
                if not (_may_leave(a, mine, b) and _may_leave(theirs, b, a)):
                    continue
                if theirs is not None and mine is not None and self._may_pair(theirs, mine):
                    yield [(a, b), (theirs, mine)]
                yield [(a, b)]

    def _may_pair(self, a: Item, b: Item) -> bool:
        if a.node.is_input or b.node.is_input:
            return False
        if _equal(a) == _equal(b) or is_identified(a, b):
            return True
        return not (self._pairs.is_elsewhere(a, 0) or self._pairs.is_elsewhere(b, 1))

    def _orders(self, firsts: list[Item], seconds: list[Item]) -> Iterator[Change]:
        """Yield all ways to pair a few items that are the same but for their places."""
        groups: defaultdict[Any, tuple[list[Item], list[Item]]] = defaultdict(lambda: ([], []))
        for side, items in enumerate((firsts, seconds)):
            for item in items:
                groups[_equal(item)][side].append(item)
        for olds, news in groups.values():
            if min(len(olds), len(news)) > 1 and max(len(olds), len(news)) <= _PERMUTED:
                empty = [None] * max(0, len(olds) - len(news))
                for order in permutations([*news, *empty], len(olds)):
                    yield [*zip(olds, order, strict=True)]


def _may_leave(a: Item | None, b: Item | None, other: Item) -> bool:
    """Whether a pair may be parted for another one."""
    if a is None or b is None or not _is_settled(a, b):
        return True
    return _equal(other) in (_equal(a), _equal(b))


def _is_settled(a: Item, b: Item) -> bool:
    """Whether evidence other than the place says that two items are the same."""
    return a.node.is_input or is_identified(a, b) or (a.name is not None and a.name == b.name)


def _equal(item: Item) -> Any:
    """Return what is the same for items that only their places tell apart."""
    return item.kind, item.fact, item.name, item.facts.content
