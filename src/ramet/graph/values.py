"""Weights that an edit computes: functions on arrays, written down when the edit is made.

A `Value` says how a weight of a new layer is computed from those of the layers before the
edit. It is data: nothing is read before the graph is built. A value whose elements are all
elements of one variable, scaled or not, or new, *moves* that variable; the slots of an optimizer
move alike.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from ramet.graph.names import brief
from ramet.graph.tree import same_value

if TYPE_CHECKING:
    from ramet.graph.data import Layer

Array: TypeAlias = np.ndarray[Any, Any]

Role: TypeAlias = tuple[str, ...]
"""What identifies a variable in its layer: the attributes that lead to it, and its name."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Variable:
    """A variable of a layer, as it is before the edit."""

    layer: "Layer"
    """The record of the layer in the graph that was edited."""
    role: Role
    """Which of its variables."""

    def __eq__(self, other: object) -> bool:
        """Whether another value is the same variable of the same record."""
        return (
            isinstance(other, Variable)
            and self.role == other.role
            and (self.layer is other.layer or self.layer.identity == other.layer.identity)
        )

    def __hash__(self) -> int:
        """Return the hash of its role."""
        return hash(self.role)

    def __repr__(self) -> str:
        """Return layer and role."""
        return brief("Variable", f"'{self.layer.name}' {'.'.join(self.role)}")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Computed:
    """The result of a function of arrays."""

    function: Callable[..., Array]
    """A function of the operands and options, at the top level of a module."""
    operands: "tuple[Value, ...]"
    """What it is called on."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Its keyword arguments."""

    def __eq__(self, other: object) -> bool:
        """Whether another value is computed by the same function from the same operands."""
        return (
            isinstance(other, Computed)
            and self.function is other.function
            and len(self.operands) == len(other.operands)
            and same_value(dict(self.options), dict(other.options))
            and all(map(same_computation, self.operands, other.operands))
        )

    def __hash__(self) -> int:
        """Return the hash of the function and the number of operands."""
        return hash((self.function, len(self.operands)))

    def __repr__(self) -> str:
        """Return the function and its operands."""
        name = getattr(self.function, "__name__", "function").lstrip("_")
        return brief(name, ", ".join(map(_shown, self.operands)))


Value: TypeAlias = Variable | Computed | Array
"""A weight that an edit computes: a variable, a constant, or a function of values."""

Recipe: TypeAlias = Mapping[Role, Value]
"""The weights that an edit computes for one layer, by role; all others stay."""


