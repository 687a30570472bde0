"""Optimizer slots, carried over to the optimizer of a new model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet.backends import is_of_keras
from ramet.backends.values import copy_value, to_numpy
from ramet.building.weights.transfer import Moves
from ramet.tracing.failures import check_alive

_Power: TypeAlias = int | Literal["as weights", "unknown"]
"""How a slot goes with the gradients of its variable: 1 as they do, 2 as their squares."""

_POWERS = {
    "momentums": 1, "_momentums": 1, "_average_gradients": 1, "_m": 1, "_u": 1,
    "_velocities": 2, "_velocity_hats": 2, "_accumulators": 2, "_accumulated_grads": 2,
    "adam_velocities": 2,
}  # fmt: skip
"""How the slots of Keras's optimizers go with gradients, by the attributes that hold them."""


@dataclass(frozen=True)
class Heir:
    """A new variable with elements of an old one."""

    variable: Any
    """The new variable."""
    moves: Moves | None = None
    """How the elements moved; `None` if it has the whole value."""


@dataclass
class _Count:
    kept: int = 0
    moved: int = 0
    new: int = 0
    dropped: int = 0


def carry_slots(old: Any, new: Any, heirs: Mapping[int, Heir], variables: list[Any]) -> str:
    """Copy the slots of an old optimizer for variables that a new model keeps.

    Args:
        old: The optimizer of the old model.
        new: That of the new one, not built.
        heirs: The new variables with elements of old ones, by the ids of those.
        variables: The variables that the new one trains.

    Returns:
        What became of the slots, in words.
    """
    name = type(old).__name__.lower()
    if type(old) is not type(new):
        return f"{name}: starts over as {type(new).__name__}"
    if not old.built:
        _carry_numbers(old, new)
        return f"{name}: had no slots yet"
    pairs = [(old, new)]
    inner = getattr(old, "inner_optimizer", None)
    if inner is not None:
        pairs.append((inner, new.inner_optimizer))
    if not all(is_known(before) for before, _ in pairs):
        return f"{name}: starts over; how it keeps its slots is not known"
    new.build(variables)
    count = _Count()
    for before, now in pairs:
        _carry_numbers(before, now)
        _carry_lists(before, now, heirs, count)
    words = f"{name}: {count.kept} slots kept"
    for word, number in (
        ("moved with their variables", count.moved),
        ("new", count.new),
        ("dropped", count.dropped),
    ):
        words += f", {number} {word}" if number else ""
    return words


def numbers_of(optimizer: Any) -> dict[str, Any]:
    """Return the variables that belong to no other variable: steps, rates, scales."""
    attributes = vars(optimizer).items()
    return {name: value for name, value in attributes if isinstance(value, keras.Variable)}


def slots_of(optimizer: Any) -> dict[str, list[Any]]:
    """Return the lists with one slot, or none, for each variable that is trained.

    A dict of slots by the paths of their variables, or by their ids, counts as such a list.
    """
    trained = internals.optimizer_targets(optimizer)
    targets = {id(variable) for variable in trained}
    held: dict[str, list[Any]] = {}
    for name, value in vars(optimizer).items():
        slots = _in_order(value, trained) if isinstance(value, Mapping) else value
        if (
            isinstance(slots, list)
            and len(cast("list[Any]", slots)) == len(trained)
            and all(slot is None or isinstance(slot, keras.Variable) for slot in slots)
            and any(slot is not None and id(slot) not in targets for slot in slots)
            and name not in internals.OPTIMIZER_RECORDS
        ):
            held[name] = slots
    return held


def _in_order(held: Mapping[Any, Any], trained: list[Any]) -> list[Any] | None:
    """Return slots in the order of the variables that they belong to; `None` if that is unclear."""
    places = {variable.path: index for index, variable in enumerate(trained)}
    if len(places) < len(trained):
        return None
    known: dict[Any, int] = places | {id(each): index for index, each in enumerate(trained)}
    slots: list[Any] = [None] * len(trained)
    for key, slot in held.items():
        if key not in known or slots[known[key]] is not None:
            return None
        slots[known[key]] = slot
    return slots


