"""Other names for layers."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from ramet.errors import GraphError, OptionError
from ramet.graph.draft import Draft, with_entry
from ramet.graph.locate import calls_of_layer, descend, find_layer
from ramet.graph.nested import edit_everywhere
from ramet.graph.parts import Edit, Layer
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
    records: dict[str, Layer] = {}
    for path in names:
        _, inner, name = descend(graph, path)
        records[path] = inner.layers[find_layer(inner, name)]
    changed = graph
    for number, path in enumerate(names if len(names) > 1 else ()):
        changed = _renamed(changed, records[path], f"{number}\0", edit)
    for path, new in names.items():
        changed = _renamed(changed, records[path], new, edit)
    return with_entry(changed, edit)


def prefix(graph: "Graph", text: str) -> "Graph":
    """Puts a text before the name of every layer, but not of those in nested models."""
    check_name(text, "a prefix")
    edit = Edit(f"prefix '{text}'")
    return with_entry(prefixed(graph, text, edit), edit)


def prefixed(graph: "Graph", text: str, edit: Edit) -> "Graph":
    """Puts a text before the name of every layer, without a line in the journal."""
    changed = graph
    for key in {call.layer: None for call in written_calls(graph) if call.layer is not None}:
        layer = graph.layers[key]
        changed = _renamed(changed, layer, f"{text}{layer.name}", edit)
    return changed


def _renamed(graph: "Graph", record: Layer, new: str, edit: Edit) -> "Graph":
    def change(target: "Graph", key: str) -> "Graph":
        if new != key and new in target.layers:
            message = f"graph '{target.name}' has a layer '{new}' already; choose another name"
            raise GraphError(message)
        draft = Draft(target, edit)
        calls = calls_of_layer(target, key)
        draft.layers = {
            (new if k == key else k): (dataclasses.replace(v, name=new) if k == key else v)
            for k, v in draft.layers.items()
        }
        for call in calls:
            specs = call.outputs
            if target.layers[key].kind == "InputLayer":
                specs = tuple(dataclasses.replace(spec, name=new) for spec in specs)
            draft.calls[call.name] = dataclasses.replace(call, layer=new, outputs=specs)
        draft.rename_calls({call.name: new + call.name[len(key) :] for call in calls})
        return draft.done()

    return edit_everywhere(graph, record, edit, change)


def check_name(name: object, what: str) -> None:
    """Checks that a name is one that Keras takes.

    Raises:
        OptionError: If it is not.
    """
    if not isinstance(name, str) or not name or "/" in name:
        message = f"{what} must be a string without '/', got {name!r}"
        raise OptionError(message)
