"""The roles of variables: what identifies them in a layer, and in another like it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ramet import keras_internals as internals
from ramet.graph.names import is_automatic


@dataclass(frozen=True)
class Held:
    """One variable in its place inside a layer."""

    variable: Any
    """The variable."""
    owner: Any
    """The layer or sublayer that tracks it."""
    path: tuple[str, ...]
    """The attributes that lead to the owner, such as `cell` or `blocks.0`."""
    names: tuple[str, ...]
    """The same, with explicit names of sublayers instead of their numbers."""
    name: str
    """Its name in the owner; numbered if the owner has two of that name."""


def roles_of(layer: Any) -> dict[tuple[str, ...], Any]:
    """Return the variables of a layer by role, seeds and those of sublayers too."""
    return {(*held.path, held.name): held.variable for held in held_by(layer)}


def held_by(layer: Any) -> list[Held]:
    """List the variables of a layer in their places, seeds and those of sublayers too."""
    return [*_walk(layer, (), ())]


def own_roles(layer: Any) -> dict[str, Any]:
    """Return the variables that a layer tracks itself, seeds too, by name."""
    variables = [(_name_of(layer, each), each) for each in internals.own_variables(layer)]
    variables += [("seed", seed.state) for seed in internals.own_seed_generators(layer)]
    counts: dict[str, int] = {}
    roles: dict[str, Any] = {}
    for name, variable in variables:
        counts[name] = number = counts.get(name, 0) + 1
        roles[name if number == 1 else f"{name}#{number}"] = variable
    return roles


def _walk(layer: Any, path: tuple[str, ...], names: tuple[str, ...]) -> Iterator[Held]:
    for name, variable in own_roles(layer).items():
        yield Held(variable, layer, path, names, name)
    for label, name, part in labelled(layer):
        yield from _walk(part, (*path, label), (*names, name))


def _name_of(layer: Any, variable: Any) -> str:
    """Return the name of a variable, or of its attribute if Keras chose the name."""
    if is_automatic(variable.name, "Variable"):
        return internals.attribute_name(layer, variable) or "variable"
    return variable.name


def labelled(layer: Any) -> list[tuple[str, str, Any]]:
    """List the sublayers of a layer with their labels by place, and by explicit name.

    A sublayer that no attribute holds goes by its name, or by its number among those of
    its class if Keras named it.
    """
    parts = internals.sublayers_of(layer)
    paths = internals.attribute_paths(layer) if parts else {}
    sublayers: list[tuple[str, str, Any]] = []
    counts: dict[str, int] = {}
    for part in parts:
        class_name = type(part).__name__
        chosen = not is_automatic(part.name, class_name)
        path = paths.get(id(part))
        if path is None:
            counts[class_name] = number = counts.get(class_name, -1) + 1
            label = part.name if chosen else f"{class_name}#{number}"
            sublayers.append((label, label, part))
        else:
            group, dot, _ = path.rpartition(".")
            sublayers.append((path, f"{group}.{part.name}" if dot and chosen else path, part))
    return sublayers


def paired(source: Any, layer: Any) -> list[tuple[Held, Held | None]]:
    """Pair the variables of a layer with those in the same places of another.

    Sublayers in a list are matched by their explicit names first, then by their numbers.

    Returns:
        Every variable of the second layer, with the one of the first, if it has one.
    """
    olds, news = held_by(source), held_by(layer)
    named = {(*held.names, held.name): held for held in olds}
    matches = {id(new): named.get((*new.names, new.name)) for new in news}
    used = {id(held) for held in matches.values()}
    left = {(*held.path, held.name): held for held in olds if id(held) not in used}
    return [(new, matches[id(new)] or left.get((*new.path, new.name))) for new in news]
