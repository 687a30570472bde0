"""A graph as rows: what a table tells of every call."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ramet.graph.html import html_table
from ramet.graph.names import counted
from ramet.graph.parts import Call, Layer, Ref
from ramet.graph.reach import unsettled_calls, written_calls
from ramet.graph.text import outputs_text, ref_text
from ramet.graph.tree import leaves

if TYPE_CHECKING:
    from ramet.graph.core import Graph


@dataclass(frozen=True, slots=True)
class Row:
    """One call, in words."""

    call: Call
    """The call."""
    layer: Layer | None
    """What is called; `None` for a bare symbolic input."""
    kind: str
    """Class of the layer, and how many layers a nested model holds."""
    output: str
    """Dtypes and shapes of what it gives, with `?` for what is inferred again on build."""
    sources: tuple[str, ...]
    """The tensors that its author gave to it."""
    settled: bool
    """Whether shapes, dtypes and masks are known before the graph is built."""


def rows_of(graph: "Graph") -> list[Row]:
    """Lists the calls that the author wrote, nested models folded. Costs O(calls)."""
    unsettled = unsettled_calls(graph)
    return [_row(graph, call, settled=call.name not in unsettled) for call in written_calls(graph)]


def _row(graph: "Graph", call: Call, *, settled: bool) -> Row:
    layer = None if call.layer is None else graph.layers[call.layer]
    sources = dict.fromkeys(ref_text(graph, ref) for ref in call.written_refs)
    output = outputs_text(call, settled=settled)
    return Row(call, layer, _kind(layer), output, tuple(sources), settled)


def _kind(layer: Layer | None) -> str:
    if layer is None:
        return "tensor"
    if layer.graph is None:
        return layer.kind
    return f"{layer.kind} ({counted(len(layer.graph.layers), 'layer')})"


def graph_html(graph: "Graph") -> str:
    """Returns the graph as a table in HTML, nested models folded to one row."""
    rows = rows_of(graph)
    cells = [
        (row.call.name, row.kind, row.output, ", ".join(row.sources), _mask(row)) for row in rows
    ]
    returned = ", ".join(ref_text(graph, ref) for ref in _outputs(graph))
    title = f"graph '{graph.name}': {counted(len(rows), 'call')}"
    columns = ("call", "kind", "output", "from", "mask")
    return html_table(title, columns, cells, [f"returns {returned}"])


def _mask(row: Row) -> str:
    if not row.settled:
        return "?"
    return "yes" if row.call.masked else ""


def _outputs(graph: "Graph") -> list[Ref]:
    return [leaf for leaf in leaves(graph.outputs) if isinstance(leaf, Ref)]
