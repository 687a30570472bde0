"""Which layers of a model train, once an edited graph is built."""

from collections.abc import Callable, Iterable
from typing import Any

from ramet import keras_internals as internals
from ramet.errors import OptionError
from ramet.graph import Graph, Layer
from ramet.tracing.origin import live_of

NewLayer = Callable[[Layer], Any]
"""Returns the new layer of a record."""


def is_new(record: Layer, known: set[int]) -> bool:
    """Whether an edit added a layer: it is not one of those that were traced."""
    return record.can_train and id(record.origin) not in known


def traced_layers(graph: Graph) -> set[int]:
    """Return the ids of the live layers of a graph as it was traced, nested ones too."""
    read = live_of(graph).graph or graph
    return {id(record.origin) for visit in read.walk() for record in visit.graph.layers.values()}


def trains_by_edit(graph: Graph, known: set[int]) -> bool:
    """Whether an edit unfreezes something in a graph, or adds something that trains."""
    for record in graph.layers.values():
        if record.trainable is not None:
            if record.trainable:
                return True
        elif is_new(record, known) and record.origin.trainable and _may_have_weights(record):
            return True
        if record.graph is not None and trains_by_edit(record.graph, known):
            return True
    return False


def _may_have_weights(record: Layer) -> bool:
    layer = record.origin
    return bool(layer.trainable_variables) or any(
        internals.may_create_weights(part) for part in internals.all_layers(layer)
    )


def carry_flags(source: Any, twin: Any) -> None:
    """Let a layer that was re-created from its config train like the one before it."""
    if source.trainable is False:
        twin.trainable = False
        return
    old, new = internals.all_layers(source), internals.all_layers(twin)
    if [type(part) for part in old] == [type(part) for part in new]:
        for before, part in zip(old, new, strict=True):
            if part.trainable != before.trainable:
                part.trainable = before.trainable


def check_flags(records: Iterable[Layer]) -> None:
    """Check that no edit changes what trains in variables that are the source's own.

    Raises:
        OptionError: If one does.
    """
    for record in records:
        layer = record.origin
        if record.trainable is None or record.apart or not internals.own_trainable(layer):
            continue
        if record.steps:
            continue  # what they add trains; see `EditedBuilder.take_steps`
        if any(v.trainable != record.trainable for v in internals.own_trainable(layer)):
            verb = "unfrozen" if record.trainable else "frozen"
            message = (
                f"layer '{record.name}' cannot be {verb} with weights='share': its variables are "
                "the source's own, and would stop training there too; build with weights='copy'"
            )
            raise OptionError(message)


def set_flags(graph: Graph, new_layer: NewLayer, model: Any) -> None:
    """Let the layers of a built graph train as edits say.

    If something new trains in a model that was frozen as a whole, its old layers are frozen one
    by one instead.

    Args:
        graph: The graph.
        new_layer: Returns the new layer of a record.
        model: The model that was built.
    """
    known = traced_layers(graph)
    _set_inside(graph, new_layer, known)
    _thaw(graph, new_layer, known, model)


def _set_inside(graph: Graph, new_layer: NewLayer, known: set[int]) -> None:
    for record in graph.layers.values():
        if not record.can_train:
            continue
        layer = new_layer(record)
        if record.trainable is not None:
            layer.trainable = record.trainable
        elif is_new(record, known) and layer.trainable != record.origin.trainable:
            layer.trainable = record.origin.trainable  # a model around it was frozen
        if record.graph is not None:
            _set_inside(record.graph, new_layer, known)
            _thaw(record.graph, new_layer, known, layer)


def _thaw(graph: Graph, new_layer: NewLayer, known: set[int], model: Any) -> None:
    """Freeze the old layers of a model one by one instead of the whole, if something trains."""
    if model.trainable or not trains_by_edit(graph, known):
        return
    for record in graph.layers.values():
        old = record.trainable is None and not is_new(record, known)
        trains_inside = record.graph is not None and trains_by_edit(record.graph, known)
        if old and record.can_train and not trains_inside:
            new_layer(record).trainable = False
    internals.set_own_flag(model, trainable=True)
