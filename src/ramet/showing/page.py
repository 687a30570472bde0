"""A self-contained HTML page, which needs no network."""

import dataclasses
import json
from html import escape
from importlib import resources
from typing import Any

from ramet.graph import Layer
from ramet.showing import kinds
from ramet.showing.gist import gist_of
from ramet.showing.groups import Group, groups_of
from ramet.showing.layout import HEIGHT, WIDTH
from ramet.showing.parts import SAME, Node, View
from ramet.showing.scopes import scopes_of
from ramet.showing.shades import Key
from ramet.showing.table import kind_text, totals
from ramet.tracing.configs import config_of
from ramet.tracing.layer_facts import statistics_of, variables_of

_MANY = 24
"""How many items of a list in a config are shown: a vocabulary can be long."""
_SCRIPTS = ("layout", "drawing", "panel", "controls")
"""The files of the script, in the order in which they run."""
_LONG = 400
"""How many characters of a text in a config are shown."""


def page_of(  # noqa: PLR0913 what is on it
    view: View,
    layers: list[Layer],
    *,
    compared: bool,
    names: tuple[str, ...] = (),
    key: Key | None = None,
    notes: tuple[str, ...] = (),
) -> str:
    """Return a page with a view, the views nested in it, and what is known of their layers.

    Takes O(values of all weights), for their statistics.

    Args:
        view: The view.
        layers: All layers of the model, for the totals.
        compared: Whether the view is of two models.
        names: What the models are called, such as the names of their files.
        key: What the shades of nodes stand for, if they have some.
        notes: What is not known of the models.
    """
    content = _Content()
    root = content.view_index(view)
    data = {
        "root": root,
        "compared": compared,
        "names": names or (view.name,),
        "colours": kinds.COLOURS,
        "shades": None if key is None else dataclasses.asdict(key),
        "totals": totals(view, layers),
        "notes": notes,
        "size": [WIDTH, HEIGHT],
        "views": content.views,
        "layers": content.layers,
    }
    parts = {
        "TITLE": escape(" and ".join(names) if names else view.name),
        "STYLE": _file("page.css"),
        "DRAWING": _file("drawing.css"),
        "DATA": _script_safe(json.dumps(data, separators=(",", ":"), allow_nan=False)),
        "SCRIPT": _script(),
    }
    return _filled(_file("page.html"), parts)


def _filled(template: str, parts: dict[str, str]) -> str:
    """Fill a template, without looking for placeholders in the texts that are filled in."""
    pieces = template.split("@@")
    return "".join(parts[piece] if number % 2 else piece for number, piece in enumerate(pieces))


def _file(name: str) -> str:
    return resources.files("ramet.showing").joinpath(name).read_text(encoding="utf-8")


def _script() -> str:
    """Return the script of the page: all files share the scope of one function."""
    parts = "\n".join(_file(f"page-{name}.js") for name in _SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def _script_safe(text: str) -> str:
    """Escape JSON so that nothing in it can end the script element that holds it."""
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


class _Content:
    """Views and layers as plain data, each once."""

    def __init__(self) -> None:
        """Start empty."""
        self.views: list[dict[str, Any]] = []
        self.layers: list[dict[str, Any]] = []
        self._views: dict[int, int] = {}
        self._layers: dict[Any, int] = {}

    def view_index(self, view: View) -> int:
        """Return the number of a view, which is described when it is first met."""
        if id(view) not in self._views:
            number = self._views[id(view)] = len(self.views)
            self.views.append({})
            self.views[number] = self._view(view)
        return self._views[id(view)]

    def _view(self, view: View) -> dict[str, Any]:
        index = {node.name: number for number, node in enumerate(view.nodes)}
        groups = groups_of(view)
        return {
            "name": view.name,
            "outputs": view.outputs,
            "nodes": [self._node(node) for node in view.nodes],
            "edges": [
                {
                    "from": index[edge.source],
                    "to": index[edge.target],
                    "masked": edge.masked,
                    "difference": edge.difference,
                }
                for edge in view.edges
            ],
            "groups": [_group(group, view) for group in groups],
            "scopes": [dataclasses.asdict(scope) for scope in scopes_of(view, groups)],
        }

    def _node(self, node: Node) -> dict[str, Any]:
        return {
            "name": node.name,
            "kind": node.kind,
            "word": kinds.word_of(node.kind, is_model=node.inside is not None),
            "label": kind_text(node),
            "output": node.output,
            "sources": node.sources,
            "parameters": node.parameters,
            "masked": node.masked,
            "shared": node.shared,
            "inside": None if node.inside is None else self.view_index(node.inside),
            "difference": node.difference,
            "reasons": node.reasons,
            "layer": self._layer_index(node.layer),
            "shade": None if node.shade is None else dataclasses.asdict(node.shade),
            "before": self._layer_index(node.before) if node.reasons else None,
        }

    def _layer_index(self, layer: Layer | None) -> int | None:
        if layer is None:
            return None
        key = layer.identity, id(layer.changes)
        if key not in self._layers:
            self._layers[key] = len(self.layers)
            self.layers.append(_facts(layer))
        return self._layers[key]


def _group(group: Group, view: View) -> dict[str, Any]:
    nodes = [view.nodes[number] for number in group.nodes]
    known = [node.parameters for node in nodes if not node.again]
    return {
        "name": group.name,
        "nodes": group.nodes,
        "parent": group.parent,
        "parameters": None if None in known else sum(filter(None, known)),
        "output": nodes[-1].output,
        "differences": sum(node.difference != SAME for node in nodes),
    }


def _facts(layer: Layer) -> dict[str, Any]:
    """Return what the panel shows of a layer; of a nested model, only the name."""
    if layer.graph is not None:
        return {"name": layer.name, "config": None, "gist": "", "variables": []}
    variables = variables_of(layer)
    config = config_of(layer)
    return {
        "name": layer.name,
        "config": _shortened(config),
        "gist": gist_of(config),
        "variables": None
        if variables is None
        else [dataclasses.asdict(statistics_of(variable)) for variable in variables],
    }


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType] a config is of unknown types
    if isinstance(value, list):
        more = len(value) - _MANY  # pyright: ignore[reportUnknownArgumentType] the same
        shown = [_shortened(item) for item in value[:_MANY]]  # pyright: ignore[reportUnknownVariableType] the same
        return [*shown, f"… and {more} more"] if more > 0 else shown
    if isinstance(value, str) and len(value) > _LONG:
        return f"{value[:_LONG]}…"
    return value
