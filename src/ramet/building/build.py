"""From a Graph to a new Keras model."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.building.builder import EditedBuilder
from ramet.building.finish import NOT_COMPILED, check_function, name_uniquely
from ramet.building.model_class import settle_class
from ramet.building.trainable import check_flags, set_flags
from ramet.building.weights.inheritance import Inheritance
from ramet.copying.fresh_weights import seeded
from ramet.copying.models import copy_model
from ramet.graph import Graph
from ramet.graph.edits.remake import recreated
from ramet.graph.edits.stale import ready_to_build
from ramet.graph.tree import same_shape
from ramet.tracing.failures import explained
from ramet.tracing.options import check_options
from ramet.tracing.origin import is_edited, live_of, traced_model


@dataclass(frozen=True)
class Built:
    """A model that was built from an edited graph, and what became of its state."""

    model: Any
    """The new model."""
    inheritance: Inheritance
    """Where its weights come from."""
    optimizer: str
    """What became of the optimizer, in words."""


def build(graph: Graph, *, weights: str, seed: int | None, name: str | None) -> Any:
    """Build a model from a graph that was traced from one; see `Graph.build`."""
    check_options(weights, seed, name)
    model = traced_model(graph)
    if is_edited(graph):
        return build_edited(ready_to_build(graph), weights, seed, name or graph.name).model
    return copy_model(model, weights=weights, seed=seed, name=name or graph.name)


def build_edited(graph: Graph, weights: str, seed: int | None, name: str) -> Built:
    """Build a graph that was edited after it had been traced.

    Args:
        graph: The graph, without calls and layers that its outputs do not need; see
            `ready_to_build`.
        weights: Where the values of its variables come from; see `Graph.build`.
        seed: Makes fresh weights reproducible.
        name: Name of the new model.
    """
    distributed = internals.distributed_like(_variables_of(graph))
    with explained(graph), distributed, internals.paused_collector():
        return _build_there(graph, weights, seed, name)


def _variables_of(graph: Graph) -> Iterator[Any]:
    """Yield the variables of the layers that a graph was made of."""
    layers = (r.origin for r in graph.layers.values() if isinstance(r.origin, keras.Layer))
    for layer in layers:
        for part in internals.all_layers(layer):
            yield from internals.layer_state(part)


def _build_there(graph: Graph, weights: str, seed: int | None, name: str) -> Built:
    """Build an edited graph on the devices that its variables are to be on."""
    live = live_of(graph)
    if weights == "share":
        check_flags(r for visit in graph.walk() for r in visit.graph.layers.values())
        graph = recreated(graph)
    with seeded(seed):
        builder = EditedBuilder(weights, graph)
        model = builder.whole() if live.model is not None else builder.part(name)
        builder.settle()
        builder.take_steps()
    set_flags(graph, builder.layer, model)
    for edited in builder.edited_models(model):
        settle_class(edited)
    vars(model)["name"] = name
    name_uniquely(model, builder.ids())
    check_function(model, "rename one of them")
    internals.name_outputs(internals.functional_of(model))
    internals.list_parameters(model)
    builder.compile_nested()
    return Built(model, builder.inheritance, _compile(graph, model, builder))


def _compile(graph: Graph, model: Any, builder: EditedBuilder) -> str:
    """Compile a new model like the traced one, and say what became of the optimizer."""
    live = live_of(graph)
    if live.graph is not None and same_shape(live.graph.outputs, graph.outputs):
        return builder.compile_from(live.model, model)
    if getattr(live.model, "optimizer", None) is not None:
        return "none: with other outputs, the new model is not compiled"
    if live.left_compiled:
        return "none: a part of a compiled model is not compiled"
    return NOT_COMPILED
