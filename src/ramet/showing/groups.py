"""Groups of nodes: the blocks of a network, which fold to one node.

Nodes whose names begin alike are a group. Where names say nothing, a group is what lies between
two places at which a single tensor holds everything.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from ramet.showing.parts import View

_FEWEST = 3
"""How many nodes a group has at least."""
_FOLDS_FROM = 24
"""A view with fewer nodes has no groups: it is seen at a glance."""
_WORDS = re.compile(r"[A-Za-z]*\d+|[A-Za-z]+|[^A-Za-z\d_./\-#]+")
"""The words of a name: `block1a_dwconv` has `block1`, `a` and `dwconv`."""


@dataclass(frozen=True, slots=True)
class Group:
    """Some nodes of a view that fold to one."""

    name: str
    """What their names begin with, or the name of the last of them."""
    nodes: tuple[int, ...]
    """The nodes, by number, also those of groups inside."""
    parent: int | None
    """The group around it, by number."""


def groups_of(view: View) -> tuple[Group, ...]:
    """Group the nodes of a view by their names; outer groups come before inner ones.

    No path leaves a group and comes back, so that a folded view has no cycles.
    """
    count = len(view.nodes)
    if count < _FOLDS_FROM:
        return ()
    by_prefix: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, node in enumerate(view.nodes):
        words = tuple(_WORDS.findall(node.name.partition("#")[0]))
        for length in range(1, len(words)):
            by_prefix[words[:length]].append(number)
    below = _below(view)
    groups: list[Group] = []
    numbers: dict[tuple[str, ...], int] = {}
    homes: list[int | None] = [None] * count
    for prefix in sorted(by_prefix, key=lambda words: (len(words), by_prefix[words][0])):
        named = by_prefix[prefix]
        parent = next(
            (numbers[prefix[:n]] for n in range(len(prefix) - 1, 0, -1) if prefix[:n] in numbers),
            None,
        )
        room = count if parent is None else len(groups[parent].nodes)
        # A group of nearly everything around it would say nothing.
        if len(named) < _FEWEST or len(named) > 0.8 * room:
            continue
        nodes = sorted({*named, *_between(named, below)})
        # A few layers with other names may stand in between, such as those of an edit.
        if len(nodes) > 1.25 * len(named) + 1 or any(homes[node] != parent for node in nodes):
            continue
        for node in nodes:
            homes[node] = len(groups)
        numbers[prefix] = len(groups)
        groups.append(Group(_written(view.nodes[named[0]].name, prefix), tuple(nodes), parent))
    return tuple(groups) or tuple(_segments(view, below))


def _segments(view: View, below: list[list[int]]) -> Iterator[Group]:
    """Yield the parts between tensors that everything below depends on alone."""
    start, reach = 0, 0
    for number, ends in enumerate(below):
        if reach <= number and ends:  # nothing above leads past this node
            if number - start >= _FEWEST:
                nodes = tuple(range(start, number + 1))
                yield Group(view.nodes[number].name, nodes, None)
            start = number + 1
        reach = max(reach, *ends, 0)


def _written(name: str, prefix: tuple[str, ...]) -> str:
    """Return the words of a prefix as they are written in a name, with what is between them."""
    ends = [match.end() for match in _WORDS.finditer(name)]
    return name[: ends[len(prefix) - 1]]


def _below(view: View) -> list[list[int]]:
    index = {node.name: number for number, node in enumerate(view.nodes)}
    below: list[list[int]] = [[] for _ in view.nodes]
    for edge in view.edges:
        below[index[edge.source]].append(index[edge.target])
    return below


def _between(nodes: list[int], below: list[list[int]]) -> set[int]:
    """Return what lies on paths that leave some nodes and come back."""
    inside, last = {*nodes}, max(nodes)
    # Nodes are in the order of their dependencies: one pass up, then one pass down.
    leads: set[int] = set()
    for node in range(last, min(nodes) - 1, -1):
        if any(end in inside or end in leads for end in below[node]):
            leads.add(node)
    met: set[int] = set()
    for node in range(min(nodes), last + 1):
        if node in inside or node in met:
            met.update(end for end in below[node] if end < last and end in leads)
    return met - inside
