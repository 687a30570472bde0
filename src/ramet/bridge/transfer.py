"""Weights that follow the layers: which variable of a new layer takes over which old one.

Variables are matched by their role: the names of the attributes that lead from
the layer to the sublayer that holds it, and the variable's own name.
"""

import tempfile
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from ramet.bridge import internals
from ramet.bridge.values import copy_value
from ramet.errors import StateError


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


def take_over(source: Any, made: Any, policy: str) -> dict[int, tuple[str, str | None]]:
    """Gives a new layer the values of an old one's variables, as far as a policy allows.

    Args:
        source: The old layer.
        made: The new one, built.
        policy: One of `ramet.graph.parts.POLICIES`.

    Returns:
        By the ids of the new variables, what became of them (`fitted`, `grown` or
        `cut`) and the path of the old one.
    """
    done: dict[int, tuple[str, str | None]] = {}
    if policy == "fresh" or not all(isinstance(each, keras.Layer) for each in (source, made)):
        return done
    internals.take_over_attributes(source, made)
    old, new = roles_of(source), roles_of(made)
    lost = [role for role in old if role not in new and "lora" in role[-1]]
    if lost and type(source) is type(made):
        message = (
            f"layer '{made.name}' cannot be made again: the LoRA weights of a part of it "
            f"({'.'.join(lost[0])}) are not in its config; merge them first, or leave it as it is"
        )
        raise StateError(message)
    for role, variable in new.items():
        found = old.get(role)
        if found is None:
            continue
        shapes = tuple(found.shape), tuple(variable.shape)
        internals.keep_layout(found, variable)
        if shapes[0] == shapes[1]:
            variable.assign(copy_value(found.value))
            if source.trainable and not found.trainable:
                variable.trainable = False
            done[id(variable)] = "fitted", found.path
        elif policy != "fit" and len(shapes[0]) == len(shapes[1]):
            variable.assign(_overlaid(variable, found, repeat=policy == "tile"))
            grown = any(new > before for before, new in zip(*shapes, strict=True))
            done[id(variable)] = "grown" if grown else "cut", found.path
    if hasattr(made, "finalize_state") and done:
        made.finalize_state()
    return done


def take_over_adapted(source: Any, made: Any) -> None:
    """Gives a lookup layer the vocabulary that the one before it was adapted to."""
    if type(source) is not type(made) or not hasattr(source, "load_assets"):
        return
    if internals.has_vocabulary(source) and not internals.has_vocabulary(made):
        with tempfile.TemporaryDirectory() as folder:
            source.save_assets(folder)
            made.load_assets(folder)


def _overlaid(variable: Any, found: Any, *, repeat: bool) -> np.ndarray:
    """Returns a variable's values with those of another laid over the part both have."""
    new, old = (internals.to_numpy(each).copy() for each in (variable, found))
    if repeat:
        steps = [np.arange(size) % had for size, had in zip(new.shape, old.shape, strict=True)]
        return old[np.ix_(*steps)]
    both = tuple(slice(min(a, b)) for a, b in zip(new.shape, old.shape, strict=True))
    new[both] = old[both]
    return new
