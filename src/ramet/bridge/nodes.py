"""Copies of symbolic tensors, and of the calls that made them.

A call is copied when a tensor that it made is, and with it all that is above: the
arguments of a call are tensors too. What is not reached, such as a call of the same
layer in another model, is left behind. Calls wait in a queue to be filled, so no
chain of calls is too long for Python's stack.
"""

from collections import deque
from typing import Any

from ramet.bridge import internals
from ramet.bridge.plain import PlainCopier, Uncopyable
from ramet.errors import CopyError


class NodeCopier(PlainCopier):
    """Copies the graphs that symbolic tensors form, without running a layer."""

    def __init__(self) -> None:
        """Starts with nothing copied."""
        super().__init__()
        self.order: dict[int, int] = {}
        """Where a new call stands among the calls of its layer, by the call's id."""
        self._places: dict[int, int] = {}
        self.waiting_nodes: deque[Any] = deque()
        self.operations: list[tuple[Any, Any]] = []
        self._doubles: list[tuple[Any, Any]] = []
        self._own_history: Any = None

    def settle_calls(self) -> None:
        """Puts the calls of every operation into the order in which they were made."""
        for source, made in self.operations:
            if internals.has_several_calls(made):
                internals.order_nodes(made, self.order)
                internals.order_uses(source, made, self.memo)
        for tensor, original in self._doubles:
            vars(tensor)[internals.HISTORY] = vars(original)[internals.HISTORY]

    def _tensor(self, value: Any) -> Any:
        history = value.__dict__.get(internals.HISTORY, internals.NO_HISTORY)
        around, self._own_history = self._own_history, history
        try:
            made = self.copy_object(value)
        finally:
            self._own_history = around
        operation, place, index = history
        if operation is not None:
            original = internals.calls_of(operation)[place].outputs[index]
            if original is not value:
                self._doubles.append((made, self.copy(original)))
        return made

    def _history(self, history: Any) -> Any:
        """Copies what a tensor knows of the call that made it. Elsewhere it is just a tuple."""
        if history is not self._own_history:
            return self._named_tuple(history)
        operation, place, index = history
        if operation is None:
            return history
        call = self.copy(internals.calls_of(operation)[place])
        return internals.new_history(call.operation, self._places[id(call)], index)

    def bare_tensor(self, value: Any) -> None:
        """Copies a tensor, but not the call that made it."""
        made = self.make_empty(value)
        held = {**value.__dict__, internals.HISTORY: internals.NO_HISTORY}
        made.__dict__.update({name: self.copy(item) for name, item in held.items()})

    def _node(self, value: Any) -> Any:
        made = self.make_empty(value)
        operation = made.operation = self.copy(value.operation)
        self._places[id(made)] = internals.add_call(operation, made)
        self.order[id(made)] = internals.node_index(value)
        self.waiting_nodes.append(value)
        return made

    def fill_node(self, source: Any) -> None:
        """Gives the copy of a call its arguments and outputs.

        Raises:
            CopyError: If a constant among the arguments cannot be copied.
        """
        made = self.memo[id(source)]
        known = made.__dict__
        fields = {name: item for name, item in source.__dict__.items() if name not in known}
        try:
            self.copy_fields(fields)
        except Uncopyable as problem:
            model = internals.graph_with(source, [old for old, _ in self.operations])
            where = f" of model '{model.name}'" if model is not None else ""
            message = (
                f"call '{source.operation.name}'{where} cannot be "
                f"copied: one of its arguments holds a {problem.kind}; give it to the layer "
                "another way"
            )
            raise CopyError(message) from problem
        known.update(fields)
        internals.add_uses(made)
