"""Numbers for the tensors of a graph: computed alike, numbered alike."""

from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from ramet.bridge import internals
from ramet.graph import Call, Graph, Ref
from ramet.graph.tree import leaves

Place = tuple[str, Ref]
"""A tensor in a nested graph: the path of the graph, and the tensor in it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """How a tensor is computed by a plain operation."""

    kind: type
    """Class of the operation."""
    options: tuple[Any, ...]
    """What the operation was made with."""
    arguments: tuple[Any, ...]
    """A number for every tensor, and a key for every constant, in order."""
    index: int
    """Which of its outputs the tensor is."""


@dataclass
class Numbers:
    """Numbers the tensors of a graph and of the graphs nested in it.

    Two tensors have the same number if the same plain operations compute them from
    the same tensors. A layer may have state, so each call of one gives new numbers.
    """

    places: dict[Place, int] = field(default_factory=dict[Place, int])
    """The number of every tensor."""
    made: dict[Any, int] = field(default_factory=dict[Any, int])
    """The number of every way to compute a tensor."""
    ways: list[Any] = field(default_factory=list[Any])
    """How each number is computed: an `Operation`, or a place."""

    def read(self, graph: Graph, prefix: str, inputs: dict[Ref, int]) -> None:
        """Numbers every tensor of a graph. Costs O(calls), nested ones counted per use."""
        for call in graph.calls.values():
            layer = None if call.layer is None else graph.layers[call.layer]
            if layer is not None and layer.graph is not None:
                self._read_nested(prefix, call, layer.graph)
                continue
            for index in range(len(call.outputs)):
                ref = Ref(call.name, index)
                way: Any = (prefix, ref)
                if layer is not None and not isinstance(layer.origin, keras.Layer):
                    way = self._operation(prefix, call, layer.origin, index)
                self.places[prefix, ref] = inputs[ref] if ref in inputs else self._number(way)

    def _read_nested(self, prefix: str, call: Call, inner: Graph) -> None:
        path = f"{prefix}{call.name}/"
        inputs = {ours: self.places[prefix, ref] for ours, ref in nested_inputs(call, inner)}
        self.read(inner, path, inputs)
        for index, ref in enumerate(keras.tree.flatten(inner.outputs)):
            self.places[prefix, Ref(call.name, index)] = self.places[path, ref]

    def _operation(self, prefix: str, call: Call, operation: Any, index: int) -> Operation:
        options = sorted(internals.operation_options(operation).items())
        return Operation(
            kind=type(operation),
            options=tuple((name, _constant(value)) for name, value in options),
            arguments=tuple(
                self._argument(prefix, leaf) for leaf in leaves((call.args, call.kwargs))
            ),
            index=index,
        )

    def _argument(self, prefix: str, leaf: Any) -> Any:
        return self.places[prefix, leaf] if isinstance(leaf, Ref) else _constant(leaf)

    def _number(self, way: Any) -> int:
        number = self.made.setdefault(way, len(self.ways))
        if number == len(self.ways):
            self.ways.append(way)
        return number

    def operation(self, number: int, kind: str) -> Operation | None:
        """Returns how a tensor is computed, if by an operation of that kind."""
        way = self.ways[number]
        return way if isinstance(way, Operation) and way.kind.__name__ == kind else None

    def depends(self, number: int, on: int) -> bool:
        """Tells whether plain operations compute a tensor from another one."""
        pending, seen = [number], set[int]()
        while pending:
            current = pending.pop()
            if current == on:
                return True
            way = self.ways[current]
            if current not in seen and isinstance(way, Operation):
                pending += [argument for argument in way.arguments if isinstance(argument, int)]
            seen.add(current)
        return False


def nested_inputs(call: Call, inner: Graph) -> list[tuple[Ref, Ref]]:
    """Pairs the inputs of a nested graph with the tensors that a call gives to it."""
    given = keras.tree.flatten(call.args[0] if call.args else call.kwargs.get("inputs"))
    expected = keras.tree.flatten(inner.inputs)
    if len(given) != len(expected):
        return []
    return [(e, g) for e, g in zip(expected, given, strict=True) if isinstance(g, Ref)]


def _constant(value: Any) -> Any:
    """Returns something hashable that is equal for equal constants; never an int."""
    if isinstance(value, (list, tuple)):
        return (type(value), *(_constant(item) for item in value))
    if isinstance(value, slice):
        return (slice, *map(_constant, (value.start, value.stop, value.step)))
    if isinstance(value, (np.ndarray, np.generic)):
        return (type(value), value.shape, str(value.dtype), value.tobytes())
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return (type(value), value)
    return ("object", id(value))


def constant_of(key: Any) -> Any:
    """Returns the number or text that a key of a constant stands for; `None` for others."""
    kind, *values = key if isinstance(key, tuple) else (None,)
    return values[0] if len(values) == 1 and kind is type(values[0]) else None
