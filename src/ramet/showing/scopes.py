"""What is drawn inside a view or an unfolded group: its nodes and folded groups, in ranks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ramet.showing.groups import Group
from ramet.showing.parts import CHANGED, SAME, Edge, View
from ramet.showing.ranks import ranked

Item: TypeAlias = int | str
"""A node by its number; group 0 as -1; `in` and `out`, where edges cross the border."""


@dataclass(frozen=True, slots=True)
class Line:
    """What one or several edges are drawn as, inside a scope."""

    path: tuple[int, ...]
    """What it joins, and the points between them, by their places in the scope."""
    masked: bool
    """Whether one of the edges carries a mask."""
    difference: str
    """How the edges differ, if they all differ alike."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is drawn in one frame."""

    items: tuple[Item, ...]
    """Nodes, groups and ports."""
    ranks: tuple[tuple[int, ...], ...]
    """Items by their places in `items`, and points of lines by the numbers above those."""
    lines: tuple[Line, ...]
    """The lines between items."""


def scopes_of(view: View, groups: tuple[Group, ...]) -> list[Scope]:
    """Return the scope of a view, and then that of each of its groups."""
    homes: list[int | None] = [None] * len(view.nodes)
    for number, group in enumerate(groups):  # inner groups come later
        for node in group.nodes:
            homes[node] = number
    index = {node.name: number for number, node in enumerate(view.nodes)}
    lines: dict[int | None, dict[tuple[Item, Item], list[Edge]]] = {None: {}}
    lines |= {number: {} for number in range(len(groups))}
    for edge in view.edges:
        ends = index[edge.source], index[edge.target]
        for scope, pair in _parts(ends, homes, groups):
            lines[scope].setdefault(pair, []).append(edge)
    items: dict[int | None, list[Item]] = {scope: [] for scope in lines}
    placed = [(min(group.nodes), group.parent, -1 - number) for number, group in enumerate(groups)]
    placed += [(node, home, node) for node, home in enumerate(homes)]
    for _, home, item in sorted(placed, key=lambda each: each[0]):
        items[home].append(item)
    return [_scope(items[scope], edges) for scope, edges in lines.items()]


def _parts(
    ends: tuple[int, int], homes: list[int | None], groups: tuple[Group, ...]
) -> Iterator[tuple[int | None, tuple[Item, Item]]]:
    """Yield the parts of an edge: in each scope that it goes through, what it joins there."""
    (source, *sources), (target, *targets) = (_way(end, homes, groups) for end in ends)
    last_source, last_target = source[1], target[1]
    outer = [scope for scope, _ in [source, *sources]]
    inner = [scope for scope, _ in [target, *targets]]
    common = next(scope for scope in outer if scope in inner)
    for scope, item in [source, *sources]:
        last_source = item
        if scope == common:
            break
        yield scope, (item, "out")
    for scope, item in [target, *targets]:
        last_target = item
        if scope == common:
            break
        yield scope, ("in", item)
    yield common, (last_source, last_target)


def _way(
    node: int, homes: list[int | None], groups: tuple[Group, ...]
) -> list[tuple[int | None, int]]:
    """List the scopes around a node, innermost first, with what stands for it in each."""
    way: list[tuple[int | None, int]] = [(homes[node], node)]
    while (scope := way[-1][0]) is not None:
        way.append((groups[scope].parent, -1 - scope))
    return way


def _scope(items: list[Item], edges: dict[tuple[Item, Item], list[Edge]]) -> Scope:
    ports = {end for pair in edges for end in pair if isinstance(end, str)}
    every = (*items, *sorted(ports))
    place = {item: number for number, item in enumerate(every)}
    pairs = [(place[source], place[target]) for source, target in edges]
    ranks = ranked(len(every), pairs, top=place.get("in"), bottom=place.get("out"))
    lines = (
        Line(
            chain if chain[0] == source else chain[::-1],
            any(edge.masked for edge in drawn),
            _difference(drawn),
        )
        for chain, (source, _), drawn in zip(ranks.chains, pairs, edges.values(), strict=True)
    )
    return Scope(every, ranks.ranks, tuple(lines))


def _difference(edges: list[Edge]) -> str:
    differences = {edge.difference for edge in edges}
    if len(differences) == 1:
        return differences.pop()
    return SAME if differences == {SAME} else CHANGED
