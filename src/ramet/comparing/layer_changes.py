"""How two layers differ by themselves: option by option, weight by weight, or in all of it."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet.backends import is_of_keras
from ramet.backends.values import same_bits, to_numpy
from ramet.building.weights.roles import labelled, roles_of
from ramet.comparing.alignment.facts import config_of, without_trainable
from ramet.comparing.alignment.nodes import Node, is_named_alike
from ramet.comparing.objects.arrays import array_difference
from ramet.comparing.objects.texts import ABSENT, is_plain
from ramet.comparing.objects.walk import Walk
from ramet.graph import Layer
from ramet.graph.names import is_automatic

_ABSENT: Any = type("absent", (), {})()


def changed_config(a: Layer, b: Layer, prefix: str = "") -> Iterator[str]:
    """Yield the options that differ, but for whether a layer or a part of it trains."""
    old, new = (without_trainable(config_of(layer)) for layer in (a, b))
    if old is None or new is None:
        return
    if a.kind != b.kind:
        old = {name: value for name, value in old.items() if name in new}
        new = {name: value for name, value in new.items() if name in old}
    for name, before, after in _changed_options(prefix, old, new):
        yield f"{name}={_short(before)} is now {_short(after)}"


def changed_attributes(a: Layer, b: Layer) -> Iterator[str]:
    """Yield what differs in the layers of a user's class, or inside, that no option shows.

    That is their plain attributes, and the options of layers of Keras that they hold.
    """
    if a.graph is None and b.graph is None:
        yield from _attributes("", a.origin, b.origin, is_compared=True)


def _attributes(prefix: str, old: Any, new: Any, *, is_compared: bool) -> Iterator[str]:
    """Yield what differs in two layers, and in those that they hold.

    Args:
        prefix: The path that leads to them.
        old: A layer.
        new: The one that it is compared with.
        is_compared: Whether their configs have been compared.
    """
    if not isinstance(old, keras.Layer) or type(old) is not type(new):
        return
    if not is_of_keras(type(old)):
        is_compared = False
        yield from _plain_attributes(prefix, old, new)
    elif not is_compared:
        is_compared = True
        a, b = (Layer(layer.name, type(layer).__name__, layer) for layer in (old, new))
        yield from changed_config(a, b, prefix)
    if internals.sublayers_of(old):
        parts = {label: part for label, _, part in labelled(new)}
        for label, _, part in labelled(old):
            yield from _attributes(
                f"{prefix}{label}.", part, parts.get(label), is_compared=is_compared
            )


def _plain_attributes(prefix: str, old: Any, new: Any) -> Iterator[str]:
    fields = [internals.layer_fields(layer) for layer in (old, new)]
    for name in sorted({*fields[0], *fields[1]} - {"trainable"}, key=str):
        values = [each.get(name, ABSENT) for each in fields]
        if all(value is ABSENT or is_plain(value) for value in values):
            for difference in Walk(loose=True).differences(f"{prefix}{name}", *values):
                yield f"{difference.name}={difference.old} is now {difference.new}"


def _changed_options(
    prefix: str, old: dict[str, Any], new: dict[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the options that differ, those of objects of one class by their own options."""
    for name in dict.fromkeys([*old, *new]):
        before, after = old.get(name, _ABSENT), new.get(name, _ABSENT)
        if before == after:
            continue
        parts = [_options(value) for value in (before, after)]
        if parts[0][0] is not None and parts[0][0] == parts[1][0] and parts[0][1] != parts[1][1]:
            yield from _changed_options(f"{prefix}{name}.", parts[0][1], parts[1][1])
        else:
            yield f"{prefix}{name}", before, after


def _options(value: Any) -> tuple[Any, dict[str, Any]]:
    """Return the class and the options of an object in a config."""
    if isinstance(value, dict) and isinstance(value.get("config"), dict):
        return value.get("class_name"), value["config"]
    return None, {}


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "not there"
    if isinstance(value, dict) and "class_name" in value:
        return str(value["class_name"])
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004 fits a cell


# --- weights


def value_differences(first: Any, second: Any, *, shapes: bool) -> tuple[list[str], bool]:
    """Return how the variables of two layers differ, and whether any that tell agree.

    Seeds do not tell: authors choose the same ones again and again.

    Args:
        first: A live layer.
        second: Another one.
        shapes: Whether other shapes are differences; not where they follow from what is read.
    """
    olds, news = _variables(first), _variables(second)
    texts: list[str] = []
    is_alike = False
    for role in dict.fromkeys([*olds, *news]):
        old, new = olds.get(role), news.get(role)
        name = ".".join(role)
        if old is None or new is None:
            texts.append(f"{name} is {'new' if old is None else 'gone'}")
        elif tuple(old.shape) != tuple(new.shape):
            if shapes:
                texts.append(f"{name} is {tuple(old.shape)}, now {tuple(new.shape)}")
        else:
            a, b = (np.asarray(to_numpy(variable)) for variable in (old, new))
            if not same_bits(a, b):
                texts.append(f"{name} {_difference(a, b)}")
            elif a.size and not (is_alike or role[-1].startswith("seed")):
                is_alike = bool((a != a.flat[0]).any())
    return texts, is_alike


def _variables(layer: Any) -> dict[tuple[str, ...], Any]:
    """Return the variables of a layer by role; those without names by their order."""
    found: dict[tuple[str, ...], Any] = {}
    for role, variable in roles_of(layer).items():
        start = role[:-1] if is_automatic(role[-1], "Variable") else None
        number = sum(known[:-1] == start for known in found)
        found[role if start is None else (*start, f"variable {number + 1}")] = variable
    return found


def _difference(a: np.ndarray, b: np.ndarray) -> str:
    """Say how much the values of a variable differ."""
    return f"is {a.dtype}, now {b.dtype}" if a.dtype != b.dtype else array_difference(a, b)


# --- layers that took the place of others


def is_replaced(a: Node, b: Node, *, weights: bool) -> bool:
    """Whether neither class nor name, config and weights say that a layer is the same.

    Args:
        a: A call of the layer.
        b: A call of the layer at its place in the second model.
        weights: Whether weights are evidence.
    """
    old, new = a.layer, b.layer
    if old is None or new is None:
        return False
    if old.kind != new.kind:
        return old.graph is None or new.graph is None
    if old.graph is not None or is_named_alike(a, b) or not any(changed_config(old, new)):
        return False
    return not (weights and layer_values(old, new, shapes=False)[1])


def layer_values(a: Layer, b: Layer, *, shapes: bool) -> tuple[list[str], bool]:
    """Return how the weights of two layers differ, and whether any of them agree."""
    origins: list[Any] = [a.origin, b.origin]
    if a.graph is not None or not all(isinstance(origin, keras.Layer) for origin in origins):
        return [], False
    return value_differences(*origins, shapes=shapes)
