"""The variables of two models, side by side: by the layer that holds them, and their role in it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.backends.tensorflow import is_record
from ramet.building.weights.roles import labelled, own_roles
from ramet.building.weights.slots import is_known, numbers_of, slots_of
from ramet.comparing.counterparts import Pairs, Place
from ramet.comparing.objects.arrays import array_difference, array_of
from ramet.comparing.objects.walk import Partners, Walk
from ramet.graph.names import is_automatic

SIDES = ("first", "second")


@dataclass(frozen=True, slots=True)
class VariablePair:
    """Two variables that belong together."""

    noun: str
    """What they are: `variable`, `metric`, `optimizer variable`."""
    path: str
    """Which, in the first model: `conv/kernel`, `mae/total`, `momentums of conv/kernel`."""
    old: Any
    """The first model's."""
    other: str
    """Which, in the second model."""
    new: Any
    """The second model's."""

    @property
    def where(self) -> str:
        """The variable in words."""
        other = "" if self.other == self.path else f" ('{self.other}' in the second model)"
        return f"{self.noun} '{self.path}'{other}"


@dataclass
class Variables:
    """Which variables of two models belong together."""

    pairs: list[VariablePair] = field(default_factory=list[VariablePair])
    """Those that belong together."""
    alone: tuple[list[Place], list[Place]] = field(default_factory=lambda: ([], []))
    """Variables of the first and of the second model that the other does not have, in words."""


def pair_variables(pairs: Pairs) -> Variables:
    """Pair the variables of layers, seeds and metrics, and those of optimizers."""
    variables = _layer_variables(pairs)
    _add(variables, "metric", _metric_variables(pairs.first), _metric_variables(pairs.second))
    _add_optimizers(variables, pairs)
    return variables


def _layer_variables(pairs: Pairs) -> Variables:
    found = Variables()
    for both in pairs.layers:
        if isinstance(both.old, keras.Layer) and isinstance(both.new, keras.Layer):
            roles = own_roles(both.old), own_roles(both.new)
            _add(found, "variable", *roles, (both.path, both.other))
    known = {id(v) for both in found.pairs for v in (both.old, both.new)}
    for side, places in enumerate(pairs.alone):
        for path, layer in places:
            for name, variable in _held(path, layer):
                if id(variable) not in known:
                    known.add(id(variable))
                    found.alone[side].append((f"variable '{name}'", variable))
    return found


