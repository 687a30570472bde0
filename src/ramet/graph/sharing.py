"""Layers that are tied, and layers that are taken apart."""

import dataclasses
from typing import TYPE_CHECKING

from ramet.errors import GraphError
from ramet.graph.draft import Draft, with_entry
from ramet.graph.locate import calls_of_layer, descend, find_layer
from ramet.graph.names import unique_name
from ramet.graph.nested import edit_inside
from ramet.graph.parts import Edit, apart

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def unshare(graph: "Graph", path: str) -> "Graph":
    """Gives every call of a layer but the first a layer of its own, with the same weights."""
    models, inner, name = descend(graph, path)
    key = find_layer(inner, name)
    calls = calls_of_layer(inner, key)
    if len(calls) == 1:
        message = f"layer '{path}' is called once, so there is nothing to take apart"
        raise GraphError(message)
    edit = Edit(f"unshare '{path}' ({len(calls)} calls)")

    def change(target: "Graph") -> "Graph":
        draft = Draft(target, edit)
        record, names = target.layers[key], dict[str, str]()
        for number, call in enumerate(calls[1:], 1):
            taken = {*draft.layers, *draft.calls}
            new = unique_name(f"{record.name}_{number}", taken).replace("#", "_")
            draft.layers[new] = dataclasses.replace(apart(record), name=new, edit=edit)
            draft.change_call(call.name, layer=new)
            names[call.name] = new
        draft.rename_calls(names)
        return draft.done()

    return with_entry(edit_inside(graph, models, edit, change), edit)


def share(graph: "Graph", first: str, others: tuple[str, ...]) -> "Graph":
    """Lets the calls of some layers be calls of the first, with its weights."""
    models, inner, name = descend(graph, first)
    key = find_layer(inner, name)
    kept = inner.layers[key]
    edit = Edit(f"share '{first}' with {', '.join(repr(other) for other in others)}")
    keys: list[str] = []
    for path in others:
        away, there, other = descend(graph, path)
        if there is not inner:
            message = (
                f"'{first}' and '{path}' are in different graphs ('{inner.name}' and "
                f"'{there.name}'), so they cannot be tied; flatten the nested model first"
            )
            raise GraphError(message)
        del away
        keys.append(find_layer(inner, other))
        found = inner.layers[keys[-1]]
        if found.kind != kept.kind:
            message = (
                f"'{first}' is a {kept.kind} and '{path}' a {found.kind}; only layers of one kind "
                "can be tied"
            )
            raise GraphError(message)

    def change(target: "Graph") -> "Graph":
        draft = Draft(target, edit)
        names: dict[str, str] = {}
        for other in keys:
            for call in calls_of_layer(target, other):
                draft.change_call(call.name, layer=key)
                taken = {*draft.calls, *names.values()} - {call.name}
                names[call.name] = unique_name(key, taken)
        draft.rename_calls(names)
        return draft.done()

    return with_entry(edit_inside(graph, models, edit, change), edit)
