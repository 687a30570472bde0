"""Which calls a graph's author wrote, and which only serve derived arguments."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ramet.graph.parts import Call, Ref
from ramet.graph.tree import leaves

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def written_calls(graph: "Graph") -> list[Call]:
    """Lists the calls that the outputs need, derived arguments left out, and the inputs.

    In the order of the graph. Costs O(calls).
    """
    needed = {ref.call for ref in leaves((graph.inputs, graph.outputs))}
    for call in reversed([*graph.calls.values()]):
        if call.name in needed:
            needed.update(ref.call for ref in written_refs(call))
    return [call for call in graph.calls.values() if call.name in needed]


def written_refs(call: Call) -> Iterator[Ref]:
    """Yields the tensors that a call's author gave to it."""
    kwargs = {key: value for key, value in call.kwargs.items() if key not in call.derived}
    for leaf in leaves((call.args, kwargs)):
        if isinstance(leaf, Ref):
            yield leaf
