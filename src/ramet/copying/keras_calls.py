"""Copies of symbolic tensors, and of the calls that made them (Keras's nodes).

A call is copied with its output tensors, and so are all calls that it depends on, since its
arguments are tensors too. Calls that are not reached, such as those of the same layer in
another model, are not copied. No layer is run. Calls wait in a queue to be filled, so no chain
of calls is too long for Python's stack.
"""

from collections import deque
from typing import TYPE_CHECKING, Any

import keras

from ramet import keras_internals as internals
from ramet.copying.containers import copy_tuple_object
from ramet.copying.handlers import Registry, Uncopyable
from ramet.errors import CopyError

if TYPE_CHECKING:
    from ramet.copying.deep_copy import Copier

copies = Registry()


class Calls:
    """The calls that a copier has copied, or has to."""

    def __init__(self) -> None:
        """Start without calls."""
        self.waiting: deque[Any] = deque()
        """Calls whose copies have no arguments and outputs yet."""
        self.order: dict[int, int] = {}
        """The rank of a new call among the calls of its layer, by the id of the call."""
        self.places: dict[int, int] = {}
        """The index of a new call in the list of its layer so far, by the id of the call."""
        self.doubles: list[tuple[Any, Any]] = []
        """New tensors that are copies of the outputs of their calls, with those outputs."""
        self.own_history: Any = None
        """The history of the tensor that is being copied."""


@copies(keras.KerasTensor)
def copy_tensor(copier: "Copier", tensor: Any) -> Any:
    """Copy a symbolic tensor and the call that made it."""
    calls = copier.calls
    history = tensor.__dict__.get(internals.HISTORY, internals.NO_HISTORY)
    around, calls.own_history = calls.own_history, history
    try:
        twin = copier.copy_object(tensor)
    finally:
        calls.own_history = around
    operation, place, index = history
    if operation is not None:
        original = internals.calls_of(operation)[place].outputs[index]
        if original is not tensor:
            calls.doubles.append((twin, copier.copy(original)))
    return twin


@copies(internals.KerasHistory)
def copy_history(copier: "Copier", history: Any) -> Any:
    """Copy the history of a tensor. Anywhere else, a history is an ordinary tuple."""
    if history is not copier.calls.own_history:
        return copy_tuple_object(copier, history)
    operation, place, index = history
    if operation is None:
        return history
    call = copier.copy(internals.calls_of(operation)[place])
    return internals.new_history(call.operation, copier.calls.places[id(call)], index)


@copies(internals.Node)
def copy_call(copier: "Copier", call: Any) -> Any:
    """Create the copy of a call, to be filled later."""
    calls = copier.calls
    twin = copier.make_empty(call)
    operation = twin.operation = copier.copy(call.operation)
    calls.places[id(twin)] = internals.add_call(operation, twin)
    calls.order[id(twin)] = internals.node_index(call)
    calls.waiting.append(call)
    return twin


def copy_bare_tensor(copier: "Copier", tensor: Any) -> None:
    """Copy a symbolic tensor without the call that made it."""
    twin = copier.make_empty(tensor)
    held = {**tensor.__dict__, internals.HISTORY: internals.NO_HISTORY}
    twin.__dict__.update({name: copier.copy(item) for name, item in held.items()})


def fill_call(copier: "Copier", call: Any) -> None:
    """Fill the copy of a call with its arguments and outputs.

    Raises:
        CopyError: If a constant among the arguments cannot be copied.
    """
    twin = copier.memo[id(call)]
    known = twin.__dict__
    fields = {name: item for name, item in call.__dict__.items() if name not in known}
    try:
        copier.copy_fields(fields)
    except Uncopyable as problem:
        model = internals.graph_with(call, [source for source, _ in copier.shells.pairs])
        where = f" of model '{model.name}'" if model is not None else ""
        message = (
            f"call '{call.operation.name}'{where} cannot be "
            f"copied: one of its arguments holds a {problem.class_name}; pass it to the layer in "
            "another way, such as by its constructor"
        )
        raise CopyError(message) from problem
    known.update(fields)
    internals.add_uses(twin)


def settle_calls(copier: "Copier") -> None:
    """Sort the calls of every operation, and calls that use it, into the order of the source."""
    for source, twin in copier.shells.pairs:
        if internals.has_several_calls(twin):
            internals.order_nodes(twin, copier.calls.order)
            internals.order_uses(source, twin, copier.memo)
    for tensor, original in copier.calls.doubles:
        vars(tensor)[internals.HISTORY] = vars(original)[internals.HISTORY]
