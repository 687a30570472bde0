"""A graph as the rows of a table, one per call."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ramet.graph.data import Call, Layer, Ref
from ramet.graph.names import counted
from ramet.graph.reach import unsettled_calls, written_calls, written_layers
from ramet.graph.text import outputs_text, ref_text
from ramet.graph.tree import leaves
from ramet.text.html import html_table

if TYPE_CHECKING:
    from ramet.graph.core import Graph


@dataclass(frozen=True, slots=True)
class Row:
    """One call as text."""

    call: Call
    """The call."""
    layer: Layer | None
    """The layer; `None` for a bare symbolic input."""
    kind: str
    """Class of the layer; for a nested model, with the number of its layers."""
    output: str
    """Dtypes and shapes of its outputs, with `?` if they are inferred again on build."""
    sources: tuple[str, ...]
    """The tensors that the author passed to it."""
    settled: bool
    """Whether shapes, dtypes and masks are known before the graph is built."""


def rows_of(graph: "Graph") -> list[Row]:
    """List the calls that the author wrote, each nested model as one row. Costs O(calls)."""
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
    return f"{layer.kind} ({counted(len(written_layers(layer.graph)), 'layer')})"


def graph_html(graph: "Graph") -> str:
    """Return the graph as an HTML table, each nested model as one row."""
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
