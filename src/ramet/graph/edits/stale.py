"""Graphs made ready to be built: without unused calls, and without masks from before an edit."""

import dataclasses
from typing import TYPE_CHECKING

from ramet.graph.data import Call, Edit
from ramet.graph.edits.draft import Draft
from ramet.graph.reach import pruned, written_calls
from ramet.graph.walk import nested_models

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def ready_to_build(graph: "Graph") -> "Graph":
    """Return a graph, and those nested in it, without stale masks and unused calls.

    Costs O(calls). A graph without them is returned unchanged.
    """
    done: dict[tuple[int, int] | None, Graph] = {}
    for visit in reversed([*graph.walk()]):
        target = pruned(without_stale_masks(visit.graph))
        renewed = {
            key: dataclasses.replace(layer, graph=done[layer.identity])
            for key, layer in nested_models(target)
            if done[layer.identity] is not layer.graph
        }
        if renewed:
            target = target.changed(layers=target.parts("layers") | renewed)
        done[visit.identity] = target
    return done[None]


def without_stale_masks(graph: "Graph") -> "Graph":
    """Return a graph without derived masks that depend on an edit.

    A call whose output carries one is run when the graph is built, and Keras derives the mask
    again. Masks that the author passed explicitly stay.
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
