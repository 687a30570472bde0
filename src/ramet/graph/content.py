"""The content of graphs: equality, hashes, and a flat form that can be pickled."""

from typing import TYPE_CHECKING, TypeAlias

from ramet.graph.data import Call, Layer
from ramet.graph.journal import Journal
from ramet.graph.tree import Tree, same_value
from ramet.graph.walk import Visit

if TYPE_CHECKING:
    from ramet.graph.core import Graph

Flat: TypeAlias = tuple[str, dict[str, Layer], dict[str, int], dict[str, Call], Tree, Tree, Journal]
"""The fields of a graph whose nested graphs are in a list, at positions by key of layer."""


def same_graph(first: "Graph", second: "Graph") -> bool:
    """Whether two graphs call the same layers in the same way, nested ones included.

    Costs O(calls). Journals are ignored, and so are the numbers of unshared layers.
    """
    visits = [*first.walk()], [*second.walk()]
    pairs = _Pairs()
    return len(visits[0]) == len(visits[1]) and all(map(pairs.same, *visits))


class _Pairs:
    """Pairs of layers, one of each graph, that have been compared."""

    def __init__(self) -> None:
        self._second: dict[tuple[int, int], tuple[int, int]] = {}
        self._first: dict[tuple[int, int], tuple[int, int]] = {}

    def same(self, first: Visit, second: Visit) -> bool:
        """Whether two graphs are the same, ignoring those nested in them."""
        one, other = first.graph, second.graph
        return (
            first.path == second.path
            and one.name == other.name
            and [*one.layers] == [*other.layers]
            and [*one.calls] == [*other.calls]
            and all(map(self._same_layer, one.layers.values(), other.layers.values()))
            and all(map(_same_call, one.calls.values(), other.calls.values()))
            and same_value((one.inputs, one.outputs), (other.inputs, other.outputs))
        )

    def _same_layer(self, first: Layer, second: Layer) -> bool:
        one, other = first.identity, second.identity
        return (
            (first is second or first.says_the_same(second))
            and self._second.setdefault(one, other) == other
            and self._first.setdefault(other, one) == one
        )


def _same_call(first: Call, second: Call) -> bool:
    return first is second or first == second


def content_hash(graph: "Graph") -> int:
    """Return a hash that is the same for equal graphs. Costs O(calls)."""
    layers = tuple((key, layer.name, layer.kind) for key, layer in graph.layers.items())
    calls = tuple((call.name, call.layer, call.refs) for call in graph.calls.values())
    return hash((graph.name, layers, calls))


def flattened(graph: "Graph") -> list[Flat]:
    """Return a graph and those nested in it as a list, which pickles at any depth of nesting.

    Nested graphs come first. Live objects are left out.
    """
    visits = [*reversed([*graph.walk()])]
    number = {visit.identity: place for place, visit in enumerate(visits)}
    return [
        (
            visit.graph.name,
            {key: layer.detached() for key, layer in visit.graph.layers.items()},
            {
                key: number[layer.identity]
                for key, layer in visit.graph.layers.items()
                if layer.graph is not None
            },
            dict(visit.graph.calls),
            visit.graph.inputs,
            visit.graph.outputs,
            visit.graph.journal,
        )
        for visit in visits
    ]


def restored(cls: "type[Graph]", flat: list[Flat]) -> "Graph":
    """Return the graph that `flattened` made a list of."""
    graphs: list[Graph] = []
    for name, layers, nested, calls, inputs, outputs, journal in flat:
        records = {
            key: layer if key not in nested else layer.with_graph(graphs[nested[key]])
            for key, layer in layers.items()
        }
        graphs.append(cls(name, records, calls, inputs, outputs, journal=journal))
    return graphs[-1]
