"""The views of two models, overlaid as they are aligned, with what changed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from ramet import keras_internals as internals
from ramet.comparing.alignment.align import Alignment, align
from ramet.comparing.differences import Change, changes
from ramet.graph import Graph
from ramet.graph.names import unique_name
from ramet.showing.parts import ADDED, CHANGED, REMOVED, SAME, Edge, Node, View
from ramet.showing.read import read

Place = tuple[int, str]
"""A call: the identity of its graph, and its name."""


def compared(first: Graph, second: Graph) -> View:
    """Align two graphs, and return one view of both that marks what changed."""
    with internals.room_for(first, second):
        alignment = align(first, second)
        found = changes(alignment, weights=True)
        return overlay(read(first), read(second), alignment, found)


def overlay(first: View, second: View, alignment: Alignment, changed: Iterable[Change]) -> View:
    """Return one view of both, in which added, removed and changed nodes are marked.

    A renamed layer is one node, and what only follows from a change is not marked.
    Takes O(calls).
    """
    reasons: dict[Place, dict[str, None]] = {}
    for change in changed:
        for pair in change.calls:
            for call in pair:
                if call is not None:
                    place = id(call.graph), call.call.name
                    reasons.setdefault(place, {})[_reason(change)] = None
    return _Overlay(reasons).view(first, second, alignment)


def _reason(change: Change) -> str:
    """Return what changed in a layer, worded for the second model."""
    entry = change.entry
    if entry.kind == "renamed":
        return f"renamed from '{entry.where.rpartition('/')[2]}'"
    return f"{entry.kind}: {entry.text}" if entry.kind not in (ADDED, REMOVED) else ""


@dataclass(eq=False)
class _Overlay:
    """Overlays views, each pair once."""

    reasons: dict[Place, dict[str, None]]
    """What changed, by call of either model."""
    views: dict[int, View] = field(default_factory=dict[int, View])
    alone: dict[tuple[int, str], View] = field(default_factory=dict[tuple[int, str], View])

    def view(self, first: View, second: View, level: Alignment) -> View:
        """Return one view of two."""
        if id(level) not in self.views:
            names = _names(first, second, level)
            nodes = tuple(self._nodes(first, second, level, names))
            edges = tuple(_edges(first.edges, second.edges, names))
            self.views[id(level)] = View(second.name, nodes, edges, second.outputs)
        return self.views[id(level)]

    def _nodes(
        self, first: View, second: View, level: Alignment, names: dict[str, str]
    ) -> Iterator[Node]:
        old = {names[node.name]: node for node in first.nodes}
        new = {node.name: node for node in second.nodes}
        partners = {*level.calls.values()}
        moved = {new for model in level.inlined.values() for new in model.calls.values()}
        for name in _merged([*old], [*new]):
            if name not in new:
                marked = self._marked(old[name], level.first, REMOVED)
                yield replace(marked, name=name)
            elif name in partners:
                yield self._compared(old[name], new[name], level)
            elif name in moved:
                reasons = self._why(level.second, name)
                difference = CHANGED if reasons else SAME
                yield replace(new[name], difference=difference, reasons=reasons)
            else:
                yield self._marked(new[name], level.second, ADDED)

    def _why(self, graph: Graph, name: str) -> tuple[str, ...]:
        return tuple(filter(None, self.reasons.get((id(graph), name), ())))

    def _marked(self, node: Node, graph: Graph, difference: str) -> Node:
        """Return a node that only one model has."""
        reasons = self._why(graph, node.name)
        inside, layer = node.inside, node.layer
        if inside is not None and layer is not None and layer.graph is not None:
            key = id(layer.graph), difference
            if key not in self.alone:
                self.alone[key] = self._alone(inside, layer.graph, difference, bool(reasons))
            inside = self.alone[key]
        return replace(node, difference=difference, reasons=reasons, inside=inside)

    def _alone(self, view: View, graph: Graph, difference: str, opened: bool) -> View:  # noqa: FBT001 of one caller
        """Return the view of a model that only one model nests."""
        if not opened:
            nodes = tuple(self._marked(node, graph, difference) for node in view.nodes)
            edges = tuple(replace(edge, difference=difference) for edge in view.edges)
            return replace(view, nodes=nodes, edges=edges)
        # The other model has its layers too, inlined.
        nodes = tuple(
            replace(node, difference=CHANGED if reasons else SAME, reasons=reasons)
            for node in view.nodes
            for reasons in [self._why(graph, node.name)]
        )
        return replace(view, nodes=nodes)

    def _compared(self, old: Node, new: Node, level: Alignment) -> Node:
        """Return a node that both models have."""
        inside = new.inside
        reasons = [*self._why(level.second, new.name)]
        inner = level.inside.get((_key(level.first, old), _key(level.second, new)))
        if inner is not None and old.inside is not None and new.inside is not None:
            inside = self.view(old.inside, new.inside, inner)
            if inside.difference != SAME:
                reasons.append("layers inside")
        return replace(
            new,
            inside=inside,
            difference=CHANGED if reasons else SAME,
            reasons=tuple(reasons),
            before=old.layer,
        )


def _key(graph: Graph, node: Node) -> str:
    return graph.calls[node.name].layer or ""


def _names(first: View, second: View, level: Alignment) -> dict[str, str]:
    """Return the names of the nodes of the first view in the view of both."""
    names = dict(level.calls)
    for model in level.wrapped.values():
        # Calls that were moved into a model are drawn there.
        names |= {old: new.partition("/")[0] for old, new in model.calls.items() if "/" not in old}
    taken = {node.name for node in second.nodes}
    for node in first.nodes:
        if node.name not in names:
            names[node.name] = name = unique_name(node.name, taken)
            taken.add(name)
    return names


def _edges(old: tuple[Edge, ...], new: tuple[Edge, ...], names: dict[str, str]) -> Iterator[Edge]:
    before = {(names[edge.source], names[edge.target]): edge for edge in old}
    after = {(edge.source, edge.target): edge for edge in new}
    for key, edge in after.items():
        yield edge if key in before else replace(edge, difference=ADDED)
    for (source, target), edge in before.items():
        if (source, target) not in after and source != target:
            yield replace(edge, source=source, target=target, difference=REMOVED)


def _merged(first: list[str], second: list[str]) -> Iterator[str]:
    """Yield the names of both lists, each once: those of the first alone after what they follow."""
    there = {*second}
    followers: dict[str | None, list[str]] = {}
    last: str | None = None
    for name in first:
        if name in there:
            last = name
        else:
            followers.setdefault(last, []).append(name)
    yield from followers.get(None, ())
    for name in second:
        yield name
        yield from followers.get(name, ())
