"""Which layer of one model is which of another, also inside the models that they nest.

Where only one of two graphs nests a model, and the other holds the layers of that model
itself, the model is opened, so that its layers are paired all the same. How nodes are paired
is described in `pairing`.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from ramet.comparing.alignment.facts import Facts
from ramet.comparing.alignment.items import Item, items_of
from ramet.comparing.alignment.lines import paired_layers, primary
from ramet.comparing.alignment.nodes import Node, Nodes, nodes_of
from ramet.comparing.alignment.opening import open_models
from ramet.comparing.alignment.pairing import pair
from ramet.graph import Graph, Layer


@dataclass(eq=False)
class Alignment:
    """Which calls and layers of two graphs belong together, and inside the models they nest.

    One object for a pair of models: every comparison asks it, so that all of them speak of
    the same pairs.
    """

    first: Graph
    """The first graph."""
    second: Graph
    """The second graph."""
    calls: dict[str, str] = field(default_factory=dict[str, str])
    """Names of the second graph's calls, by those of the first."""
    layers: dict[str, str] = field(default_factory=dict[str, str])
    """Keys of the second graph's layers, by those of the first."""
    inside: "dict[tuple[str, str], Alignment]" = field(
        default_factory=dict[tuple[str, str], "Alignment"]
    )
    """The alignments of nested models, by the keys of a pair of layers."""
    inlined: "dict[str, Inlined]" = field(default_factory=dict[str, "Inlined"])
    """Nested models of the first graph whose layers stand in the second graph itself, by key."""
    wrapped: "dict[str, Inlined]" = field(default_factory=dict[str, "Inlined"])
    """Nested models of the second graph whose layers stand in the first graph itself, by key."""
    pairing: list[tuple[Node, Node]] = field(default_factory=list[tuple[Node, Node]])
    """The calls that belong together, those in `inlined` and `wrapped` too."""
    nodes: tuple[Nodes, Nodes] = field(default_factory=lambda: (Nodes([], {}), Nodes([], {})))
    """The calls of both graphs, with the models in `inlined` and `wrapped` opened."""

    def walk(self) -> "Iterator[tuple[str, str, Alignment]]":
        """Yield this alignment and those inside it, each pair of graphs once, outer ones first.

        Each comes with the prefixes of its paths in the first and in the second model: "" for
        this one, `"encoder/"` for what is inside a layer `encoder`.
        """
        met: set[int] = set()
        waiting: deque[tuple[str, str, Alignment]] = deque([("", "", self)])
        while waiting:
            one, two, alignment = waiting.popleft()
            if id(alignment) not in met:
                met.add(id(alignment))
                yield one, two, alignment
                waiting += [
                    (f"{one}{old}/", f"{two}{new}/", inner)
                    for (old, new), inner in alignment.inside.items()
                ]

    def all_layers(self) -> dict[str, str]:
        """Return the paths of paired layers on this level, those of opened models too."""
        found = dict(self.layers)
        for model in (*self.inlined.values(), *self.wrapped.values()):
            found |= model.layers
        return found

    def pairs(self) -> Iterator[tuple[str, Layer, str, Layer]]:
        """Yield the layers that belong together, with their paths, on all levels.

        Layers of a model that only one of the two nests are among them.
        """
        for one, two, alignment in self.walk():
            for old, new in alignment.all_layers().items():
                layers = _layer_at(alignment.first, old), _layer_at(alignment.second, new)
                yield f"{one}{old}", layers[0], f"{two}{new}", layers[1]


@dataclass(eq=False)
class Inlined:
    """A model that one graph nests, and whose layers the other graph holds itself."""

    calls: dict[str, str] = field(default_factory=dict[str, str])
    """Paths of calls in the second graph by those in the first: `encoder/conv`, `conv`."""
    layers: dict[str, str] = field(default_factory=dict[str, str])
    """Paths of layers in the second graph by those in the first."""


def _layer_at(graph: Graph, path: str) -> Layer:
    *models, key = path.split("/")
    for model in models:
        graph = cast("Graph", graph.layers[model].graph)
    return graph.layers[key]


