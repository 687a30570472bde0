"""Numbers for the tensors of a graph: computed alike, numbered alike."""

from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet.graph import Call, Graph, Ref
from ramet.graph.interpret import CallLoop
from ramet.graph.tree import leaves

Place = tuple[str, Ref]
"""A tensor in a nested graph: the path of the graph, and the tensor in it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """How a tensor is computed by a plain operation."""

    kind: type
    """Class of the operation."""
    options: tuple[Any, ...]
    """Its constructor arguments."""
    arguments: tuple[Any, ...]
    """A number for every tensor, and a key for every constant, in order."""
    index: int
    """Which of its outputs the tensor is."""


@dataclass
class Numbers:
    """Numbers the tensors of a graph and of the graphs nested in it.

    Two tensors have the same number if the same plain operations compute them from
    the same tensors. A layer may have state, so the outputs of each call have new numbers.
    """

    places: dict[Place, int] = field(default_factory=dict[Place, int])
    """The number of every tensor."""
    known: dict[Any, int] = field(default_factory=dict[Any, int])
    """The number of every way to compute a tensor."""
    ways: list[Any] = field(default_factory=list[Any])
    """How each number is computed: an `Operation`, or a place."""

    def read(self, graph: Graph, prefix: str, inputs: dict[Ref, int]) -> None:
        """Number every tensor of a graph in O(calls), those of nested models counted per use."""
        numbered = _GraphNumbers(self, graph, prefix)
        numbered.values.update(inputs)
        numbered.make_calls()
        self.places |= {(prefix, ref): number for ref, number in numbered.values.items()}

    def number(self, way: Any) -> int:
        """Return the number of a tensor that is computed in some way."""
        number = self.known.setdefault(way, len(self.ways))
        if number == len(self.ways):
            self.ways.append(way)
        return number

    def operation(self, number: int, kind: str) -> Operation | None:
        """Return how a tensor is computed, if by an operation of that kind."""
        way = self.ways[number]
        return way if isinstance(way, Operation) and way.kind.__name__ == kind else None

    def depends(self, number: int, on: int) -> bool:
        """Whether plain operations compute a tensor from another one."""
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


class _GraphNumbers(CallLoop):
    """Numbers the tensors of one graph at one place."""

    def __init__(self, numbers: Numbers, graph: Graph, prefix: str) -> None:
        super().__init__(graph)
        self._numbers, self._prefix = numbers, prefix

    def step(self, call: Call) -> None:
        """Number the outputs of one call."""
        layer = None if call.layer is None else self.graph.layers[call.layer]
        if layer is not None and layer.graph is not None:
            self.keep(call, self._nested(call, layer.graph))
            return
        ways: list[Any] = [
            (self._prefix, Ref(call.name, index))
            if layer is None or not layer.is_operation
            else self._operation(call, layer.origin, index)
            for index in range(len(call.outputs))
        ]
        self.keep(call, map(self._numbers.number, ways))

    def _nested(self, call: Call, inner: Graph) -> list[int]:
        path = f"{self._prefix}{call.name}/"
        inputs = {ours: self.values[ref] for ours, ref in nested_inputs(call, inner)}
        self._numbers.read(inner, path, inputs)
        return [self._numbers.places[path, ref] for ref in keras.tree.flatten(inner.outputs)]

    def _operation(self, call: Call, operation: Any, index: int) -> Operation:
        options = sorted(internals.operation_options(operation).items())
        return Operation(
            kind=type(operation),
            options=tuple((name, _constant(value)) for name, value in options),
            arguments=tuple(map(self._argument, leaves((call.args, call.kwargs)))),
            index=index,
        )

    def _argument(self, leaf: Any) -> Any:
        return self.values[leaf] if isinstance(leaf, Ref) else _constant(leaf)


def nested_inputs(call: Call, inner: Graph) -> list[tuple[Ref, Ref]]:
    """Pair the inputs of a nested graph with the tensors that it is called on."""
    passed = keras.tree.flatten(call.args[0] if call.args else call.kwargs.get("inputs"))
    expected = keras.tree.flatten(inner.inputs)
    if len(passed) != len(expected):
        return []
    return [(e, p) for e, p in zip(expected, passed, strict=True) if isinstance(p, Ref)]


def _constant(value: Any) -> Any:
    """Return a hashable key, equal for equal constants and never an int."""
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
    """Return the number or string that the key of a constant stands for, or `None`."""
    kind, *values = key if isinstance(key, tuple) else (None,)
    return values[0] if len(values) == 1 and kind is type(values[0]) else None