def _held(path: str, layer: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(layer, keras.Layer):
        for role, variable in own_roles(layer).items():
            yield joined(path, role), variable
        for label, _, part in labelled(layer):
            yield from _held(f"{path}/{label}", part)


def _add(
    found: Variables,
    noun: str,
    olds: dict[str, Any],
    news: dict[str, Any],
    paths: tuple[str, str] = ("", ""),
) -> None:
    """Pair variables by their roles."""
    for role in dict.fromkeys([*olds, *news]):
        names = joined(paths[0], role), joined(paths[1], role)
        if role in olds and role in news:
            found.pairs.append(VariablePair(noun, names[0], olds[role], names[1], news[role]))
        else:
            side = int(role in news)
            found.alone[side].append((f"{noun} '{names[side]}'", (olds, news)[side][role]))


def _metric_variables(model: Any) -> dict[str, Any]:
    """Return the variables of a model's metrics, by the names of metric and variable."""
    metrics = [part for one in model.metrics for part in getattr(one, "metrics", None) or [one]]
    found: dict[str, Any] = {}
    for metric in {id(metric): metric for metric in metrics}.values():
        automatic = is_automatic(metric.name, type(metric).__name__)
        label = re.sub(r"_\d+$", "", metric.name) if automatic else metric.name
        for variable in metric.variables:
            name = f"{label}/{variable.name}"
            number = sum(known.partition("#")[0] == name for known in found)
            found[f"{name}#{number + 1}" if number else name] = variable
    return found


def _add_optimizers(found: Variables, pairs: Pairs) -> None:
    first, second = (getattr(model, "optimizer", None) for model in (pairs.first, pairs.second))
    names = _names(found)
    _add(found, "optimizer variable", _slots(first, names[0]), _slots(second, names[1]))


def _names(found: Variables) -> list[dict[int, str]]:
    """Return what variables are called, by their ids, the same on both sides for a pair."""
    names: list[dict[int, str]] = [{}, {}]
    for both in found.pairs:
        names[0].setdefault(id(both.old), both.path)
        names[1].setdefault(id(both.new), both.path)
    for side, places in enumerate(found.alone):
        for path, variable in places:
            names[side].setdefault(id(variable), path.split("'")[1])
    return names


def _slots(optimizer: Any, names: dict[int, str]) -> dict[str, Any]:
    """Return the variables of an optimizer, by the variables that they belong to."""
    if optimizer is None:
        return {}
    inner = getattr(optimizer, "inner_optimizer", None)
    found = {f"inner_optimizer.{k}": v for k, v in _slots(inner, names).items()}
    known = {id(variable) for variable in found.values()}
    if is_known(optimizer):
        for name, variable in numbers_of(optimizer).items():
            if id(variable) not in known:
                found[name.lstrip("_")] = variable
        targets = internals.optimizer_targets(optimizer)
        for name, slots in slots_of(optimizer).items():
            for target, slot in zip(targets, slots, strict=True):
                if slot is not None:
                    owner = names.get(id(target), target.path)
                    found[f"{name.lstrip('_')} of {owner}"] = slot
        return found
    for variable in optimizer.variables:
        if id(variable) not in known:
            # Keras counts optimizers and their variables.
            path = re.sub(r"_\d+(?=/|$)", "", variable.path)
            number = sum(name.partition("#")[0] == path for name in found)
            found[f"{path}#{number + 1}" if number else path] = variable
    return found


def state_differences(variables: Variables, partners: Partners = ({}, {})) -> Iterator[str]:
    """Yield differences in variables: of layers, seeds, metrics and optimizer."""
    met: set[tuple[int, int]] = set()
    for both in variables.pairs:
        if (id(both.old), id(both.new)) not in met:
            met.add((id(both.old), id(both.new)))
            yield from _variable(both, partners)
    for side, places in zip(SIDES, variables.alone, strict=True):
        for name, _ in places:
            yield f"{name} is in the {side} model only"


def _variable(both: VariablePair, partners: Partners) -> Iterator[str]:
    fields = [_flags(variable) for variable in (both.old, both.new)]
    walk = Walk(partners)
    for name in sorted({*fields[0], *fields[1]}, key=lambda name: (name != "trainable", name)):
        values = (known.get(name) for known in fields)
        for difference in walk.differences(name, *values):
            yield f"{both.where} has {difference}"
    try:
        arrays = [array_of(variable) for variable in (both.old, both.new)]
    except ValueError:  # not initialized yet, or deleted
        return
    dtypes = [getattr(variable, "dtype", None) for variable in (both.old, both.new)]
    if arrays[0].dtype == arrays[1].dtype and dtypes[0] != dtypes[1]:
        yield f"{both.where} has dtype {dtypes[0]!r} and {dtypes[1]!r}"
    difference = array_difference(*arrays)
    if difference:
        yield f"{both.where} {difference}"


def _flags(variable: Any) -> dict[str, Any]:
    """Return what a variable is, besides its name and value."""
    if not isinstance(variable, keras.Variable):
        names = "trainable", "requires_grad"
        return {name: getattr(variable, name) for name in names if hasattr(variable, name)}
    fields = vars(variable)
    return {
        name.lstrip("_"): value
        for name, value in fields.items()
        if name not in _NAMES_AND_VALUE and not is_record(name)
    }


_NAMES_AND_VALUE = frozenset(
    {"_name", "_path", "_shape", "_ndim", "_layout", internals.VARIABLE_VALUE, "_dtype"}
)
"""Attributes of a variable that are compared by themselves, or follow from its value."""


# --- sharing -------------------------------------------------------------------------


def sharing_differences(pairs: Pairs, variables: Variables) -> Iterator[str]:
    """Yield what is one object in one of the models, and several in the other."""
    layers = [("layer", both) for both in pairs.layers if both.path]
    held = [("variable", both) for both in variables.pairs if both.noun == "variable"]
    for side in (0, 1):
        split: set[str] = set()
        for noun, paths, others in _splits([*layers, *held], side):
            # What a layer holds is shared as the layer itself is.
            if not any(is_inside(path, outer) for path in paths for outer in split):
                yield one_and_several(noun, paths[0], side, [f"'{name}'" for name in others])
            split.update(paths)
    yield from _held_as_one(pairs)


def _held_as_one(pairs: Pairs) -> Iterator[str]:
    """Yield what a layer holds by several attributes in one of the models, and not in the other."""
    for both in pairs.layers:
        if not (isinstance(both.old, keras.Layer) and isinstance(both.new, keras.Layer)):
            continue
        places = [_places(layer) for layer in (both.old, both.new)]
        for side, prefix in enumerate((both.path, both.other)):
            held, others = places[side], places[1 - side]
            attributes: dict[int, list[str]] = {}
            for name in held.keys() & others.keys():
                attributes.setdefault(id(held[name]), []).append(name)
            for names in attributes.values():
                names.sort()
                several = {id(others[name]): name for name in reversed(names)}
                if len(several) > 1:
                    around = (both.path, both.other)[1 - side]
                    texts = [f"'{joined(around, name)}'" for name in sorted(several.values())]
                    yield one_and_several("layer", joined(prefix, names[0]), side, texts)


def _places(layer: Any) -> dict[str, Any]:
    """Return the layers that the attributes of a layer hold."""
    held = internals.held_items(layer)
    return {path: value for path, value in held if isinstance(value, keras.Layer)}


def one_and_several(noun: str, path: str, side: int, several: list[str]) -> str:
    """Say that something is one object in one of the models, and several in the other."""
    count = f"{len(several)} in the {SIDES[1 - side]}: {', '.join(several)}"
    return f"{noun} '{path}' is one in the {SIDES[side]} model, and {count}"


def _splits(pairs: list[tuple[str, Any]], side: int) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield the objects of one side that are paired with several of the other, by their paths."""
    partners: dict[int, dict[int, str]] = {}
    paths: dict[int, tuple[str, list[str]]] = {}
    for noun, both in pairs:
        items, names = (both.old, both.new), (both.path, both.other)
        paths.setdefault(id(items[side]), (noun, []))[1].append(names[side])
        partners.setdefault(id(items[side]), {}).setdefault(id(items[1 - side]), names[1 - side])
    for key, others in partners.items():
        if len(others) > 1:
            yield *paths[key], [*others.values()]


def is_inside(path: str, outer: str) -> bool:
    """Whether a path leads into what another one leads to."""
    return path.startswith(f"{outer}/")


def joined(path: str, name: str) -> str:
    """Return a path with one more step."""
    return f"{path}/{name}" if path else name
