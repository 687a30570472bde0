"""What an optimizer remembers of variables, carried over to the one of a new model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.values import copy_value


@dataclass
class _Count:
    kept: int = 0
    new: int = 0
    dropped: int = 0


def carry_slots(old: Any, new: Any, heirs: Mapping[int, Any], variables: list[Any]) -> str:
    """Gives a new optimizer what an old one remembers of variables that live on.

    Args:
        old: The optimizer of the old model.
        new: That of the new one, not built.
        heirs: The new variables with the values of old ones, by the ids of those.
        variables: What the new one is to train.

    Returns:
        What became of the slots, in words.
    """
    name = type(old).__name__.lower()
    if type(old) is not type(new):
        return f"{name}: starts anew as {type(new).__name__}"
    if not old.built:
        _carry_numbers(old, new)
        return f"{name}: had no slots yet"
    pairs = [(old, new)]
    inner = getattr(old, "inner_optimizer", None)
    if inner is not None:
        pairs.append((inner, new.inner_optimizer))
    if not all(_is_known(before) for before, _ in pairs):
        return f"{name}: starts anew; how it keeps its slots is not known"
    new.build(variables)
    count = _Count()
    for before, now in pairs:
        _carry_numbers(before, now)
        _carry_lists(before, now, heirs, count)
    told = f"{name}: {count.kept} slots kept"
    for word, number in (("new", count.new), ("dropped", count.dropped)):
        told += f", {number} {word}" if number else ""
    return told


def _numbers(optimizer: Any) -> dict[str, Any]:
    """Returns the variables that belong to no other variable: steps, rates, scales."""
    found = vars(optimizer).items()
    return {name: value for name, value in found if isinstance(value, keras.Variable)}


def _lists(optimizer: Any) -> dict[str, list[Any]]:
    """Returns the lists with one slot, or none, for each variable that is trained."""
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


def _is_known(optimizer: Any) -> bool:
    """Return True if every variable of an optimizer is a number or in one of the lists."""
    inner = getattr(optimizer, "inner_optimizer", None)
    known = {id(variable) for variable in _numbers(optimizer).values()}
    known |= {id(slot) for slots in _lists(optimizer).values() for slot in slots}
    known |= {id(variable) for variable in (inner.variables if inner is not None else ())}
    return all(id(variable) in known for variable in optimizer.variables)


def _carry_numbers(old: Any, new: Any) -> None:
    numbers = _numbers(new)
    for name, value in _numbers(old).items():
        if name in numbers and tuple(value.shape) == tuple(numbers[name].shape):
            numbers[name].assign(copy_value(value.value))


def _carry_lists(old: Any, new: Any, heirs: Mapping[int, Any], count: _Count) -> None:
    places = {id(v): i for i, v in enumerate(internals.optimizer_targets(new))}
    olds = internals.optimizer_targets(old)
    targets = [places.get(id(heirs.get(id(variable)))) for variable in olds]
    for name, slots in _lists(old).items():
        made: list[Any] = vars(new)[name]
        kept = 0
        for slot, place in zip(slots, targets, strict=True):
            if slot is None:
                continue
            heir = None if place is None else made[place]
            if heir is None or tuple(heir.shape) != tuple(slot.shape):
                count.dropped += 1
                continue
            internals.keep_layout(slot, heir)
            heir.assign(copy_value(slot.value))
            kept += 1
        count.kept += kept
        count.new += sum(slot is not None for slot in made) - kept
