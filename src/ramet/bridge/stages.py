"""Layers that were edited twice: what the first edit had made of them.

To edit a graph twice gives the same weights as to build it in between. So a layer that
was changed by one edit, and is changed again by another, takes its weights over from
what it would be if the graph were built after the first.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ramet.bridge import internals
from ramet.bridge.growth.site import Site
from ramet.bridge.live import Live
from ramet.bridge.reconfigure import reconfigured
from ramet.bridge.transfer import Taken, take_over
from ramet.graph import Graph, Layer, Ref
from ramet.graph.locate import calls_of_layer
from ramet.graph.reach import unsettled_calls
from ramet.graph.stale import ready_to_build


@dataclass(frozen=True)
class Stage:
    """A layer as it was between two edits."""

    layer: Any
    """The live layer, built."""
    site: Site | None = None
    """What it reads; `None` if that is what the layer it comes from reads."""
    taken: dict[int, Taken] = field(default_factory=dict[int, Taken])
    """What became of its variables, by their ids."""
    original: Callable[[Any], Any] = lambda variable: variable
    """Says which variable of the traced model a variable is a copy of."""


Stages = dict[tuple[int, bool], "Stage | None"]
"""The stages made so far, by the records of layers, and whether it is known what they read."""


def staged(record: Layer, stages: Stages) -> Stage | None:
    """Returns what a layer was before it was edited last.

    Costs as much as building the graph above the layer, unless no edit reaches that.

    Returns:
        The stage; `None` if the graph could not be built there, since a later edit mends
        what an earlier one broke.
    """
    if record.earlier is None:
        return None
    return as_edited(record.earlier, stages, sites=record.weights != "fit")


def as_edited(record: Layer, stages: Stages, *, sites: bool) -> Stage | None:
    """Returns what a layer is right after the edit that changed it last.

    Args:
        record: What is known of the layer.
        stages: The stages made so far.
        sites: Whether to find out what it reads.

    Returns:
        The stage; `None` if the graph cannot be built there.
    """
    place = id(record), sites
    if place not in stages and record.place is not None:
        graph, key = record.place
        graph = graph.changed(layers=graph.parts("layers") | {key: record})
        try:
            alone = None if sites else _alone(graph, key)
            stages[place] = alone or _built(graph, key, stages)
        except Exception:  # noqa: BLE001 it fails in as many ways as there are layers
            stages[place] = None
    return stages.get(place)


def _alone(graph: Graph, key: str) -> Stage | None:
    """Makes a layer without its graph, if all above it is as it was traced."""
    record = graph.layers[key]
    shapes = internals.build_shapes(record.origin)
    if record.changes is None or record.earlier is not None or shapes is None:
        return None
    unsettled = unsettled_calls(graph)
    calls = calls_of_layer(graph, key)
    if any(ref.call in unsettled for call in calls for ref in call.written_refs):
        return None
    made = reconfigured(record, sizes=True)
    with internals.untouched_names():
        made.build(**shapes)
    found = take_over(record.origin, made, record.weights)
    kept = {
        id(each.variable): Taken(each.variable, "kept", each.source)
        if each.status == "fitted"
        else each
        for each in found
    }
    return Stage(made, taken=kept)


def _built(graph: Graph, key: str, stages: Stages) -> Stage:
    """Makes a layer and all above it."""
    from ramet.bridge.edited import EditedBuilder
    from ramet.bridge.editedcalls import EditedCalls

    record = graph.layers[key]
    ends = [Ref(call.name) for call in calls_of_layer(graph, key)]
    above = ready_to_build(dataclasses.replace(graph, outputs=ends, origin=Live()))
    builder = EditedBuilder("share", above, stages)
    EditedCalls(builder, above).make()
    builder.finish()
    builder.settle()
    made = builder.layer(record)
    inheritance = builder.inheritance
    return Stage(made, inheritance.site(made), inheritance.taken, inheritance.original)
