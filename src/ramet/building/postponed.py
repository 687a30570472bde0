"""Nested models whose graphs are built when they are called, not when they are first met.

A copier meets a model as soon as something that holds it is filled, such as the Sequential
model around it. What it is called on, and so the shapes of its inputs, is known later.
"""

from collections.abc import Iterable
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.graph import Layer
from ramet.tracing.origin import live_of

Identity = tuple[int, int]


class Postponed:
    """The functions of nested models that wait for the first call of their model."""

    def __init__(self, records: Iterable[Layer]) -> None:
        """Start without functions.

        Args:
            records: The records of all layers.
        """
        self._models = {
            (record.apart, id(live_of(record.graph).function)): record
            for record in records
            if record.graph is not None
        }
        self._waiting: list[tuple[int, Any]] = []
        self._called: set[Identity] = set()
        self._is_over = False

    def note_call(self, record: Layer) -> None:
        """Note that a nested model is called, so that its input shapes are final."""
        self._called.add(record.identity)

    def is_called(self, record: Layer) -> bool:
        """Whether a nested model was called."""
        return record.identity in self._called

    def end(self) -> None:
        """Note that no further calls come."""
        self._is_over = True

    def note_use(self, layer: Any) -> None:
        """Note that a layer is used now, with the nested models that it holds."""
        if self._waiting and isinstance(layer, keras.Layer):
            held = {id(part) for part in internals.all_layers(layer)}
            for record in self._models.values():
                if id(record.origin) in held:
                    self.note_call(record)

    def has_to_wait(self, number: int, function: Any) -> bool:
        """Let a function wait, if its model is called later.

        Args:
            number: The number of its group.
            function: The function that was traced.
        """
        if self._may_be_built(number, function):
            return False
        self._waiting.append((number, function))
        return True

    def take(self, number: int) -> Any | None:
        """Return a function of a group that need not wait any more; `None` if there is none."""
        for entry in self._waiting:
            if entry[0] == number and self._may_be_built(*entry):
                self._waiting.remove(entry)
                return entry[1]
        return None

    def _may_be_built(self, number: int, function: Any) -> bool:
        record = self._models.get((number, id(function)))
        return self._is_over or record is None or record.identity in self._called
