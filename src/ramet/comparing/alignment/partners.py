"""Which items of two graphs are paired so far, and what that says of the places they stand at."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from ramet.comparing.alignment.items import Item
from ramet.comparing.alignment.nodes import Node


class Partners:
    """A pairing of two lists of items, no item in two pairs."""

    def __init__(self, first: list[Item], second: list[Item]) -> None:
        """Start without pairs."""
        self.sides = first, second
        """The items of both graphs, in order."""
        self.of: tuple[dict[int, Item], dict[int, Item]] = ({}, {})
        """The partners of the first graph's items by their places, and of the second's."""
        self.weights = [
            Counter(weight for item in side for weight in item.facts.content) for side in self.sides
        ]
        """In how many calls each weight of both graphs is used."""
        self.places = [{id(item.node): item.place for item in side} for side in self.sides]
        """The places of both graphs' nodes, by identity."""

    def all(self) -> list[tuple[Item, Item]]:
        """List the pairs in the order of the first graph."""
        return [(self.sides[0][place], b) for place, b in sorted(self.of[0].items())]

    def join(self, a: Item, b: Item) -> None:
        """Pair two items that have no partners."""
        self.of[0][a.place], self.of[1][b.place] = b, a

    def part(self, a: Item, b: Item) -> None:
        """Undo a pair."""
        del self.of[0][a.place], self.of[1][b.place]

    def joined(self) -> dict[int, int]:
        """Return the places of the second graph's items by those of their partners."""
        return {place: b.place for place, b in self.of[0].items()}

    def restore(self, joined: dict[int, int]) -> None:
        """Pair what was paired when `joined` was read, and nothing else."""
        for partners in self.of:
            partners.clear()
        for place, other in joined.items():
            self.join(self.sides[0][place], self.sides[1][other])

    def is_free(self, side: int) -> Callable[[Item], bool]:
        """Return what says whether an item of one side has no partner."""
        return lambda item: item.place not in self.of[side]

    def known(self, node: Node, side: int) -> int | None:
        """Return the place of a node, or of its partner, in the first graph."""
        place = self.places[side][id(node)]
        partner = self.of[side].get(place)
        return None if partner is None else (partner.place if side else place)

    def is_elsewhere(self, item: Item, side: int) -> bool:
        """Whether weights of an item are used in the other graph, in as many calls as here."""
        here, there = self.weights[side], self.weights[1 - side]
        return any(there[weight] >= here[weight] for weight in item.facts.content)

    def is_supported(self, a: Item, b: Item) -> bool:
        """Whether two items stand at one place: all around layers with nothing in common."""
        above = self.sources(a.node, 0), self.sources(b.node, 1)
        below = self.targets(a.node, 0), self.targets(b.node, 1)
        if a.fact == b.fact or (a.name is not None and a.name == b.name):
            return not (above[0].isdisjoint(above[1]) and below[0].isdisjoint(below[1]))
        readers = [{target for target in side if target[0] != "output"} for side in below]
        return (
            above[0] == above[1] and readers[0] == readers[1] and not below[0].isdisjoint(below[1])
        )

    def sources(self, node: Node, side: int) -> set[Any]:
        """Return what a node reads in terms of the first graph, past nodes without partners."""
        sources: set[Any] = set()
        waiting, met = [*node.inputs], set[int]()
        while waiting:
            maker, index = waiting.pop()
            place = self.known(maker, side)
            if place is not None:
                sources.add((place, index))
            elif id(maker) not in met:
                met.add(id(maker))
                waiting += maker.inputs
        return sources or {"nothing"}

    def targets(self, node: Node, side: int) -> set[Any]:
        """Return who reads a node in terms of the first graph, past nodes without partners."""
        targets: set[Any] = set()
        waiting, met = [*node.readers], set[int]()
        while waiting:
            reader, at, _ = waiting.pop()
            if reader is None or id(reader) not in self.places[side]:
                targets.add(("output", at))
                continue
            place = self.known(reader, side)
            if place is not None:
                targets.add((place, at))
            elif id(reader) not in met:
                met.add(id(reader))
                waiting += reader.readers
        return targets
