"""Edits inside nested models, and of layers that several graphs have in common."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from ramet.graph.parts import Edit, Layer

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def edit_inside(
    graph: "Graph", models: tuple[str, ...], edit: Edit, change: Callable[["Graph"], "Graph"]
) -> "Graph":
    """Changes the graph of a nested model, wherever that model is used.

    Args:
        graph: The outermost graph.
        models: Keys of the nested models on the way to the one to be changed; none to
            change the outermost graph itself.
        edit: What is done.
        change: Makes the new graph of the old one.
    """
    if not models:
        return change(graph)
    inner = graph
    record: Layer | None = None
    for key in models:
        record = inner.layers[key]
        inner = nested_graph(record)
    new, model = change(inner), record

    def renewed(layer: Layer) -> Layer:
        if model is not None and layer.identity == model.identity:
            return dataclasses.replace(layer, graph=new, edit=edit)
        return layer

    return _rebuilt(graph, edit, renewed, lambda outer: outer, {})


def edit_everywhere(
    graph: "Graph", record: Layer, edit: Edit, change: Callable[["Graph", str], "Graph"]
) -> "Graph":
    """Changes every graph that calls a layer, nested ones first.

    Args:
        graph: The outermost graph.
        record: The layer, as one of the graphs has it.
        edit: What is done.
        change: Makes the new graph of an old one, given the layer's key in it.
    """
    identity = record.identity

    def changed(inner: "Graph") -> "Graph":
        keys = [key for key, layer in inner.layers.items() if layer.identity == identity]
        for key in keys:
            inner = change(inner, key)
        return inner

    return _rebuilt(graph, edit, lambda layer: layer, changed, {})


def nested_graph(layer: Layer) -> "Graph":
    """Returns the graph of a nested model."""
    if layer.graph is None:
        message = f"'{layer.name}' is not a nested model"
        raise TypeError(message)
    return layer.graph


def _rebuilt(
    graph: "Graph",
    edit: Edit,
    renew: Callable[[Layer], Layer],
    change: Callable[["Graph"], "Graph"],
    done: dict[int, "Graph"],
) -> "Graph":
    """Applies changes to layers and graphs from the inside out, to each graph once."""
    if id(graph) in done:
        return done[id(graph)]
    renewed: dict[str, Layer] = {}
    for key, layer in graph.layers.items():
        new = renew(layer)
        if new is layer and layer.graph is not None:
            inner = _rebuilt(layer.graph, edit, renew, change, done)
            if inner is not layer.graph:
                new = dataclasses.replace(layer, graph=inner, edit=edit)
        if new is not layer:
            renewed[key] = new
    found = graph
    if renewed:
        found = graph.changed(layers={**graph.layers, **renewed})
    done[id(graph)] = found = change(found)
    return found
