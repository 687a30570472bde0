"""Masks that Keras filled in before an edit, and that nothing needs after it."""

import dataclasses
from typing import TYPE_CHECKING

from ramet.graph.draft import Draft
from ramet.graph.parts import Call, Edit, Layer
from ramet.graph.reach import pruned, written_calls

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def ready_to_build(graph: "Graph") -> "Graph":
    """Return a graph, and those nested in it, with nothing that building them does not need.

    Costs O(calls). A graph in which everything is needed is returned as it is.
    """
    return _ready(graph, {})


def _ready(graph: "Graph", done: dict[int, "Graph"]) -> "Graph":
    if id(graph) not in done:
        found = pruned(without_stale_masks(graph))
        renewed: dict[str, Layer] = {}
        for key, layer in found.layers.items():
            inner = None if layer.graph is None else _ready(layer.graph, done)
            if inner is not layer.graph:
                renewed[key] = dataclasses.replace(layer, graph=inner)
        done[id(graph)] = (
            found.changed(layers=found.parts("layers") | renewed) if renewed else found
        )
    return done[id(graph)]


def without_stale_masks(graph: "Graph") -> "Graph":
    """Leave out masks that are computed from what an edit changed.

    Who carries one is called when the graph is built, and gets another. Masks that are read
    by hand stay: they are what the author wrote.
    """
    written = {call.name for call in written_calls(graph)}
    stale: set[str] = set()
    for call in graph.calls.values():
        if call.name not in written and (
            _is_edited(graph, call) or any(ref.call in stale for ref in call.refs)
        ):
            stale.add(call.name)
    if not stale:
        return graph
    draft = Draft(graph, Edit(""))
    draft.forget(stale)
    return draft.done()


def _is_edited(graph: "Graph", call: Call) -> bool:
    layer = None if call.layer is None else graph.layers[call.layer]
    return call.edit is not None or (layer is not None and layer.edit is not None)
