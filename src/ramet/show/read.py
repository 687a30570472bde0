"""From a graph to views: one for the model, and one for every model inside it."""

from collections import Counter
from dataclasses import dataclass, field

from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.rows import Row, rows_of
from ramet.graph.text import ref_text
from ramet.graph.tree import leaves
from ramet.show.facts import parameters_of
from ramet.show.parts import Edge, Node, View


def read(graph: Graph) -> View:
    """Reads a graph and the graphs inside it. Costs O(calls), by use for masks."""
    reader = _Reader(_masked(graph), _call_counts(graph))
    for inner in reversed(_graphs(graph)):  # inside out: many levels need no deep stack
        reader.view(inner)
    return reader.view(graph)


def layers_of(graph: Graph) -> list[Layer]:
    """Lists the layers of a graph and of those inside it, each once."""
    return [*{x.identity: x for g in _graphs(graph) for x in g.layers.values()}.values()]


@dataclass(eq=False)
class _Reader:
    """Makes views; a nested model that is called twice has one."""

    masked: dict[int, set[Ref]]
    """Tensors that carry a mask, by the identity of their graph."""
    calls: Counter[tuple[int, int]]
    """How often each layer is called, in all graphs."""
    views: dict[int, View] = field(default_factory=dict[int, View])

    def view(self, graph: Graph) -> View:
        """Returns the view of a graph."""
        found = self.views.get(id(graph))
        if found is None:
            rows, seen = rows_of(graph), set[tuple[int, int]]()
            nodes = tuple(self._node(graph, row, seen) for row in rows)
            edges = tuple(edge for row in rows for edge in self._edges(graph, row.call))
            outputs = tuple(ref_text(graph, ref) for ref in _refs(graph.outputs))
            found = self.views[id(graph)] = View(graph.name, nodes, edges, outputs)
        return found

    def _node(self, graph: Graph, row: Row, seen: set[tuple[int, int]]) -> Node:
        layer, call = row.layer, row.call
        parameters = {} if layer is None else parameters_of(layer)
        masked = any(Ref(call.name, i) in self.masked[id(graph)] for i in range(len(call.outputs)))
        again = layer is not None and layer.identity in seen
        if layer is not None:
            seen.add(layer.identity)
        return Node(
            name=call.name,
            kind="tensor" if layer is None else layer.kind,
            output=row.output,
            sources=row.sources,
            layer=layer,
            parameters=None if parameters is None else sum(n for n, _ in parameters.values()),
            masked=masked if row.settled else None,
            shared=layer is not None and self.calls[layer.identity] > 1,
            again=again,
            inside=None if layer is None or layer.graph is None else self.view(layer.graph),
        )

    def _edges(self, graph: Graph, call: Call) -> list[Edge]:
        masked: dict[str, bool] = {}
        for ref in call.written_refs:
            masked[ref.call] = masked.get(ref.call, False) or ref in self.masked[id(graph)]
        return [Edge(source, call.name, mask) for source, mask in masked.items()]


def _graphs(graph: Graph) -> list[Graph]:
    """Lists a graph and those inside it, each once."""
    found: dict[int, Graph] = {}
    waiting = [graph]
    while waiting:
        one = waiting.pop(0)
        if id(one) not in found:
            found[id(one)] = one
            waiting += [layer.graph for layer in one.layers.values() if layer.graph is not None]
    return [*found.values()]


def _call_counts(graph: Graph) -> Counter[tuple[int, int]]:
    return Counter(
        one.layers[row.call.layer].identity
        for one in _graphs(graph)
        for row in rows_of(one)
        if row.call.layer is not None
    )


def _masked(graph: Graph) -> dict[int, set[Ref]]:
    """Returns the tensors that carry a mask, by the identity of their graph.

    Below an edit it is what was so before; nodes there say that it is not settled.
    """
    found: dict[int, set[Ref]] = {id(one): set() for one in _graphs(graph)}
    if graph.origin is None:  # written by hand, or read from a file that makes no masks
        return found
    from ramet.bridge import internals  # noqa: PLC0415 it imports Keras
    from ramet.bridge.masking.flow import Flow  # noqa: PLC0415 the same

    flow = Flow()
    with internals.room_for(graph):
        flow.follow(graph)
    for (prefix, ref), carry in flow.carries.items():
        if carry.mask is not None:
            found[id(flow.graphs[prefix])].add(ref)
    return found


def _refs(tree: object) -> list[Ref]:
    return [leaf for leaf in leaves(tree) if isinstance(leaf, Ref)]
