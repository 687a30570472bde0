"""About how many lines it takes to say how two graphs differ, if their calls are paired so.

What it counts is what `differences` lists, from the evidence alone: no config or weight is read.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ramet.comparing.alignment.items import Item
from ramet.comparing.alignment.nodes import is_named_alike
from ramet.comparing.alignment.partners import Partners

Source = tuple[int, int, bool] | None
"""A tensor by place and output of what makes it in the first graph, and whether it is read past
a layer that only one graph has; `None` if several tensors lead to it."""


@dataclass
class Count:
    """How many lines there are, and which items they are about."""

    lines: int = 0
    """How many."""
    about: tuple[set[int], set[int]] = field(default_factory=lambda: (set[int](), set[int]()))
    """Places of the items on both sides that a line is about."""

    def add(self, firsts: Iterable[int], seconds: Iterable[int]) -> None:
        """Add a line."""
        self.lines += 1
        self.about[0].update(firsts)
        self.about[1].update(seconds)


class Lines:
    """Counts the lines of pairings of the same two graphs."""

    def __init__(self, pairs: Partners) -> None:
        """Read what all counts have in common."""
        self._pairs = pairs
        self._reads = [
            [[(places[id(maker)], index) for maker, index in item.node.inputs] for item in side]
            for side, places in zip(pairs.sides, pairs.places, strict=True)
        ]
        self._outputs = [
            {
                at: (item.place, index)
                for item in side
                for reader, at, index in item.node.readers
                if reader is None
            }
            for side in pairs.sides
        ]
        self._costs: dict[tuple[str | None, str | None], int] = {}

    def count(self) -> Count:
        """Count the lines of the pairing as it is now. Costs O(calls)."""
        count = Count()
        joined = self._pairs.all()
        self._count_missing(count, 0)
        self._count_missing(count, 1)
        self._count_layers(count, joined)
        known: tuple[dict[int, Source], dict[int, Source]] = ({}, {})
        for a, b in joined:
            if not self._reads_same(a, b, known):
                makers = [{at for at, _ in self._reads[s][i.place]} for s, i in ((0, a), (1, b))]
                count.add({a.place, *makers[0]}, {b.place, *makers[1]})
        self._count_outputs(count, known)
        return count

    # --- layers

    def _count_missing(self, count: Count, side: int) -> None:
        """Count layers that only one graph has, and calls of layers that both have."""
        partners = self._pairs.of[side]
        items = self._pairs.sides[side]
        paired = {items[place].node.key for place in partners}
        alone: set[str] = set()
        for item in items:
            if item.place in partners:
                continue
            key = item.node.key
            count.about[side].add(item.place)
            if key is None or key in paired or key not in alone:
                count.lines += 1
            if key is not None:
                alone.add(key)

    def _count_layers(self, count: Count, joined: list[tuple[Item, Item]]) -> None:
        """Count layers that differ, and those that are several in one graph only."""
        calls = paired_layers(joined)
        used = Counter(old for old, _ in calls), Counter(new for _, new in calls)
        for keys in primary(calls):
            both = calls[keys]
            if keys not in self._costs:
                self._costs[keys] = _layer_lines(*both[0])
            if self._costs[keys]:
                count.add((a.place for a, _ in both), (b.place for _, b in both))
                count.lines += self._costs[keys] - 1
        split = [keys for keys in calls if used[0][keys[0]] > 1 or used[1][keys[1]] > 1]
        for group in _connected(split):
            both = [pair for keys in group for pair in calls[keys]]
            count.add((a.place for a, _ in both), (b.place for _, b in both))

    # --- tensors

    def _reads_same(
        self, a: Item, b: Item, known: tuple[dict[int, Source], dict[int, Source]]
    ) -> bool:
        if a.kind == b.kind and a.constants != b.constants:
            return False
        reads = [
            [self._source(tensor, side, known[side]) for tensor in self._reads[side][item.place]]
            for side, item in ((0, a), (1, b))
        ]
        return len(reads[0]) == len(reads[1]) and all(map(_agree, *reads))

    def _source(self, tensor: tuple[int, int], side: int, known: dict[int, Source]) -> Source:
        """Return a tensor in terms of the first graph, past layers that only one has."""
        place, index = tensor
        partners = self._pairs.of[side]
        if place in partners:
            return partners[place].place if side else place, index, False
        path: list[int] = []
        source: Source = None
        while place not in known:
            path.append(place)
            if len(self._reads[side][place]) != 1:
                break
            ((above, index),) = self._reads[side][place]
            if above in partners:
                source = partners[above].place if side else above, index, True
                break
            place = above
        else:
            source = known[place]
        known |= dict.fromkeys(path, source)
        return source

    def _count_outputs(
        self, count: Count, known: tuple[dict[int, Source], dict[int, Source]]
    ) -> None:
        first, second = self._outputs

        def is_same(at: int) -> bool:
            sources = [self._source(self._outputs[s][at], s, known[s]) for s in (0, 1)]
            return _agree(*sources)

        common = first.keys() & second.keys()
        changed = [at for at in {*first, *second} if at not in common or not is_same(at)]
        if changed:
            makers = ({out[at][0] for at in changed if at in out} for out in (first, second))
            count.add(*makers)


Keys = tuple[str, str]
"""The keys of a layer of the first graph and of one of the second."""


def paired_layers(joined: list[tuple[Item, Item]]) -> dict[Keys, list[tuple[Item, Item]]]:
    """Return the paired calls by the keys of their layers."""
    calls: defaultdict[Keys, list[tuple[Item, Item]]] = defaultdict(list)
    for a, b in joined:
        if a.node.key is not None and b.node.key is not None:
            calls[a.node.key, b.node.key].append((a, b))
    return calls


def primary(calls: dict[Keys, list[tuple[Item, Item]]]) -> Iterator[Keys]:
    """Yield the pairs of layers that belong together, no layer in two of them.

    Where calls of one layer became calls of several, or the other way round, the layers with
    the same name belong together, or else those with most calls in common.
    """

    def rank(keys: Keys) -> tuple[bool, bool, int]:
        a, b = calls[keys][0]
        return keys[0] != keys[1], a.name != b.name, -len(calls[keys])

    met: tuple[set[str], set[str]] = (set(), set())
    for old, new in sorted(calls, key=rank):
        if old not in met[0] and new not in met[1]:
            met[0].add(old)
            met[1].add(new)
            yield old, new


def _layer_lines(a: Item, b: Item) -> int:
    """Return how many lines say how two layers differ."""
    is_renamed, is_other = not is_named_alike(a.node, b.node), a.facts.fact != b.facts.fact
    if a.is_model and b.is_model:
        inside = sum((a.facts.parts - b.facts.parts).values())
        return is_renamed + (max(1, inside) if is_other else 0)
    if a.kind != b.kind:
        return 1
    contents = a.facts.content, b.facts.content
    if is_renamed and is_other and contents[0].isdisjoint(contents[1]):
        return 1
    return is_renamed + (is_other or contents[0] != contents[1])


def _agree(old: Source, new: Source) -> bool:
    if old is None or new is None:
        return True  # What makes it is listed as added or removed.
    return old[:2] == new[:2] or (old[2] and new[2])


def _connected(pairs: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Return pairs of keys, together where they have a key in common."""
    groups: list[tuple[set[str], set[str], list[tuple[str, str]]]] = []
    for old, new in pairs:
        near = [group for group in groups if old in group[0] or new in group[1]]
        whole = {old}, {new}, [(old, new)]
        for group in near:
            whole = whole[0] | group[0], whole[1] | group[1], [*group[2], *whole[2]]
        groups = [group for group in groups if group not in near] + [whole]
    return [group[2] for group in groups]
