"""A view as a table in the terminal."""

from typing import Any

from rich.table import Table
from rich.text import Text

from ramet.graph import Layer
from ramet.graph.names import counted
from ramet.show.facts import parameters_of
from ramet.show.parts import ADDED, CHANGED, REMOVED, SAME, Node, View

_COLOURS = {ADDED: "green", REMOVED: "red", CHANGED: "yellow", SAME: ""}


def table_of(view: View, layers: list[Layer], *, compared: bool) -> Table:
    """Returns a view as a table, one row per call, with totals below.

    Args:
        view: The view.
        layers: All layers of the model, for the totals.
        compared: Whether the view is of two models.
    """
    table = Table(title=Text(view.name), title_justify="left", show_footer=True)
    table.add_column("layer", Text("\n".join(totals(view, layers))), overflow="fold")
    table.add_column("kind", overflow="fold")
    table.add_column("output", overflow="fold")
    table.add_column("parameters", justify="right")
    table.add_column("from", Text(f"returns {', '.join(view.outputs)}"), overflow="fold")
    table.add_column("mask")
    if compared:
        table.add_column("difference", overflow="fold")
    for node in view.nodes:
        cells = [*_cells(node), *([difference_text(node)] if compared else [])]
        table.add_row(*map(Text, cells), style=_COLOURS[node.difference])
    return table


def _cells(node: Node) -> list[str]:
    name = f"{node.name} (shared)" if node.shared else node.name
    masks: dict[Any, str] = {True: "yes", False: "", None: "?"}
    sources = "\n".join(node.sources)
    return [name, kind_text(node), node.output, _parameters(node), sources, masks[node.masked]]


def kind_text(node: Node) -> str:
    """Returns the class of the layer, and how many layers a nested model holds."""
    if node.layer is None or node.layer.graph is None:
        return node.kind
    return f"{node.kind} ({counted(len(node.layer.graph.layers), 'layer')})"


def _parameters(node: Node) -> str:
    if node.again:
        return "shared"
    return "?" if node.parameters is None else f"{node.parameters:,}"


def difference_text(node: Node) -> str:
    """Returns how a node differs, in words; nothing if it does not."""
    if node.difference == SAME:
        return ""
    return "; ".join((node.difference, *node.reasons))


def totals(view: View, layers: list[Layer]) -> list[str]:
    """Returns how many calls and parameters there are, in words."""
    found: dict[int, tuple[int, bool]] = {}
    unknown = False
    for layer in layers:
        parameters = parameters_of(layer)
        unknown = unknown or parameters is None
        found |= parameters or {}
    total = sum(size for size, _ in found.values())
    trainable = sum(size for size, trains in found.values() if trains)
    more = " and those made on build" if unknown else ""
    calls = sum(node.difference != REMOVED for node in view.nodes)
    return [counted(calls, "call"), f"{total:,} parameters{more}", f"{trainable:,} trainable"]
