"""The rank of every node, from top to bottom, and its order within the rank.

An edge that passes ranks gets a point in each of them, so that nodes make room for it. The order
is improved in sweeps down and up that move every node or point to the middle of what it is joined
to in the rank before, as Sugiyama and others described it.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_SWEEPS = 8
"""How often the order is improved; after a few sweeps it hardly changes."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """Nodes, and the points of long edges, in ranks."""

    ranks: tuple[tuple[int, ...], ...]
    """Nodes by their number, and points by numbers above those, from left to right."""
    chains: tuple[tuple[int, ...], ...]
    """For every edge, what it passes, from its upper end to its lower end."""


def ranked(
    size: int,
    edges: Sequence[tuple[int, int]],
    *,
    top: int | None = None,
    bottom: int | None = None,
) -> Ranks:
    """Rank the nodes of a graph. Takes about O(nodes + points of edges), without recursion.

    Args:
        size: The number of nodes.
        edges: Pairs of nodes. An edge that closes a cycle is drawn upwards.
        top: A node that belongs above all others.
        bottom: A node that belongs below all others.
    """
    order = _sorted(size, edges)
    place = {node: number for number, node in enumerate(order)}
    down = [(a, b) if place[a] < place[b] else (b, a) for a, b in edges]
    depth = _depths(order, down, top)
    if bottom is not None:
        depth[bottom] = max([*depth, *(depth[a] + 1 for a, b in down if b == bottom)])
    ranks: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for node in order:
        ranks[depth[node]].append(node)
    chains: list[tuple[int, ...]] = []
    last = size
    for upper, lower in down:
        points = range(last, last + max(depth[lower] - depth[upper] - 1, 0))
        last += len(points)
        for rank, point in enumerate(points, depth[upper] + 1):
            ranks[rank].append(point)
        chains.append((upper, *points, lower))
    return Ranks(tuple(map(tuple, _ordered(ranks, chains, last))), tuple(chains))


def _sorted(size: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Sort nodes below what they depend on; in a cycle, the first node goes first."""
    below: list[list[int]] = [[] for _ in range(size)]
    missing = [0] * size
    for source, target in edges:
        below[source].append(target)
        missing[target] += 1
    order = [node for node in range(size) if not missing[node]]
    done = bytearray(size)
    next_open = 0
    at = 0
    while len(order) < size or at < len(order):
        if at == len(order):  # what is left is in cycles, or below one
            while done[next_open]:
                next_open += 1
            missing[next_open] = 0
            order.append(next_open)
        node = order[at]
        done[node] = 1
        at += 1
        for target in below[node]:
            missing[target] -= 1
            if not missing[target] and not done[target]:
                order.append(target)
    return order


def _depths(order: list[int], down: list[tuple[int, int]], top: int | None) -> list[int]:
    """Return the rank of every node: below its inputs, and close to what it leads to."""
    above: list[list[int]] = [[] for _ in order]
    below: list[list[int]] = [[] for _ in order]
    for source, target in down:
        above[target].append(source)
        below[source].append(target)
    depth = [0] * len(order)
    for node in order:
        start = 0 if top in (None, node) else 1
        depth[node] = max((depth[source] + 1 for source in above[node]), default=start)
    for node in reversed(order):
        if node != top and below[node] and len(above[node]) <= len(below[node]):
            depth[node] = min(depth[target] for target in below[node]) - 1
    return depth


def _ordered(
    ranks: list[list[int]], chains: list[tuple[int, ...]], size: int
) -> list[tuple[int, ...]]:
    """Return the best order of each rank that some sweeps find."""
    above: list[list[int]] = [[] for _ in range(size)]
    below: list[list[int]] = [[] for _ in range(size)]
    for chain in chains:
        for upper, lower in pairwise(chain):
            above[lower].append(upper)
            below[upper].append(lower)
    best, least = [*map(tuple, ranks)], _crossings(ranks, below)
    for sweep in range(_SWEEPS):
        if not least:
            break
        _sweep(ranks, above if sweep % 2 == 0 else below, down=sweep % 2 == 0)
        crossings = _crossings(ranks, below)
        if crossings < least:
            best, least = [*map(tuple, ranks)], crossings
    return best


def _sweep(ranks: list[list[int]], joined: list[list[int]], *, down: bool) -> None:
    places = [0.0] * len(joined)
    for rank in ranks if down else reversed(ranks):
        # What is joined to nothing stays where it is.
        wanted = {
            item: _middle(sorted(places[other] for other in joined[item]), number)
            for number, item in enumerate(rank)
        }
        rank.sort(key=wanted.__getitem__)
        for number, item in enumerate(rank):
            places[item] = number


def _middle(places: list[float], default: float) -> float:
    if not places:
        return default
    half = len(places) // 2
    return places[half] if len(places) % 2 else (places[half - 1] + places[half]) / 2


def _crossings(ranks: list[list[int]], below: list[list[int]]) -> int:
    """Count how often edges cross between neighbouring ranks."""
    count = 0
    for upper, lower in pairwise(ranks):
        place = {item: number for number, item in enumerate(lower)}
        seen: list[int] = []
        for item in upper:
            ends = sorted(place[other] for other in below[item])
            count += sum(len(seen) - bisect_left(seen, end + 1) for end in ends)
            for end in ends:
                insort(seen, end)
    return count
