"""Weights that follow the layers: which variable of a new layer takes over which old one.

Variables are matched by their role: the names of the attributes that lead from
the layer to the sublayer that holds it, and the variable's own name.
"""

from collections.abc import Iterator
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.values import copy_value


def roles_of(layer: Any) -> dict[tuple[str, ...], Any]:
    """Returns the variables of a layer by role, seeds and those of sublayers too."""
    found: dict[tuple[str, ...], Any] = {}
    for role, variable in _walk(layer, ()):
        number = sum(key[: len(role)] == role for key in found)
        found[(*role, f"#{number + 1}") if role in found else role] = variable
    return found


def _walk(layer: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for variable in internals.own_variables(layer):
        yield (*path, variable.name), variable
    for generator in internals.own_seed_generators(layer):
        yield (*path, "seed"), generator.state
    for number, part in enumerate(internals.sublayers_of(layer)):
        yield from _walk(part, (*path, internals.attribute_name(layer, part) or f"#{number}"))


def fit(source: Any, made: Any) -> None:
    """Gives a new layer the values of an old one's variables, where role and shape agree."""
    if not isinstance(source, keras.Layer) or not isinstance(made, keras.Layer):
        return
    old = roles_of(source)
    for role, variable in roles_of(made).items():
        found = old.get(role)
        if found is not None and tuple(found.shape) == tuple(variable.shape):
            variable.assign(copy_value(found.value))
