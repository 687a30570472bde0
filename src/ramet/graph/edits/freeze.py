"""Layers frozen, and made trainable again."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ramet.errors import GraphError, OptionError
from ramet.graph.data import Edit, Layer
from ramet.graph.edits.nested import rebuilt
from ramet.graph.journal import with_entry
from ramet.graph.locate import descend, find_layer
from ramet.graph.names import counted
from ramet.graph.paths import layer_paths
from ramet.graph.select import Selection

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def set_trainable(graph: "Graph", at: "str | Selection | None", *, trainable: bool) -> "Graph":
    """Set whether layers, and all layers inside them, are trainable.

    Args:
        graph: The graph.
        at: A layer, a selection, or `None` for all layers.
        trainable: The flag.

    Raises:
        GraphError: If there is no such layer, or it is an operation, which has no weights.
    """
    verb = "unfreeze" if trainable else "freeze"
    if isinstance(at, str):
        record = layer_at(graph, at)
        if not record.can_train:
            message = (
                f"'{at}' of graph '{graph.name}' is an operation ({record.kind}), which has no "
                f"weights to {verb}; name a layer"
            )
            raise GraphError(message)
        edit = Edit(f"{verb} '{at}' ({record.kind})", promise="inference-equal")
        return with_entry(flagged(graph, [record], trainable=trainable), edit)
    if at is None:
        layers, shown = [*layer_paths(graph)], "all layers"
    else:
        if not isinstance(cast("Any", at), Selection):
            message = (
                f"{verb} expects the name of a layer, a selection or nothing, got a "
                f"{type(at).__name__}; {verb} layers one by one, or select them"
            )
            raise OptionError(message)
        at.need()
        layers = [(path, layer_at(graph, path)) for path in at]
        shown = f"{counted(len(layers), 'layer')} {at.asked}"
    layers = [(path, record) for path, record in layers if record.can_train]
    lines = [f"{verb} '{path}' ({record.kind})" for path, record in layers]
    edit = Edit.of_many(f"{verb} {shown}", lines, "inference-equal")
    records = [record for _, record in layers]
    return with_entry(flagged(graph, records, trainable=trainable), edit)


def layer_at(graph: "Graph", path: str) -> Layer:
    """Return the layer at a path."""
    _, inner, name = descend(graph, path)
    return inner.layers[find_layer(inner, name)]


def flagged(graph: "Graph", records: Sequence[Layer], *, trainable: bool) -> "Graph":
    """Return a graph in which some layers, and all inside them, have a `trainable` flag."""
    identities = {layer.identity for record in records for layer in _with_inner(record)}

    def change(target: "Graph") -> "Graph":
        new = {
            key: dataclasses.replace(layer, trainable=trainable)
            for key, layer in target.layers.items()
            if layer.identity in identities and layer.trainable is not trainable
        }
        return target.changed(layers=target.parts("layers") | new) if new else target

    return rebuilt(graph, None, None, change)


def without_flags(graph: "Graph") -> "Graph":
    """Return a graph without the `trainable` flags that edits set."""

    def change(target: "Graph") -> "Graph":
        new = {
            key: dataclasses.replace(layer, trainable=None)
            for key, layer in target.layers.items()
            if layer.trainable is not None
        }
        return target.changed(layers=target.parts("layers") | new) if new else target

    return rebuilt(graph, None, None, change)


def _with_inner(record: Layer) -> list[Layer]:
    """List a layer and, if it is a model, the layers inside."""
    inner = [] if record.graph is None else [layer for _, layer in layer_paths(record.graph)]
    return [layer for layer in (record, *inner) if layer.can_train]
