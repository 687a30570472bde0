"""A view as a table in the terminal."""

import dataclasses
from typing import Any

from ramet.graph import Layer
from ramet.graph.names import counted
from ramet.graph.reach import written_layers
from ramet.results.base import Table
from ramet.showing.facts import parameters_of
from ramet.showing.parts import ADDED, CHANGED, REMOVED, SAME, Node, View
from ramet.showing.shades import Key

_COLOURS = {ADDED: "green", REMOVED: "red", CHANGED: "yellow", SAME: ""}
_COLUMNS = ("layer", "kind", "output", "parameters", "cost", "from", "mask", "difference")


def table_of(
    view: View,
    layers: list[Layer],
    *,
    compared: bool,
    key: Key | None = None,
    notes: tuple[str, ...] = (),
) -> Table:
    """Return a view as a table, one row per call, with totals below.

    Where the terminal is too narrow, the class goes below the name, and the column of masks
    is left out if there are none.

    Args:
        view: The view.
        layers: All layers of the model, for the totals.
        compared: Whether the view is of two models.
        key: What the shades of nodes stand for, if they have some.
        notes: What else there is to say.
    """
    cells = [_cells(node) for node in view.nodes]
    hidden = {"difference"} if not compared else set[str]()
    hidden |= {"cost"} if key is None else set[str]()
    title = view.name if key is None else f"{view.name}, {key.title}"
    below = [", ".join(totals(view, layers)), f"returns {', '.join(view.outputs)}", *notes]
    styles = [_COLOURS[node.difference] for node in view.nodes]
    joined = [{**row, "layer": f"{row['layer']}\n{row['kind']}"} for row in cells]
    unmasked = {"kind"} if any(row["mask"] for row in cells) else {"kind", "mask"}
    narrow = _table(title, joined, hidden | unmasked, below, styles)
    return dataclasses.replace(_table(title, cells, hidden, below, styles), narrow=narrow)


def _table(
    title: str, cells: list[dict[str, str]], hidden: set[str], notes: list[str], styles: list[str]
) -> Table:
    columns = tuple(column for column in _COLUMNS if column not in hidden)
    rows = [tuple(row[column] for column in columns) for row in cells]
    return Table(title, columns, rows, notes, frozenset({"parameters"}), styles)


def _cells(node: Node) -> dict[str, str]:
    masks: dict[Any, str] = {True: "yes", False: "", None: "?"}
    return {
        "layer": f"{node.name} (shared)" if node.shared else node.name,
        "kind": kind_text(node),
        "output": node.output,
        "parameters": _parameters(node),
        "cost": "" if node.shade is None else node.shade.text,
        "from": "\n".join(node.sources),
        "mask": masks[node.masked],
        "difference": difference_text(node),
    }


def calls_of(view: View) -> list[dict[str, Any]]:
    """Return the calls of a view as plain data, with those of nested models inside."""
    return [
        {
            "name": node.name,
            "kind": node.kind,
            "output": node.output,
            "inputs": [*node.sources],
            "parameters": node.parameters,
            "masked": node.masked,
            "shared": node.shared,
            "difference": node.difference,
            "reasons": [*node.reasons],
            "calls": [] if node.inside is None else calls_of(node.inside),
        }
        | ({} if node.shade is None else {"cost": dataclasses.asdict(node.shade)})
        for node in view.nodes
    ]


def kind_text(node: Node) -> str:
    """Return the class of the layer, and how many layers a nested model holds."""
    if node.layer is None or node.layer.graph is None:
        return node.kind
    return f"{node.kind} ({counted(len(written_layers(node.layer.graph)), 'layer')})"


def _parameters(node: Node) -> str:
    if node.again:
        return "shared"
    return "?" if node.parameters is None else f"{node.parameters:,}"


def difference_text(node: Node) -> str:
    """Return how a node differs, in words; nothing if it does not."""
    if node.difference == SAME:
        return ""
    return "; ".join((node.difference, *node.reasons))


def totals(view: View, layers: list[Layer]) -> list[str]:
    """Return how many calls and parameters there are, in words."""
    sizes: dict[int, tuple[int, bool]] = {}
    unknown = False
    for layer in layers:
        parameters = parameters_of(layer)
        unknown = unknown or parameters is None
        sizes |= parameters or {}
    total = sum(size for size, _ in sizes.values())
    trainable = sum(size for size, trains in sizes.values() if trains)
    more = " and those made on build" if unknown else ""
    calls = sum(node.difference != REMOVED for node in view.nodes)
    return [counted(calls, "call"), f"{total:,} parameters{more}", f"{trainable:,} trainable"]