def align(first: Graph, second: Graph, *, weights: bool = True) -> Alignment:
    """Pair the calls and layers of two graphs, and of the models nested in them.

    Costs O(calls · log calls) unless the models have little in common, one config per layer,
    and a few values of every weight.

    Args:
        first: A graph.
        second: Another one.
        weights: Whether weights are evidence too; if not, none is read.
    """
    facts = Facts(first, second, weights=weights)
    known: dict[tuple[int, int], Alignment] = {}
    whole = known[id(first), id(second)] = _level(first, second, facts)
    waiting = deque([whole])
    while waiting:  # without recursion: models may be nested hundreds of levels deep
        alignment = waiting.popleft()
        for a, b in alignment.pairing:
            one, two = (None if node.layer is None else node.layer.graph for node in (a, b))
            if one is None or two is None:
                continue
            if (id(one), id(two)) not in known:
                known[id(one), id(two)] = _level(one, two, facts)
                waiting.append(known[id(one), id(two)])
            alignment.inside[a.key or "", b.key or ""] = known[id(one), id(two)]
    return whole


def _level(first: Graph, second: Graph, facts: Facts) -> Alignment:
    """Pair what two graphs hold themselves, and in models that only one of them nests."""
    opened, nodes = open_models(first, second, facts)
    items = _items(nodes, facts)
    pairs = _same_by_name(*items)
    if pairs is not None:
        return _alignment(first, second, nodes, pairs)
    pairs, lines = pair(*items)
    closed = _unpaired_calls(nodes, pairs)
    if any(closed):  # Such a call was not inlined: it may have been replaced as a whole.
        again = nodes_of(first, opened[0], closed[0]), nodes_of(second, opened[1], closed[1])
        others, fewer = pair(*_items(again, facts))
        if fewer < lines:
            nodes, pairs = again, others
    return _alignment(first, second, nodes, pairs)


def _items(nodes: tuple[Nodes, Nodes], facts: Facts) -> tuple[list[Item], list[Item]]:
    return items_of(nodes[0], facts.of_node), items_of(nodes[1], facts.of_node)


def _alignment(
    first: Graph, second: Graph, nodes: tuple[Nodes, Nodes], pairs: list[tuple[Item, Item]]
) -> Alignment:
    alignment = Alignment(first, second, nodes=nodes)
    alignment.pairing = [(a.node, b.node) for a, b in pairs]
    alignment.inlined |= {key: Inlined() for key, calls in nodes[0].opened.items() if calls}
    alignment.wrapped |= {key: Inlined() for key, calls in nodes[1].opened.items() if calls}
    for a, b in alignment.pairing:
        _holder(alignment, a, b).calls[a.path] = b.path
    calls = paired_layers(pairs)
    chosen = {*primary(calls)}
    for (old, new), ((a, b), *_) in calls.items():
        if (old, new) in chosen:
            _holder(alignment, a.node, b.node).layers[old] = new
    return alignment


def _same_by_name(olds: list[Item], news: list[Item]) -> list[tuple[Item, Item]] | None:
    """Pair two graphs whose layers, by their names, are the same and connected alike.

    Then weights that two layers exchanged are other weights, not other names and connections.
    `None` for other graphs, and where Keras counted the names of the layers that exchanged them.
    """
    if len(olds) != len(news):
        return None
    holders = {item.facts.content: item.node.key for item in olds if item.facts.content}
    pairs = [*zip(olds, news, strict=True)]
    for a, b in pairs:
        if a.fact != b.fact or _standing(a.node) != _standing(b.node):
            return None
        holder = holders.get(b.facts.content, a.node.key)
        if a.name is None and holder != a.node.key:
            return None
    return pairs


def _standing(node: Node) -> Any:
    """Return what a call is named, and what it reads, by names."""
    reads = [(maker.path, index) for maker, index in node.inputs]
    name = None if node.layer is None else node.layer.name
    return node.path, node.key, name, node.alias, node.is_input, reads


def _unpaired_calls(nodes: tuple[Nodes, Nodes], pairs: list[tuple[Item, Item]]) -> list[set[str]]:
    """Return the paths of calls of opened models in which no layer has a counterpart."""
    closed: list[set[str]] = []
    for side in (0, 1):
        calls = [node.path for opened in nodes[side].opened.values() for node in opened]
        items = [both[side].node for both in pairs if both[0].kind == both[1].kind]
        paired = [node.path for node in items if node.alias is not None]
        closed.append(
            {call for call in calls if not any(path.startswith(f"{call}/") for path in paired)}
        )
    return closed


def _holder(alignment: Alignment, a: Node, b: Node) -> "Alignment | Inlined":
    """Return what lists a pair: the model that only one side nests, or the level itself."""
    if a.graph is not alignment.first:
        return alignment.inlined[(a.key or "").rpartition("/")[0]]
    if b.graph is not alignment.second:
        return alignment.wrapped[(b.key or "").rpartition("/")[0]]
    return alignment
