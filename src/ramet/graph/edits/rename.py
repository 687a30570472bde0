"""Layers renamed, or prefixed."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ramet._arguments import check_mapping, check_name
from ramet._words import Promise
from ramet.errors import GraphError, OptionError
from ramet.graph.data import Edit
from ramet.graph.edits.draft import Draft
from ramet.graph.edits.nested import rebuilt
from ramet.graph.journal import with_entry
from ramet.graph.locate import descend, find_layer
from ramet.graph.names import counted, listed
from ramet.graph.reach import written_calls

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def rename(graph: "Graph", names: Mapping[str, str]) -> "Graph":
    """Rename layers, all at once, so that two can swap names."""
    check_mapping(names, "names", "old and new names")
    if not names:
        raise OptionError(f"no layer of graph '{graph.name}' is named to rename; name at least one")
    for old, new in names.items():
        check_name(new, f"the new name of '{old}'")
    pairs = [f"'{old}' to '{new}'" for old, new in names.items()]
    lines = [f"rename {pair}" for pair in pairs]
    edit = Edit.of_many(f"rename {listed(pairs)}", lines, _promise(graph))
    new_names: dict[tuple[int, int], str] = {}
    for path, new in names.items():
        _, inner, name = descend(graph, path)
        new_names[inner.layers[find_layer(inner, name)].identity] = new
    return with_entry(_renamed(graph, new_names, edit), edit)


def prefix(graph: "Graph", text: str) -> "Graph":
    """Prefix the name of every layer, except those inside nested models."""
    check_name(text, "a prefix")
    keys = {call.layer: None for call in written_calls(graph) if call.layer is not None}
    layers = [graph.layers[key] for key in keys]
    renames = [f"rename '{layer.name}' to '{text}{layer.name}'" for layer in layers]
    shown = f"prefix {counted(len(layers), 'layer')} with '{text}'"
    edit = Edit.of_many(shown, renames, _promise(graph))
    names = {layer.identity: f"{text}{layer.name}" for layer in layers}
    return with_entry(_renamed(graph, names, edit), edit)


def _promise(graph: "Graph") -> Promise:
    """Return what other names promise: a `call` of a user's own may look layers up by name."""
    has_own_call = graph.origin is not None and graph.live_origin().has_own_call(graph)
    return "changed" if has_own_call else "exact"


def _renamed(graph: "Graph", names: dict[tuple[int, int], str], edit: Edit) -> "Graph":
    """Rename layers in a graph and in those nested in it."""

    def change(target: "Graph") -> "Graph":
        own = {k: names[v.identity] for k, v in target.layers.items() if v.identity in names}
        return _with_names(target, own, edit) if own else target

    return rebuilt(graph, edit, None, change)


def _with_names(graph: "Graph", names: dict[str, str], edit: Edit) -> "Graph":
    """Rename layers of one graph, by key."""
    counts = Counter(names.values())
    for key, new in names.items():
        if counts[new] > 1 or (new in graph.layers and new not in names):
            message = (
                f"graph '{graph.name}' already has a layer '{new}'; choose another for '{key}'"
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
            if graph.layers[call.layer].is_input:
                specs = tuple(dataclasses.replace(spec, name=new) for spec in specs)
            draft.calls[call.name] = dataclasses.replace(call, layer=new, outputs=specs)
            calls[call.name] = new + call.name[len(call.layer) :]
    draft.rename_calls(calls)
    return draft.done()
