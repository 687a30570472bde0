"""Two models laid over each other, by the names of their calls."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any

from ramet.bridge.values import same_bits
from ramet.graph import Layer
from ramet.show.facts import array_of, config_of, weights_of
from ramet.show.parts import ADDED, CHANGED, REMOVED, SAME, Edge, Node, View


def overlay(first: View, second: View) -> View:
    """Returns both views in one, with what was added, removed or changed marked so."""
    return _Overlay().view(first, second)


@dataclass(eq=False)
class _Overlay:
    """Compares views, each pair once."""

    views: dict[tuple[int, int], View] = field(default_factory=dict[tuple[int, int], View])
    layers: dict[Any, tuple[str, ...]] = field(default_factory=dict[Any, tuple[str, ...]])
    alone: dict[tuple[int, str], View] = field(default_factory=dict[tuple[int, str], View])

    def view(self, first: View, second: View) -> View:
        """Returns two views in one."""
        key = id(first), id(second)
        if key not in self.views:
            nodes = tuple(self._nodes(first, second))
            edges = tuple(_edges(first.edges, second.edges))
            self.views[key] = View(second.name, nodes, edges, second.outputs)
        return self.views[key]

    def _nodes(self, first: View, second: View) -> Iterator[Node]:
        old = {node.name: node for node in first.nodes}
        new = {node.name: node for node in second.nodes}
        for name in _merged([*old], [*new]):
            if name not in new:
                yield self._marked(old[name], REMOVED)
            elif name not in old:
                yield self._marked(new[name], ADDED)
            else:
                yield self._compared(old[name], new[name])

    def _marked(self, node: Node, difference: str) -> Node:
        inside = node.inside
        if inside is not None:
            key = id(inside), difference
            if key not in self.alone:
                nodes = tuple(self._marked(inner, difference) for inner in inside.nodes)
                edges = tuple(replace(edge, difference=difference) for edge in inside.edges)
                self.alone[key] = replace(inside, nodes=nodes, edges=edges)
            inside = self.alone[key]
        return replace(node, difference=difference, inside=inside)

    def _compared(self, old: Node, new: Node) -> Node:
        inside = new.inside
        reasons = [*self._reasons(old, new)]
        if old.inside is not None and new.inside is not None:
            inside = self.view(old.inside, new.inside)
            if inside.difference != SAME:
                reasons.append("layers inside")
        return replace(
            new,
            inside=inside,
            difference=CHANGED if reasons else SAME,
            reasons=tuple(reasons),
            before=old.layer,
        )

    def _reasons(self, old: Node, new: Node) -> Iterator[str]:
        if old.kind != new.kind:
            yield f"kind: {old.kind} before"
        if old.output != new.output:
            yield f"output: {old.output} before"
        if old.layer is not None and new.layer is not None and not (old.inside and new.inside):
            key = old.layer.identity, new.layer.identity
            if key not in self.layers:
                self.layers[key] = tuple(_layer_reasons(old.layer, new.layer))
            yield from self.layers[key]


def _layer_reasons(old: Layer, new: Layer) -> Iterator[str]:
    if config_of(old) != config_of(new):
        yield "config"
    if not _same_weights(weights_of(old), weights_of(new)):
        yield "weights"


def _same_weights(old: list[Any] | None, new: list[Any] | None) -> bool:
    if old is None or new is None:
        return old is new
    if len(old) != len(new):
        return False
    return all(a is b or same_bits(array_of(a), array_of(b)) for a, b in zip(old, new, strict=True))


def _edges(old: tuple[Edge, ...], new: tuple[Edge, ...]) -> Iterator[Edge]:
    before = {(edge.source, edge.target): edge for edge in old}
    after = {(edge.source, edge.target): edge for edge in new}
    for key, edge in after.items():
        yield edge if key in before else replace(edge, difference=ADDED)
    for key, edge in before.items():
        if key not in after:
            yield replace(edge, difference=REMOVED)


def _merged(first: list[str], second: list[str]) -> Iterator[str]:
    """Yields the names of both lists, each once, about in the order of both."""
    done: set[str] = set()
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for _, i, j, k, m in matcher.get_opcodes():
        for name in (*first[i:j], *second[k:m]):
            if name not in done:
                done.add(name)
                yield name
