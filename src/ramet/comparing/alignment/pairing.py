"""Which nodes of two graphs belong together, so that the least has changed.

Evidence, from the strongest: weights, and names that somebody chose. Where they settle a
pair beyond doubt, it is an anchor. Between the anchors, nodes are paired in order at the least
cost, which is about the number of lines that a comparison would need to tell the rest.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from ramet.comparing.alignment.items import Item, are_alike, content_of, is_identified, name_of
from ramet.comparing.alignment.nodes import Node
from ramet.comparing.alignment.partners import Partners
from ramet.comparing.alignment.sequence import ascending, cheapest
from ramet.comparing.alignment.shortening import shorten
from ramet.graph.names import is_automatic

_EXCHANGED = 10_000
"""Among how many pairs it is asked which calls of a shared layer, or of equals, belong together."""


def pair(first: list[Item], second: list[Item]) -> tuple[list[tuple[Item, Item]], int]:
    """Return the items that belong together, and about how many lines say how they differ."""
    pairs = _Pairing(first, second).pairs()
    lines = shorten(pairs)
    return pairs.all(), lines


class _Pairing:
    def __init__(self, first: list[Item], second: list[Item]) -> None:
        self._pairs = Partners(first, second)
        self._sides = first, second
        self._layers: dict[str | None, str | None] = {}
        """The layers of the second graph by those of the first, so far as is known."""

    def pairs(self) -> Partners:
        sure = [*self._anchors()]
        places = {(a.place, b.place) for a, b in sure}
        in_order = {*ascending([*places])}
        for a, b in sure:
            if (a.place, b.place) in in_order or is_identified(a, b):
                self._pairs.join(a, b)
        joined = {place: b.place for place, b in self._pairs.of[0].items()}
        self._between(sorted(in_order))
        if self._learn_layers():
            for place, b in [*self._pairs.of[0].items()]:
                if place not in joined:
                    self._pairs.part(self._sides[0][place], b)
            self._between(sorted(in_order))
        self._leftovers()
        self._drop_unsupported()
        self._leftovers()
        self._exchange()
        return self._pairs

    def _learn_layers(self) -> bool:
        """Note which layers have most calls in common; return whether some calls disagree."""
        votes: defaultdict[str | None, Counter[str | None]] = defaultdict(Counter)
        for place, b in self._pairs.of[0].items():
            votes[self._sides[0][place].node.key][b.node.key] += 1
        self._layers = {key: counts.most_common(1)[0][0] for key, counts in votes.items()}
        return any(len(counts) > 1 for counts in votes.values())

    # --- anchors

    def _anchors(self) -> Iterator[tuple[Item, Item]]:
        """Yield pairs that are beyond doubt, each item in one of them at most."""
        met: tuple[set[int], set[int]] = (set(), set())
        for sign in (content_of, name_of):
            groups = [_grouped(side, sign) for side in self._sides]
            for mark, (a, *others) in groups[0].items():
                b, *more = groups[1].get(mark, [None])
                if b is None or others or more or a.place in met[0] or b.place in met[1]:
                    continue
                if sign is content_of or self._is_anchored_by_name(a, b):
                    met[0].add(a.place)
                    met[1].add(b.place)
                    yield a, b

    def _is_anchored_by_name(self, a: Item, b: Item) -> bool:
        if a.facts.content or b.facts.content:
            return not (self._is_known(a, 1) or self._is_known(b, 0))
        # Names of layers without weights may have been swapped: their neighbours must agree.
        if a.node.is_input:
            return b.node.is_input
        near = zip(_neighbours(a.node), _neighbours(b.node), strict=True)
        return all(not mine.isdisjoint(theirs) for mine, theirs in near)

    def _is_known(self, item: Item, side: int) -> bool:
        """Whether weights of an item are found in a graph."""
        return not item.facts.content.isdisjoint(self._pairs.weights[side])

    # --- in order

    def _between(self, anchors: list[tuple[int, int]]) -> None:
        """Pair what is left between anchors, in order."""
        ends = [*anchors, (len(self._sides[0]), len(self._sides[1]))]
        before = (-1, -1)
        for end in ends:
            gaps = [
                [item for item in self._sides[side][before[side] + 1 : end[side]] if free(item)]
                for side, free in ((0, self._pairs.is_free(0)), (1, self._pairs.is_free(1)))
            ]
            self._in_order(*gaps)
            before = end

    def _in_order(self, first: list[Item], second: list[Item]) -> None:
        start, most = 0, min(len(first), len(second))
        while start < most and self._is_same(first[start], second[start], from_above=True):
            self._pairs.join(first[start], second[start])
            start += 1
        end = 0
        while end < most - start and self._is_same(first[~end], second[~end], from_above=False):
            self._pairs.join(first[~end], second[~end])
            end += 1
        rest = [side[start : len(side) - end] for side in (first, second)]
        for i, j in cheapest(rest[0], rest[1], self._cost):
            self._pairs.join(rest[0][i], rest[1][j])

    def _is_same(self, a: Item, b: Item, *, from_above: bool) -> bool:
        """Whether nothing speaks against a pair, also where it stands."""
        if a.fact != b.fact or a.name != b.name or a.around != b.around:
            return False
        if a.facts.content != b.facts.content and (self._is_known(a, 1) or self._is_known(b, 0)):
            return False
        return a.above == b.above if from_above else a.below == b.below

    def _cost(self, a: Item, b: Item) -> float | None:
        """Return about how many lines it takes to tell how two nodes differ."""
        if a.node.is_input != b.node.is_input:
            return None
        ties = 0.01 * (
            (a.above != b.above)
            + (a.below != b.below)
            + 5 * (a.around[0] != b.around[0])
            + 5 * (a.around[1] != b.around[1])
            + (a.node.call.name != b.node.call.name)
        )
        ties += self._layer_tie(a, b)
        is_named = a.name == b.name
        if a.kind != b.kind and not (a.is_model and b.is_model):
            if self._pairs.is_elsewhere(a, 0) or self._pairs.is_elsewhere(b, 1):
                return None
            return (1.2 if is_named and a.name is not None else 1.8) + ties
        mine, others = a.facts.content, b.facts.content
        is_alike = not mine.isdisjoint(others)
        cost = 0.0 if is_named else 1.0
        if a.fact != b.fact:
            if not (is_named or is_alike) or (a.is_model and not are_alike(a, b)):
                return 1.4 + ties
            cost += 0.5 if a.is_model else 1.0
        elif mine != others:
            cost += 0.5
        if is_alike:
            cost = min(cost, 1.4)
        return cost + ties

    def _layer_tie(self, a: Item, b: Item) -> float:
        """Return what it costs that other calls of the layers belong together, or do not."""
        expected = self._layers.get(a.node.key)
        return 0.0 if expected is None or expected == b.node.key else 0.15

    # --- out of order

    def _leftovers(self) -> None:
        """Pair what is left by weights, by name, and by what it reads, in any order."""
        for sign in (content_of, name_of):
            self._join_alike(lambda item, _, sign=sign: sign(item))
        self._join_by_weights()
        self._join_alike(self._reading)
        self._join_alike(self._read_by)
        self._join_alike(lambda item, _: (item.fact, item.name, item.node.call.name))
        for sign in (self._reading, self._read_by):  # Renamed, and moved in the order.
            self._join_alike(lambda item, side, sign=sign: _without_name(sign(item, side)))
        self._learn_layers()
        self._join_alike(self._of_layer)

    def _join_alike(self, sign: Callable[[Item, int], Any]) -> None:
        groups: defaultdict[Any, list[Item]] = defaultdict(list)
        for item in filter(self._pairs.is_free(1), self._sides[1]):
            groups[sign(item, 1)].append(item)
        if not groups:
            return
        for item in filter(self._pairs.is_free(0), self._sides[0]):
            mark = sign(item, 0)
            if mark is not None and groups.get(mark):
                self._pairs.join(item, groups[mark].pop(0))

    def _join_by_weights(self) -> None:
        """Pair what has some weights in common, such as a model that was edited inside."""
        holders: defaultdict[Any, list[Item]] = defaultdict(list)
        for item in filter(self._pairs.is_free(1), self._sides[1]):
            for weight in item.facts.content:
                holders[weight].append(item)
        for item in filter(self._pairs.is_free(0), self._sides[0]) if holders else ():
            common = Counter(
                other.place
                for weight in item.facts.content
                for other in holders[weight]
                if other.place not in self._pairs.of[1]
                and (other.kind == item.kind or (other.is_model and item.is_model))
            )
            for place, _ in common.most_common(1):
                self._pairs.join(item, self._sides[1][place])

    def _reading(self, item: Item, side: int) -> Any:
        """Return what an item is and reads, in terms of the first graph."""
        reads = [(self._pairs.known(maker, side), index) for maker, index in item.node.inputs]
        is_known = reads and all(place is not None for place, _ in reads)
        return (item.fact, item.name, *reads) if is_known else None

    def _of_layer(self, item: Item, side: int) -> Any:
        """Return the layer of an item, in terms of the second graph, if it is paired."""
        return item.node.key if side else self._layers.get(item.node.key)

    def _read_by(self, item: Item, side: int) -> Any:
        """Return what an item is and who reads it, in terms of the first graph."""
        return item.fact, item.name, frozenset(self._pairs.targets(item.node, side))

    # --- what nothing but the place tells apart

    def _exchange(self) -> None:
        """Pair items that are the same but for their places by what is around them."""
        groups: defaultdict[Any, tuple[list[Item], list[Item]]] = defaultdict(lambda: ([], []))
        for number, side in enumerate(self._sides):
            for item in side:
                mark = item.kind, item.fact, item.name, item.facts.content
                groups[mark][number].append(item)
        for first, second in groups.values():
            if 1 < len(first) * len(second) <= _EXCHANGED:
                self._exchange_among(first, second)

    def _exchange_among(self, first: list[Item], second: list[Item]) -> None:
        theirs = {b.place for b in second}
        now = [(a, b) for a in first if (b := self._pairs.of[0].get(a.place)) and b.place in theirs]
        kept = {a.place for a, _ in now}, {b.place for _, b in now}
        olds = [a for a in first if a.place in kept[0] or a.place not in self._pairs.of[0]]
        news = [b for b in second if b.place in kept[1] or b.place not in self._pairs.of[1]]
        around = [
            [self._around(item, side) for item in items] for side, items in ((0, olds), (1, news))
        ]
        agreeing = {
            (a.place, b.place): len(x & y)
            for a, x in zip(olds, around[0], strict=True)
            for b, y in zip(news, around[1], strict=True)
        }
        current = {(a.place, b.place) for a, b in now}
        names = {(a.place, b.place) for a in olds for b in news if _is_called_alike(a, b)}
        best = sum(agreeing[pair] for pair in current)
        for preferred in (current, names):
            better: dict[int, int] = {}
            taken: set[int] = set()
            for a, b in sorted(agreeing, key=lambda pair: (-agreeing[pair], pair not in preferred)):
                if a not in better and b not in taken:
                    better[a] = b
                    taken.add(b)
            if sum(agreeing[pair] for pair in better.items()) > best:
                for a, b in now:
                    self._pairs.part(a, b)
                for a, b in better.items():
                    self._pairs.join(self._sides[0][a], self._sides[1][b])
                return

    def _around(self, item: Item, side: int) -> set[Any]:
        """Return what an item reads and who reads it, each beside the other."""
        sources = {
            ("from", *each) for each in self._pairs.sources(item.node, side) if each != "nothing"
        }
        return sources | self._pairs.targets(item.node, side)

    # --- support

    def _drop_unsupported(self) -> None:
        """Part pairs that neither weights nor a name identify and that stand elsewhere."""
        lost: list[tuple[Item, Item]] = []
        for a, b in [(a, self._pairs.of[0].get(a.place)) for a in self._sides[0]]:
            if b is None or a.node.is_input or is_identified(a, b):
                continue
            if not self._pairs.is_supported(a, b):
                lost.append((a, b))
        kept = {(a.node.key, b.node.key) for a, b in self._pairs.all() if (a, b) not in lost}
        for a, b in lost:
            # A layer that took the place of another did so in all calls.
            if a.node.key is None or (a.node.key, b.node.key) not in kept:
                self._pairs.part(a, b)


def _grouped(items: list[Item], sign: Callable[[Item], Any]) -> dict[Any, list[Item]]:
    groups: defaultdict[Any, list[Item]] = defaultdict(list)
    for item in items:
        mark = sign(item)
        if mark is not None:
            groups[mark].append(item)
    return groups


def _without_name(sign: tuple[Any, ...] | None) -> Any:
    """Return what an item is and where it stands, whatever its name is."""
    return None if sign is None else (sign[0], *sign[2:])


def _is_called_alike(a: Item, b: Item) -> bool:
    return a.node.call.name == b.node.call.name


def _neighbours(node: Node) -> tuple[set[Any], set[Any]]:
    """Return who a node reads and who reads it where, by names that somebody chose."""
    sources = {(_chosen(maker), place, index) for place, (maker, index) in enumerate(node.inputs)}
    targets = {
        ("output" if reader is None else _chosen(reader), place, index)
        for reader, place, index in node.readers
    }
    first, second = ({each for each in side if each[0] is not None} for side in (sources, targets))
    return first, second


def _chosen(node: Node) -> str | None:
    if node.layer is None or is_automatic(node.layer.name, node.layer.kind):
        return None
    return node.layer.name
