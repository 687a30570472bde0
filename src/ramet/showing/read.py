"""The views of a graph: one for the model, and one for each nested model."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.rows import Row, rows_of
from ramet.graph.text import ref_text
from ramet.graph.tree import leaves
from ramet.showing.facts import parameters_of
from ramet.showing.parts import Edge, Node, View


def read(graph: Graph) -> View:
    """Return the view of a graph. Takes O(calls), for masks once per use of a nested model."""
    reader = _Reader(_masked(graph), _call_counts(graph))
    for visit in reversed([*graph.walk()]):  # inside out, so that deep nesting needs no deep stack
        reader.view(visit.graph)
    return reader.view(graph)


def layers_of(graph: Graph) -> list[Layer]:
    """List the layers of a graph and of those nested in it, each once."""
    return [*{x.identity: x for v in graph.walk() for x in v.graph.layers.values()}.values()]


@dataclass(eq=False)
class _Reader:
    """Creates views; a nested model that is called twice has one."""

    masked: dict[int, set[Ref]]
    """Tensors that carry a mask, by the identity of their graph."""
    calls: Counter[tuple[int, int]]
    """How often each layer is called, in all graphs."""
    views: dict[int, View] = field(default_factory=dict[int, View])

    def view(self, graph: Graph) -> View:
        """Return the view of a graph."""
        view = self.views.get(id(graph))
        if view is None:
            rows, seen = rows_of(graph), set[tuple[int, int]]()
            nodes = tuple(self._node(graph, row, seen) for row in rows)
            edges = tuple(edge for row in rows for edge in self._edges(graph, row.call))
            outputs = tuple(ref_text(graph, ref) for ref in _refs(graph.outputs))
            view = self.views[id(graph)] = View(graph.name, nodes, edges, outputs)
        return view

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


def _call_counts(graph: Graph) -> Counter[tuple[int, int]]:
    return Counter(
        visit.graph.layers[row.call.layer].identity
        for visit in graph.walk()
        for row in rows_of(visit.graph)
        if row.call.layer is not None
    )


def _masked(graph: Graph) -> dict[int, set[Ref]]:
    """Return the tensors that carry a mask, by the identity of their graph.

    Below an edit, these are the masks from before it; nodes there say that it is not settled.
    """
    masked: defaultdict[int, set[Ref]] = defaultdict(set)
    if graph.origin is None:  # read from a file, where no layer creates a mask
        return masked
    from ramet import keras_internals as internals  # noqa: PLC0415 it imports Keras
    from ramet.masking.flow import Flow  # noqa: PLC0415 the same

    flow = Flow()
    with internals.room_for(graph):
        flow.follow(graph)
    for (prefix, ref), carry in flow.carries.items():
        if carry.mask is not None:
            masked[id(flow.graphs[prefix])].add(ref)
    return masked


def _refs(tree: object) -> list[Ref]:
    return [leaf for leaf in leaves(tree) if isinstance(leaf, Ref)]
