"""Which layers of a model train, once an edited graph is built."""

from collections.abc import Callable, Iterable
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.live import live_of
from ramet.errors import OptionError
from ramet.graph import Graph, Layer

Made = Callable[[Layer], Any]
"""Returns the new layer of a record."""


def is_new(record: Layer, known: set[int]) -> bool:
    """Whether an edit brought a layer in: it is none of those that were traced."""
    return id(record.origin) not in known and isinstance(record.origin, keras.Layer)


def traced_layers(graph: Graph) -> set[int]:
    """Return the ids of the live layers of a graph as it was traced, nested ones too."""
    found: set[int] = set()
    read = live_of(graph).graph
    waiting = [graph if read is None else read]
    while waiting:
        for record in waiting.pop().layers.values():
            if id(record.origin) not in found:
                found.add(id(record.origin))
                if record.graph is not None:
                    waiting.append(record.graph)
    return found


def trains_by_edit(graph: Graph, known: set[int]) -> bool:
    """Whether an edit lets something in a graph train, or brings in something that does."""
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


def carry_flags(source: Any, made: Any) -> None:
    """Let a layer that was created again from its config train like the one before it."""
    if source.trainable is False:
        made.trainable = False
        return
    old, new = internals.all_layers(source), internals.all_layers(made)
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
        if any(v.trainable != record.trainable for v in internals.own_trainable(layer)):
            verb = "unfrozen" if record.trainable else "frozen"
            message = (
                f"layer '{record.name}' cannot be {verb} with weights='share': its variables are "
                "the source's own, and would stop training there too; build with weights='copy'"
            )
            raise OptionError(message)


def set_flags(graph: Graph, made: Made, model: Any) -> None:
    """Let the layers of a built graph train as edits say.

    A model that was frozen as a whole, and in which something new trains, is not frozen as a
    whole any more; its old layers are, one by one.

    Args:
        graph: The graph.
        made: Returns the new layer of a record.
        model: The model that was built.
    """
    known = traced_layers(graph)
    _set_inside(graph, made, known)
    _thaw(graph, made, known, model)


def _set_inside(graph: Graph, made: Made, known: set[int]) -> None:
    for record in graph.layers.values():
        if not isinstance(record.origin, keras.Layer) or record.kind == "InputLayer":
            continue
        layer = made(record)
        if record.trainable is not None:
            layer.trainable = record.trainable
        elif is_new(record, known) and layer.trainable != record.origin.trainable:
            layer.trainable = record.origin.trainable  # a model around it was frozen
        if record.graph is not None:
            _set_inside(record.graph, made, known)
            _thaw(record.graph, made, known, layer)


def _thaw(graph: Graph, made: Made, known: set[int], model: Any) -> None:
    """Freeze the old layers of a model one by one in place of the whole, if that is needed."""
    if model.trainable or not trains_by_edit(graph, known):
        return
    for record in graph.layers.values():
        old = record.trainable is None and not is_new(record, known)
        trains_inside = record.graph is not None and trains_by_edit(record.graph, known)
        has_flag = isinstance(record.origin, keras.Layer) and record.kind != "InputLayer"
        if old and has_flag and not trains_inside:
            made(record).trainable = False
    internals.set_own_flag(model, trainable=True)
