"""Whether a layer matches one of a pattern: by its class, and by its explicit arguments."""

import types
from collections.abc import Iterable
from typing import Any, cast

import keras

from ramet import keras_internals as internals
from ramet._arguments import shown
from ramet.backends import is_of_keras
from ramet.building.reconfigure import current, made_with
from ramet.errors import OptionError
from ramet.graph import Layer
from ramet.graph.names import did_you_mean, with_article
from ramet.graph.names import shown as texted
from ramet.tracing.configs import raw_config

_ABSENT = object()

_LONGEST = 60
"""How many characters of a value an explanation shows."""

_UNCOMPARED = ("input_shape", "batch_shape", "input_dtype", "batch_size")
"""Arguments that a pattern does not ask for, unless they are in the layer's config."""


class AnyLayer(keras.Layer):
    """Stands in a pattern for any layer of some classes; made by `ramet.any_layer`."""

    def __init__(
        self, kinds: tuple[type | str, ...], name: str | None, constraints: dict[str, Any]
    ) -> None:
        """Store the classes and constraints."""
        super().__init__(name=name or internals.automatic_name(_word(kinds[0])))
        self.kinds = kinds
        self.constraints = constraints

    def call(self, *inputs: Any, **others: Any) -> Any:
        """Return its input, or the first of several."""
        return keras.tree.flatten((inputs, others))[0] * 1

    def compute_output_spec(self, *inputs: Any, **others: Any) -> Any:
        """Return the same for symbolic tensors."""
        first = keras.tree.flatten((inputs, others))[0]
        return keras.KerasTensor(first.shape, first.dtype)

    def is_kind_of(self, layer: Any) -> bool:
        """Whether a live layer is of one of the classes; a name must be that of its own class."""
        classes = tuple(cls for cls in self.kinds if isinstance(cls, type))
        return isinstance(layer, classes) or type(layer).__name__ in self.kinds

    @property
    def kind(self) -> str:
        """The classes, in words."""
        return " or ".join(_word(kind) for kind in self.kinds)


def _word(kind: type | str) -> str:
    return kind if isinstance(kind, str) else kind.__name__


def kinds_of(argument: Any) -> tuple[type | str, ...]:
    """Return the argument of `any_layer`, a class, its name, or several of them, as a tuple.

    Raises:
        OptionError: If it is something else.
    """
    kinds = cast("tuple[Any, ...]", argument) if isinstance(argument, tuple) else (argument,)
    if not kinds or not all(isinstance(kind, (type, str)) for kind in kinds):
        what = shown(argument)
        message = f"any_layer needs a layer class, its name, or a tuple of them, got {what}"
        raise OptionError(message)
    return kinds


def differs(asked: Layer, layer: Layer, written: list[str]) -> str | None:
    """Return why a layer does not match one of a pattern, or `None` if it does.

    Args:
        asked: The layer of the pattern.
        layer: The layer of the graph.
        written: Names of the explicit arguments in the pattern.
    """
    want = asked.origin
    if isinstance(want, AnyLayer):
        if not want.is_kind_of(layer.origin):
            return f"is {with_article(layer.kind)}, not {with_article(want.kind)}"
        return _breaks(want.constraints, current(layer))
    if type(layer.origin) is not type(want):
        return f"is {with_article(layer.kind)}, not {with_article(asked.kind)}"
    have = current(layer)
    if not isinstance(want, keras.Layer):
        options = [internals.operation_options(each) for each in (want, have)]
        same = internals.equal_constants(*(sorted(o.items(), key=str) for o in options))
        return None if same else "has other options"
    return _compared(written, want, have)


def _breaks(constraints: dict[str, Any], have: Any) -> str | None:
    """Return which constraint a layer does not meet, or `None` if it meets all.

    A constraint is written like a constructor argument, and the constructor interprets it:
    `kernel_size=3` is `(3, 3)`, `"l2"` is a regularizer.
    """
    wrong = {
        name: value for name, value in constraints.items() if not _is_plainly(name, value, have)
    }
    if not wrong:
        return None
    facts = raw_config(have)
    for name in wrong:
        if _argument(have, facts, name) is _ABSENT:
            return f"has no argument '{name}'{did_you_mean(name, [*facts])}"
    want = made_with(have, wrong) if isinstance(have, keras.Layer) else None
    if want is None:
        name, value = next(iter(wrong.items()))
        return f"has {name}={_shown(_argument(have, facts, name))}, not {texted(value)}"
    return _compared(wrong, want, have)


def _is_plainly(name: str, value: Any, have: Any) -> bool:
    """Whether an argument of a layer is the same callable object as the constraint."""
    return callable(value) and getattr(have, name, None) is value


def _compared(names: Iterable[str], want: Any, have: Any) -> str | None:
    """Return in which of some arguments two layers of one class differ, or `None`."""
    wanted, actual = raw_config(want), raw_config(have)
    for name in names:
        if name == "name" or (name in _UNCOMPARED and name not in wanted):
            continue
        values = _argument(want, wanted, name), _argument(have, actual, name)
        if any(value is _ABSENT for value in values):
            return f"has no {name} in its config or attributes to compare"
        functions = [getattr(layer, name, None) for layer in (want, have)]
        if _plain(values[0]) != _plain(values[1]) or not _may_be_one_function(*functions):
            place, *both = _where_they_differ(name, *values)
            return f"has {place}={_shown(both[1])}, not {_shown(both[0])}"
    return None


def _where_they_differ(name: str, first: Any, second: Any) -> tuple[str, Any, Any]:
    """Follow config values of one class to the entry in which they differ."""
    if not all(isinstance(each, dict) and "config" in each for each in (first, second)):
        return name, first, second
    configs = [_plain(each)["config"] for each in (first, second)]
    same_class = first["class_name"] == second["class_name"]
    if not same_class or not all(isinstance(config, dict) for config in configs):
        return name, first, second
    for key in configs[0]:
        if configs[0][key] != configs[1].get(key):
            values = (each["config"].get(key) for each in (first, second))
            return _where_they_differ(f"{name}.{key}", *values)
    return name, first, second


def _argument(layer: Any, facts: dict[str, Any], name: str) -> Any:
    """Return a constructor argument from the config or, failing that, from an attribute."""
    return facts[name] if name in facts else getattr(layer, name, _ABSENT)


def _may_be_one_function(first: Any, second: Any) -> bool:
    """Whether two user functions may be the same: a config holds only their names."""
    both = (first, second)
    if not all(isinstance(each, types.FunctionType) for each in both):
        return True
    if any(map(is_of_keras, both)):
        return True
    return first is second or first.__code__ == second.__code__


def _plain(value: Any) -> Any:
    """Return a config value with lists for tuples, and without the names of layers in it."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    items = cast("dict[str, Any]", value)
    plain = {key: _plain(item) for key, item in items.items() if key != "build_config"}
    if isinstance(plain.get("config"), dict) and "DTypePolicy" not in str(plain.get("class_name")):
        plain["config"].pop("name", None)
    return plain


def _shown(value: Any) -> str:
    if isinstance(value, dict) and "class_name" in value:
        named = cast("dict[str, Any]", value)
        is_function = named["class_name"] in {"function", "__lambda__"}
        return "another function" if is_function else str(named["class_name"])
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