def is_known(optimizer: Any) -> bool:
    """Whether every variable of an optimizer is a number or in one of the lists."""
    inner = getattr(optimizer, "inner_optimizer", None)
    known = {id(variable) for variable in numbers_of(optimizer).values()}
    known |= {id(slot) for slots in slots_of(optimizer).values() for slot in slots}
    known |= {id(variable) for variable in (inner.variables if inner is not None else ())}
    return all(id(variable) in known for variable in optimizer.variables)


def _carry_numbers(old: Any, new: Any) -> None:
    numbers = numbers_of(new)
    for name, value in numbers_of(old).items():
        if name in numbers and tuple(value.shape) == tuple(numbers[name].shape):
            check_alive(value)
            numbers[name].assign(copy_value(value.value))


def _carry_lists(old: Any, new: Any, heirs: Mapping[int, Heir], count: _Count) -> None:
    places = {id(v): i for i, v in enumerate(internals.optimizer_targets(new))}
    olds = internals.optimizer_targets(old)
    targets = [(each, heirs.get(id(each))) for each in olds]
    places_of = slots_of(new)
    for name, slots in slots_of(old).items():
        if name not in places_of:
            count.dropped += sum(slot is not None for slot in slots)
            continue
        new_slots = places_of[name]
        carried = 0
        if name == internals.MOVING_AVERAGES:
            _start_averages(new, new_slots)
        for slot, (variable, heir) in zip(slots, targets, strict=True):
            if slot is None:
                continue
            place = None if heir is None else places.get(id(heir.variable))
            new_slot = None if place is None else new_slots[place]
            power = _power(old, name)
            if (
                heir is None
                or new_slot is None
                or not _carry(slot, new_slot, variable, heir, power)
            ):
                count.dropped += 1
                continue
            carried += 1
            if heir.moves is None:
                count.kept += 1
            else:
                count.moved += 1
        count.new += sum(slot is not None for slot in new_slots) - carried


def _start_averages(optimizer: Any, averages: list[Any]) -> None:
    """Let averages of variables start at the variables, as Keras does in the first step."""
    for variable, average in zip(internals.optimizer_targets(optimizer), averages, strict=True):
        if average is not None:
            average.assign(copy_value(variable.value))


def _power(optimizer: Any, name: str) -> _Power:
    """Return how the slots in a list go with the gradients of their variables."""
    if name == internals.MOVING_AVERAGES:
        return "as weights"
    if not is_of_keras(type(optimizer)):
        return "unknown"
    if name == "_momentums" and isinstance(optimizer, keras.optimizers.RMSprop):
        return 0  # It divides gradients by their size before it adds them up.
    return _POWERS.get(name, "unknown")


def _carry(slot: Any, new_slot: Any, variable: Any, heir: Heir, power: _Power) -> bool:
    """Copy one slot, its elements moved like those of its variable; return whether it fits."""
    shapes = tuple(slot.shape), tuple(new_slot.shape)
    check_alive(slot)
    if heir.moves is None:
        if shapes[0] != shapes[1]:
            return False
        internals.keep_layout(slot, new_slot)
        new_slot.assign(copy_value(slot.value))
        return True
    if (tuple(variable.shape), tuple(heir.variable.shape)) != shapes:
        return False
    internals.keep_layout(slot, new_slot)
    ones = np.ones(shapes[0])
    was_there = heir.moves(ones) != 0
    if power == "unknown":  # What is scaled starts over.
        was_there &= heir.moves(ones, 1) == 1
    along = None if power == "as weights" else 0 if power == "unknown" else power
    fresh = to_numpy(new_slot)
    moved = np.where(was_there, heir.moves(to_numpy(slot), along), fresh)
    new_slot.assign(moved.astype(fresh.dtype))
    return True
