"""Optimizer slots, carried over to the optimizer of a new model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.backends.values import copy_value
from ramet.tracing.failures import check_alive


@dataclass
class _Count:
    kept: int = 0
    new: int = 0
    dropped: int = 0


def carry_slots(old: Any, new: Any, heirs: Mapping[int, Any], variables: list[Any]) -> str:
    """Copy the slots of an old optimizer for variables that a new model goes on with.

    Args:
        old: The optimizer of the old model.
        new: That of the new one, not built.
        heirs: The new variables with the values of old ones, by the ids of those.
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
    for word, number in (("new", count.new), ("dropped", count.dropped)):
        words += f", {number} {word}" if number else ""
    return words


def numbers_of(optimizer: Any) -> dict[str, Any]:
    """Return the variables that belong to no other variable: steps, rates, scales."""
    attributes = vars(optimizer).items()
    return {name: value for name, value in attributes if isinstance(value, keras.Variable)}


def slots_of(optimizer: Any) -> dict[str, list[Any]]:
    """Return the lists with one slot, or none, for each variable that is trained."""
    count = len(internals.optimizer_targets(optimizer))
    targets = {id(variable) for variable in internals.optimizer_targets(optimizer)}
    return {
        name: value
        for name, value in vars(optimizer).items()
        if isinstance(value, list)
        and len(value) == count
        and all(slot is None or isinstance(slot, keras.Variable) for slot in value)
        and any(slot is not None and id(slot) not in targets for slot in value)
        and name not in internals.OPTIMIZER_RECORDS
    }


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


def _carry_lists(old: Any, new: Any, heirs: Mapping[int, Any], count: _Count) -> None:
    places = {id(v): i for i, v in enumerate(internals.optimizer_targets(new))}
    olds = internals.optimizer_targets(old)
    targets = [places.get(id(heirs.get(id(variable)))) for variable in olds]
    for name, slots in slots_of(old).items():
        new_slots: list[Any] = vars(new)[name]
        kept = 0
        for slot, place in zip(slots, targets, strict=True):
            if slot is None:
                continue
            heir = None if place is None else new_slots[place]
            if heir is None or tuple(heir.shape) != tuple(slot.shape):
                count.dropped += 1
                continue
            internals.keep_layout(slot, heir)
            check_alive(slot)
            heir.assign(copy_value(slot.value))
            kept += 1
        count.kept += kept
        count.new += sum(slot is not None for slot in new_slots) - kept
