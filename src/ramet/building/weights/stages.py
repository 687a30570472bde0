"""Layers that were edited twice: what the first edit had made of them.

Editing a graph twice results in the same weights as building it in between. So a layer
that was changed by one edit, and is changed again by another, takes over its weights from
what it would be if the graph were built after the first.
"""

import dataclasses

from ramet import keras_internals as internals
from ramet.building.reconfigure import reconfigured
from ramet.building.weights.computed import Stage, compute
from ramet.building.weights.transfer import as_kept, take_over
from ramet.graph import Graph, Layer, Ref
from ramet.graph.edits.remake import recreated
from ramet.graph.edits.stale import ready_to_build
from ramet.graph.locate import calls_of_layer
from ramet.graph.reach import unsettled_calls
from ramet.tracing.origin import Live

Stages = dict[tuple[int, bool], "Stage | None"]
"""The stages so far, by the ids of layer records and whether the inputs are known."""


def staged(record: Layer, stages: Stages) -> Stage | None:
    """Return a layer as it was before its last edit.

    Costs as much as building the graph above the layer, unless no edit changed that.

    Returns:
        The stage; `None` if the graph could not be built there: a later edit may repair
        what an earlier one broke.
    """
    if record.earlier is None:
        return None
    return as_edited(record.earlier, stages, sites=record.weights != "fit")


def as_edited(record: Layer, stages: Stages, *, sites: bool) -> Stage | None:
    """Return a layer as it is right after its last edit.

    Args:
        record: The record of the layer.
        stages: The stages so far; the new one is added.
        sites: Whether to find out what its inputs are made of.

    Returns:
        The stage; `None` if the graph cannot be built there.
    """
    place = id(record), sites
    if place not in stages and record.place is not None:
        graph, key = record.place
        graph = graph.changed(layers=graph.parts("layers") | {key: record})
        try:
            alone = None if sites else _alone(graph, key, stages)
            stages[place] = alone or _built(graph, key, stages)
        except Exception:  # noqa: BLE001 a user layer may raise anything
            stages[place] = None
    return stages.get(place)


def _alone(graph: Graph, key: str, stages: Stages) -> Stage | None:
    """Re-create a layer without its graph, if everything above it is as it was traced."""
    record = graph.layers[key]
    shapes = internals.build_shapes(record.origin)
    if record.changes is None or record.earlier is not None or shapes is None:
        return None
    unsettled = unsettled_calls(graph)
    calls = calls_of_layer(graph, key)
    if any(ref.call in unsettled for call in calls for ref in call.written_refs):
        return None
    layer = reconfigured(record, sizes=True)
    with internals.untouched_names():
        layer.build(**shapes)
    if record.recipe is None:
        transfers = take_over(record.origin, layer, record.weights)
    else:
        transfers = compute(record, layer, lambda each: as_edited(each, stages, sites=False))
    taken = as_kept(transfers)
    return Stage(layer, taken={id(each.variable): each for each in taken})


def _built(graph: Graph, key: str, stages: Stages) -> Stage:
    """Build a layer and everything above it."""
    # A builder asks for stages, and each stage has a builder of its own.
    from ramet.building.builder import EditedBuilder  # noqa: PLC0415 it imports this module

    record = graph.layers[key]
    ends = [Ref(call.name) for call in calls_of_layer(graph, key)]
    above = ready_to_build(dataclasses.replace(graph, outputs=ends, origin=Live()))
    above = recreated(above)  # the weights that are computed are not those of the source
    builder = EditedBuilder("share", above, stages)
    builder.make_calls()
    builder.finish()
    builder.settle()
    layer = builder.layer(record)
    inheritance = builder.inheritance
    return Stage(layer, inheritance.site(layer), inheritance.taken, inheritance.original)
