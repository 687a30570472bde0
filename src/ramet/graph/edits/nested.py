"""Edits inside nested models, and of layers that several graphs share."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from ramet.graph.data import Edit, Layer

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def edit_inside(
    graph: "Graph", models: tuple[str, ...], edit: Edit, change: Callable[["Graph"], "Graph"]
) -> "Graph":
    """Change the graph of a nested model, wherever that model is used.

    Args:
        graph: The outermost graph.
        models: Keys of the nested models on the way to the one to be changed; none to
            change the outermost graph itself.
        edit: The edit.
        change: Returns the new graph for the old one.
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

    return rebuilt(graph, edit, renewed, lambda outer: outer)


def edit_everywhere(
    graph: "Graph", record: Layer, edit: Edit, change: Callable[["Graph", str], "Graph"]
) -> "Graph":
    """Change every graph that calls a layer, nested ones first.

    Args:
        graph: The outermost graph.
        record: The layer, as one of the graphs has it.
        edit: The edit.
        change: Returns the new graph for an old one, given the layer's key in it.
    """
    token, apart = record.identity

    def changed(inner: "Graph") -> "Graph":
        keys = [k for k, v in inner.layers.items() if v.token == token and v.apart == apart]
        for key in keys:
            inner = change(inner, key)
        return inner

    return rebuilt(graph, edit, None, changed)


def nested_graph(layer: Layer) -> "Graph":
    """Return the graph of a nested model."""
    if layer.graph is None:
        message = f"'{layer.name}' is not a nested model"
        raise TypeError(message)
    return layer.graph


def rebuilt(
    graph: "Graph",
    edit: Edit | None,
    renew: Callable[[Layer], Layer] | None,
    change: Callable[["Graph"], "Graph"],
) -> "Graph":
    """Apply changes to layers and graphs from the inside out, to each graph once.

    Args:
        graph: The outermost graph.
        edit: The edit; `None` if it changes no tensor.
        renew: Returns the new record of a layer, or the same; `None` if all stay.
        change: Returns the new graph for one whose layers are renewed, or the same.
    """
    done: dict[tuple[int, int] | None, tuple[Graph, Graph]] = {}
    for visit in reversed([*graph.walk()]):
        renewed: dict[str, Layer] = {}
        for key, layer in visit.graph.layers.items():
            if renew is None and layer.graph is None:
                continue
            new = layer if renew is None else renew(layer)
            if layer.graph is not None and new.graph is layer.graph:
                before, inner = done[layer.identity]
                if inner is not before:
                    new = dataclasses.replace(new, graph=inner, edit=edit or new.edit)
                elif inner is not layer.graph:  # The same model, traced twice.
                    new = dataclasses.replace(new, graph=inner)
            if new is not layer:
                renewed[key] = new
        target = visit.graph
        if renewed:
            target = target.changed(layers=target.parts("layers") | renewed)
        done[visit.identity] = visit.graph, change(target)
    return done[None][1]


def placed_layers(graph: "Graph") -> dict[tuple[int, int], Layer]:
    """Return all layers by identity, such that recipes can refer to them.

    The weights of a layer that an edit added or changed are known once the graph is built in which
    that was done, so its record says where it is.
    """
    return {
        layer.identity: placed(visit.graph, key)
        for visit in graph.walk()
        for key, layer in visit.graph.layers.items()
    }


def placed(graph: "Graph", key: str) -> Layer:
    """Return the record of a layer, with its place if its weights are only known on build."""
    layer = graph.layers[key]
    if not layer.is_changed or layer.place is not None:
        return layer
    return dataclasses.replace(layer, place=(graph, key))
