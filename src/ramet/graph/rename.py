"""Other names for layers."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ramet.errors import GraphError, OptionError
from ramet.graph.draft import Draft, with_entry
from ramet.graph.locate import descend, find_layer
from ramet.graph.nested import rebuilt
from ramet.graph.parts import Edit
from ramet.graph.reach import written_calls

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def rename(graph: "Graph", names: Mapping[str, str]) -> "Graph":
    """Gives layers other names; all at once, so that two can change places."""
    if not isinstance(cast("Any", names), Mapping):
        message = f"names must be a dict of old and new names, got a {type(names).__name__}"
        raise OptionError(message)
    for old, new in names.items():
        check_name(new, f"the new name of '{old}'")
    pairs = ", ".join(f"'{old}' to '{new}'" for old, new in names.items())
    edit = Edit(f"rename {pairs}")
    new_names: dict[tuple[int, int], str] = {}
    for path, new in names.items():
        _, inner, name = descend(graph, path)
        new_names[inner.layers[find_layer(inner, name)].identity] = new
    return with_entry(_renamed(graph, new_names, edit), edit)


def prefix(graph: "Graph", text: str) -> "Graph":
    """Puts a text before the name of every layer, but not of those in nested models."""
    check_name(text, "a prefix")
    edit = Edit(f"prefix '{text}'")
    keys = {call.layer: None for call in written_calls(graph) if call.layer is not None}
    layers = [graph.layers[key] for key in keys]
    names = {layer.identity: f"{text}{layer.name}" for layer in layers}
    return with_entry(_renamed(graph, names, edit), edit)


def _renamed(graph: "Graph", names: dict[tuple[int, int], str], edit: Edit) -> "Graph":
    """Gives layers other names in a graph and in those nested in it."""
    origins = {origin for origin, _ in names}

    def change(target: "Graph") -> "Graph":
        near = [(k, v) for k, v in target.layers.items() if id(v.origin) in origins]
        found = {k: names[v.identity] for k, v in near if v.identity in names}
        return _with_names(target, found, edit) if found else target

    return rebuilt(graph, edit, None, change)


def _with_names(graph: "Graph", names: dict[str, str], edit: Edit) -> "Graph":
    """Gives layers of one graph other names, by key."""
    counts = Counter(names.values())
    for key, new in names.items():
        if counts[new] > 1 or (new in graph.layers and new not in names):
            message = (
                f"graph '{graph.name}' has a layer '{new}' already; choose another for '{key}'"
            )
            raise GraphError(message)
    draft = Draft(graph, edit)
    draft.layers = {
        names.get(key, key): dataclasses.replace(layer, name=names[key]) if key in names else layer
        for key, layer in draft.layers.items()
    }
    calls: dict[str, str] = {}
    for call in graph.calls.values():
        if call.layer in names:
            new, specs = names[call.layer], call.outputs
            if graph.layers[call.layer].kind == "InputLayer":
                specs = tuple(dataclasses.replace(spec, name=new) for spec in specs)
            draft.calls[call.name] = dataclasses.replace(call, layer=new, outputs=specs)
            calls[call.name] = new + call.name[len(call.layer) :]
    draft.rename_calls(calls)
    return draft.done()


def check_name(name: object, what: str) -> None:
    """Checks that a name is one that Keras takes.

    Raises:
        OptionError: If it is not.
    """
    if not isinstance(name, str) or not name or "/" in name:
        message = f"{what} must be a string without '/', got {name!r}"
        raise OptionError(message)
