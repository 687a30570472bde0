"""The roles of variables: by what they are found in a layer, and in another like it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ramet.bridge import internals
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
    """The same, with names that an author gave to sublayers in place of their numbers."""
    name: str
    """What the owner calls it; numbered where it has two of one name."""


def roles_of(layer: Any) -> dict[tuple[str, ...], Any]:
    """Returns the variables of a layer by role, seeds and those of sublayers too."""
    return {(*held.path, held.name): held.variable for held in held_by(layer)}


def held_by(layer: Any) -> list[Held]:
    """Lists the variables of a layer in their places, seeds and those of sublayers too."""
    return [*_walk(layer, (), ())]


def _walk(layer: Any, path: tuple[str, ...], names: tuple[str, ...]) -> Iterator[Held]:
    found = [(variable, _name_of(layer, variable)) for variable in internals.own_variables(layer)]
    found += [(seed.state, "seed") for seed in internals.own_seed_generators(layer)]
    counts: dict[str, int] = {}
    for variable, name in found:
        counts[name] = number = counts.get(name, 0) + 1
        yield Held(variable, layer, path, names, name if number == 1 else f"{name}#{number}")
    for label, name, part in labelled(layer):
        yield from _walk(part, (*path, label), (*names, name))


def _name_of(layer: Any, variable: Any) -> str:
    """Returns the name of a variable, or of its attribute if Keras numbered it by itself."""
    if is_automatic(variable.name, "Variable"):
        return internals.attribute_name(layer, variable) or "variable"
    return variable.name


def labelled(layer: Any) -> list[tuple[str, str, Any]]:
    """Lists the sublayers of a layer with their labels: by place, and by name if that says more.

    A sublayer that no attribute holds goes by its name, or by its number among those of
    its class if Keras named it.
    """
    paths = internals.attribute_paths(layer)
    found: list[tuple[str, str, Any]] = []
    counts: dict[str, int] = {}
    for part in internals.sublayers_of(layer):
        kind = type(part).__name__
        chosen = not is_automatic(part.name, kind)
        path = paths.get(id(part))
        if path is None:
            counts[kind] = number = counts.get(kind, -1) + 1
            label = part.name if chosen else f"{kind}#{number}"
            found.append((label, label, part))
        else:
            group, dot, _ = path.rpartition(".")
            found.append((path, f"{group}.{part.name}" if dot and chosen else path, part))
    return found


def paired(source: Any, made: Any) -> list[tuple[Held, Held | None]]:
    """Pairs the variables of a layer with those in the same places of another.

    Sublayers in a list go by the names that an author gave them, and else by their numbers.

    Returns:
        Every variable of the second layer, with the one of the first, if it has one.
    """
    olds, news = held_by(source), held_by(made)
    named = {(*held.names, held.name): held for held in olds}
    found = {id(new): named.get((*new.names, new.name)) for new in news}
    used = {id(held) for held in found.values()}
    left = {(*held.path, held.name): held for held in olds if id(held) not in used}
    return [(new, found[id(new)] or left.get((*new.path, new.name))) for new in news]