def same_computation(first: Value, second: Value) -> bool:
    """Whether two values are computed in the same way from the same variables."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return same_value(first, second)
    return first == second


def _shown(value: Value) -> str:
    return f"array{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)


# --- the vocabulary ---


def take(value: Value, indices: Sequence[int] | Array, axis: int) -> Computed:
    """Return what stands at some indices of an axis; index -1 stands for zeros."""
    return Computed(_take, (value,), {"indices": np.asarray(indices, np.int64), "axis": axis})


def pad(value: Value, widths: Sequence[tuple[int, int]]) -> Computed:
    """Return a value between zeros, as `numpy.pad` does."""
    return Computed(_pad, (value,), {"widths": tuple(map(tuple, widths))})


def transpose(value: Value, axes: Sequence[int]) -> Computed:
    """Return a value with its axes in another order."""
    return Computed(_transpose, (value,), {"axes": tuple(axes)})


def reshape(value: Value, shape: Sequence[int]) -> Computed:
    """Return a value in another shape."""
    return Computed(_reshape, (value,), {"shape": tuple(shape)})


def concatenate(values: Sequence[Value], axis: int) -> Computed:
    """Return values end to end."""
    return Computed(_concatenate, tuple(values), {"axis": axis})


def multiply(first: Value, second: Value) -> Computed:
    """Return a product, element by element, in float64."""
    return Computed(_multiply, (first, second))


def add(first: Value, second: Value) -> Computed:
    """Return a sum, element by element, in float64."""
    return Computed(_add, (first, second))


def mean(value: Value, axis: int) -> Computed:
    """Return the mean along an axis, which keeps size one, in float64."""
    return Computed(_mean, (value,), {"axis": axis})


def started(value: Value, start: Value) -> Computed:
    """Return a sum in which the second operand is what new elements of the first start with."""
    return Computed(_started, (value, start))


def scaled(value: Value, factors: Array) -> Computed:
    """Return a product with constants where the function of the model stays the same.

    The loss depends on each element by as much less as it is larger than before.
    """
    return Computed(_scaled, (value,), {"factors": factors})


def weighed(value: Value, parts: Array) -> Computed:
    """Return a value as it is, of whose elements the loss depends by some parts of before.

    A channel that two copies share has two gradients, which add up to the old one.
    """
    return Computed(_weighed, (value,), {"parts": parts})


def _take(value: Array, *, indices: Array, axis: int) -> Array:
    # A padded index reads the first element, which is overwritten; an empty axis has none.
    if (indices >= 0).all():
        return value.take(indices, axis)
    if not value.shape[axis]:
        shape = [*value.shape]
        shape[axis] = len(indices)
        return np.zeros(shape, value.dtype)
    taken = value.take(np.maximum(indices, 0), axis)
    np.moveaxis(taken, axis, 0)[indices < 0] = 0
    return taken


def _pad(value: Array, *, widths: tuple[tuple[int, int], ...]) -> Array:
    return np.pad(value, widths)


def _transpose(value: Array, *, axes: tuple[int, ...]) -> Array:
    return value.transpose(axes)


def _reshape(value: Array, *, shape: tuple[int, ...]) -> Array:
    return value.reshape(shape)


def _concatenate(*values: Array, axis: int) -> Array:
    return np.concatenate(values, axis)


def _multiply(first: Array, second: Array) -> Array:
    return np.multiply(first, second, dtype=np.float64)


def _add(first: Array, second: Array) -> Array:
    return np.add(first, second, dtype=np.float64)


def _mean(value: Array, *, axis: int) -> Array:
    return value.mean(axis, dtype=np.float64, keepdims=True)


def _started(value: Array, start: Array) -> Array:
    return np.add(value, start, dtype=np.float64)


def _scaled(value: Array, *, factors: Array) -> Array:
    return np.multiply(value, factors, dtype=np.float64)


def _weighed(value: Array, *, parts: Array) -> Array:  # noqa: ARG001 slots depend on it
    return value


_MOVES = frozenset({_take, _pad, _transpose, _reshape, _started, _scaled, _weighed})
"""Functions whose results consist of elements of their first operand, and new ones."""


# --- reading values ---


def ends_of(value: Value) -> "Iterator[Variable | Array]":
    """Yield the variables and constants that a value is computed from."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Computed):
            waiting += reversed(item.operands)
        else:
            yield item


def variables_in(value: Value) -> Iterator[Variable]:
    """Yield the variables that a value is computed from."""
    return (item for item in ends_of(value) if isinstance(item, Variable))


def evaluate(
    value: Value, read: Callable[[Variable], Array], known: dict[int, Any] | None = None
) -> Array:
    """Return a value as an array.

    Args:
        value: The value.
        read: Returns the array of a variable.
        known: What functions returned before, by the ids of the values; new results are added,
            so that what several weights have in common is computed once.
    """
    if isinstance(value, Variable):
        return read(value)
    if not isinstance(value, Computed):
        return value
    known = {} if known is None else known
    if id(value) not in known:
        operands = [evaluate(operand, read, known) for operand in value.operands]
        known[id(value)] = value.function(*operands, **cast("dict[str, Any]", value.options))
    return known[id(value)]


def moved_variable(value: Value) -> Variable | None:
    """Return the variable that a value moves: takes elements of, scales, pads or transposes."""
    while isinstance(value, Computed) and value.function in _MOVES:
        value = value.operands[0]
    return value if isinstance(value, Variable) else None


def moved(value: Value, array: Array, power: int | None = None) -> Array:
    """Return what becomes of an array that belongs to the variable that a value moves.

    Args:
        value: The value.
        array: An array of the shape of the variable.
        power: How the array goes with the gradients of the variable: 1 if it grows as they do, 2
            as their squares. By default, it goes with the variable.
    """
    if not isinstance(value, Computed):
        return array
    array = moved(value.operands[0], array, power)
    if power is not None and value.function in (_scaled, _weighed):
        (parts,) = value.options.values()
        return array * parts**power if value.function is _weighed else array / parts**power
    if value.function is _started:
        return array
    return value.function(array, **cast("dict[str, Any]", value.options))
