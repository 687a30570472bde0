"""From a Graph to a new Keras model."""

from collections.abc import Iterator
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.checks import check_options
from ramet.bridge.copies import copy_model, seeded
from ramet.bridge.edited import EditedBuilder, all_graphs
from ramet.bridge.live import is_edited, live_of
from ramet.bridge.model_class import settle_class
from ramet.bridge.settle import check_function, compile_alike, name_apart
from ramet.bridge.training import check_flags, set_flags
from ramet.errors import GraphError
from ramet.graph import Graph
from ramet.graph.stale import ready_to_build
from ramet.graph.tree import same_shape


def build(graph: Graph, *, weights: str, seed: int | None, name: str | None) -> Any:
    """Makes a model of a graph that was traced from one; see `Graph.build`."""
    live = live_of(graph)
    check_options(weights, seed, name)
    if live.model is not None and internals.functional_of(live.model) is not live.function:
        message = f"model '{graph.name}' was rebuilt after it had been traced; trace it again"
        raise GraphError(message)
    if is_edited(graph):
        return build_edited(ready_to_build(graph), weights, seed, name or graph.name)[0]
    return copy_model(live.model, weights=weights, seed=seed, name=name or graph.name)


def build_edited(
    graph: Graph, weights: str, seed: int | None, name: str
) -> tuple[Any, EditedBuilder]:
    """Build a graph that was edited after it had been traced.

    Args:
        graph: The graph, with nothing that is not needed; see `ready_to_build`.
        weights: What its variables are; see `Graph.build`.
        seed: Makes fresh weights reproducible.
        name: Name of the new model.

    Returns:
        The model, and the builder, which knows what became of what.
    """
    with internals.distributed_like(_variables_of(graph)):
        return _build_there(graph, weights, seed, name)


def _variables_of(graph: Graph) -> Iterator[Any]:
    """Yields the variables of the layers that a graph was made of."""
    layers = (r.origin for r in graph.layers.values() if isinstance(r.origin, keras.Layer))
    for layer in layers:
        for part in internals.all_layers(layer):
            yield from internals.layer_state(part)


def _build_there(
    graph: Graph, weights: str, seed: int | None, name: str
) -> tuple[Any, EditedBuilder]:
    live = live_of(graph)
    if weights == "share":
        check_flags(r for _, inner in all_graphs(graph) for r in inner.layers.values())
    with seeded(seed):
        builder = EditedBuilder(weights, graph)
        made = builder.whole() if live.model is not None else builder.part(name)
        builder.settle()
    set_flags(graph, builder.layer, made)
    for model in builder.edited_models(made):
        settle_class(model)
    vars(made)["name"] = name
    name_apart(made, builder.ids())
    check_function(made, "rename one of them")
    internals.name_outputs(internals.functional_of(made))
    internals.list_parameters(made)
    builder.compile_nested()
    if live.graph is not None and same_shape(live.graph.outputs, graph.outputs):
        heirs = builder.heirs(made)
        builder.optimizer = compile_alike(live.model, made, builder.copier, heirs)
    elif getattr(live.model, "optimizer", None) is not None:
        builder.optimizer = "none: with other outputs, the new model is not compiled"
    elif live.left_compiled:
        builder.optimizer = "none: a part of a compiled model is not compiled"
    return made, builder
