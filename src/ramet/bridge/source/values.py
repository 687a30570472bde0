"""Constants and small Keras objects as expressions of the source."""

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from ramet.bridge import internals
from ramet.bridge.source.deserialize import UnmadeError, deserialized, is_serialized
from ramet.bridge.source.expr import (
    Expr,
    Leaf,
    bare_name,
    call,
    display,
    is_name,
    literal,
    mapping,
    text_of,
)
from ramet.bridge.source.names import Scope

_ROOMS = (
    "layers",
    "initializers",
    "regularizers",
    "constraints",
    "dtype_policies",
    "quantizers",
    "activations",
    "ops",
    "random",
    "losses",
    "models",
    "utils",
)
"""Where Keras keeps what a config may name."""

_LARGEST = 16
"""How many values a constant may have to be written out."""

_SHORT = (keras.initializers, keras.regularizers, keras.constraints)


@dataclass(frozen=True, slots=True)
class Parameter:
    """Something that has no source, and is given to `build_model` by the caller."""

    name: Leaf
    """Its name in the source."""
    value: Any
    """The live object."""
    what: str
    """What it is, in words."""


@dataclass
class Values:
    """Writes constants, and keeps what has to be imported or given by the caller."""

    scope: Scope = field(default_factory=Scope)
    """The names of the source."""
    parameters: dict[int, Parameter] = field(default_factory=dict[int, Parameter])
    """By the identity of the live objects."""
    imports: dict[str, str] = field(default_factory=dict[str, str])
    """Lines that import, by the name that they bring."""
    numpy: bool = False
    """Whether the source needs NumPy."""

    used: list[str] = field(default_factory=list[str])
    """Names of parameters, in the order in which expressions use them."""

    def parameter(self, value: Any, wanted: str, what: str, key: int | None = None) -> Leaf:
        """Makes a live object a parameter of `build_model`, and returns its name."""
        key = id(value) if key is None else key
        found = self.parameters.get(key)
        if found is None:
            found = Parameter(self.scope.new(wanted, value), value, what)
            self.parameters[key] = found
        self.used.append(found.name)
        return found.name

    def forget_since(self, before: Mapping[int, Parameter]) -> None:
        """Takes back the parameters of an expression that is not used."""
        for key in [key for key in self.parameters if key not in before]:
            name = self.parameters.pop(key).name
            self.scope.taken.discard(name)
            self.used[:] = [one for one in self.used if one != name]

    def constant(self, value: Any, where: str) -> Expr:  # noqa: PLR0911 one for each kind
        """Writes a constant; one that is too large becomes a parameter."""
        if isinstance(value, Mapping):
            return mapping(
                [(self.constant(k, where), self.constant(v, where)) for k, v in value.items()]
            )
        if isinstance(value, list) or type(value) is tuple:
            return display(
                "[]" if isinstance(value, list) else "()",
                [self.constant(item, where) for item in value],
            )
        plain = literal(value)
        if plain is not None:
            return plain
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return call(bare_name("slice", slice), *(self.constant(part, where) for part in parts))
        if isinstance(value, (np.ndarray, np.generic)):
            return self._array(value, where)
        if internals.is_symbolic(value):
            return self.parameter(value, f"{where}_tensor", f"a symbolic tensor of '{where}'")
        if keras.ops.is_tensor(value) and not isinstance(value, keras.Variable):
            array = np.asarray(keras.ops.convert_to_numpy(value))
            if array.size <= _LARGEST and array.dtype.kind in "biuf":
                head = bare_name("keras.ops.convert_to_tensor", keras.ops.convert_to_tensor)
                return call(head, self._array(array, where))
            return self.parameter(value, f"{where}_constant", _told(array, where))
        if isinstance(value, keras.Variable):
            said = f"the variable '{value.path}', which belongs to no layer of its own"
            return self.parameter(value, value.name, said)
        return self.thing(value, where)

    def _array(self, value: Any, where: str) -> Expr:
        array = np.asarray(value)
        kind = getattr(np, array.dtype.name, None)
        if array.size > _LARGEST or array.dtype.kind not in "biuf" or kind is None:
            return self.parameter(value, f"{where}_constant", _told(array, where))
        self.numpy = True
        if isinstance(value, np.generic):
            head = bare_name(f"np.{array.dtype.name}", kind)
            return call(head, self.constant(value.item(), where))
        told = text_of(str(array.dtype))
        return call(
            bare_name("np.array", np.array), self.constant(array.tolist(), where), dtype=told
        )

    def thing(self, value: Any, where: str) -> Expr:
        """Writes a function, a class or a small Keras object such as an initializer."""
        public = public_path(value)
        if public is not None:
            return public
        if isinstance(value, type):
            return self.class_name(value)
        if hasattr(value, "get_config") and not isinstance(value, keras.Layer):
            config = value.get_config()
            if isinstance(config, dict):
                return self.made(type(value), config, value, where)
        wanted = str(getattr(value, "__name__", type(value).__name__))
        if wanted == "<lambda>":
            wanted = f"{where}_function"
        kind = "the function" if callable(value) else f"an object ({type(value).__name__})"
        return self.parameter(value, wanted, f"{kind} that '{where}' uses")

    def class_name(self, kind: type) -> Leaf:
        """Writes a class: a public name of Keras, an import, or a parameter."""
        public = public_path(kind)
        if public is not None:
            return public
        if _is_importable(kind):
            line = f"from {kind.__module__} import {kind.__name__}"
            if self.imports.get(kind.__name__) == line:
                return bare_name(kind.__name__, kind)
            if not self.scope.has(kind.__name__):
                self.scope.taken.add(kind.__name__)
                self.imports[kind.__name__] = line
                return bare_name(kind.__name__, kind)
        return self.parameter(kind, kind.__name__, f"the class {kind.__name__}")

    def made(self, kind: type, config: Mapping[str, Any], live: Any, where: str) -> Expr:
        """Writes how an object is made from its config."""
        return call_of(
            kind,
            self.class_name(kind),
            config,
            lambda key, value: self.configured(value, getattr(live, key, None), where),
        )

    def configured(self, value: Any, live: Any, where: str) -> Expr:
        """Writes an entry of a config; `live` is the attribute of the same name."""
        if isinstance(value, (list, tuple)) and any(map(is_serialized, value)):
            fits = isinstance(live, (list, tuple)) and len(live) == len(value)
            pairs = zip(value, live if fits else [None] * len(value), strict=True)
            items = [self.configured(*pair, where) for pair in pairs]
            return display("[]" if isinstance(value, list) else "()", items)
        if not is_serialized(value):
            if is_live_state(value) or not isinstance(value, dict):
                return self.constant(value, where)
            parts = live if isinstance(live, dict) else {}
            return mapping(
                [
                    (self.constant(key, where), self.configured(item, parts.get(key), where))
                    for key, item in value.items()
                ]
            )
        found = self.described(value, live, where)
        if isinstance(found, keras.DTypePolicy) and is_plain_policy(found):
            return text_of(found.name)
        short = _short_name(found)
        return text_of(short) if short else self.constant(found, where)

    def described(self, value: Any, live: Any, where: str) -> Any:
        """Finds what an entry of a config describes: the live attribute, or one that is made.

        Raises:
            UnmadeError: If there is no such attribute, and it must not be made.
        """
        # A layer that holds a dict never made anything of it: the dict is data.
        if _is_told_by(live, value) or isinstance(live, dict):
            return live
        return deserialized(value, where)


def call_of(
    kind: type, head: Expr, config: Mapping[str, Any], write: Callable[[str, Any], Expr]
) -> Expr:
    """Writes the call of a class with those entries of a config that are not defaults."""
    known = parameters_of(kind)
    args: list[Expr] = []
    kwargs: dict[str, Expr] = {}
    for name, parameter in known.items():
        if name not in config or name == "name":
            continue
        required = parameter.default is inspect.Parameter.empty
        if required and not kwargs and _is_leading(kind, name, len(args)):
            args.append(write(name, config[name]))
        elif required or not is_default(name, parameter.default, config[name]):
            kwargs[name] = write(name, config[name])
    if config.get("name") is not None and "name" in known:
        kwargs["name"] = text_of(config["name"])
    return call(head, *args, **kwargs)


def _is_leading(kind: type, name: str, position: int) -> bool:
    own = [*inspect.signature(kind.__init__).parameters.values()][1:]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return position < len(own) and own[position].name == name and own[position].kind in positional


def parameters_of(kind: type) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a constructor, with those that it hands on to its bases."""
    found: dict[str, inspect.Parameter] = {}
    for base in kind.__mro__:
        if "__init__" not in vars(base) or base is object:
            continue
        own = [*inspect.signature(base.__init__).parameters.values()][1:]
        variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        for parameter in own:
            if parameter.kind not in variadic:
                found.setdefault(parameter.name, parameter)
        if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in own):
            break
        if base is keras.Layer:
            break
    return found


def is_default(name: str, default: Any, value: Any) -> bool:
    """Tells whether an entry of a config is what the constructor makes of its default."""
    if name == "dtype":
        return _is_float32(value)
    if value is None or default is None:
        usual = {"activation": "linear", "data_format": "channels_last", "arguments": {}}
        return value is default or (default is None and usual.get(name, default) == value)
    if is_serialized(value):
        try:
            return isinstance(default, str) and _is_short_for(default, deserialized(value, name))
        except UnmadeError:
            return False
    if isinstance(default, (list, tuple)) and isinstance(value, (list, tuple)):
        return list(default) == list(value)
    return bool(type(default) is type(value) and default == value)


def _is_float32(value: Any) -> bool:
    if is_serialized(value):
        value = value["config"].get("name")
    return value in (None, "float32")


def is_live_state(value: Any) -> bool:
    """Tells whether a value is something that a config holds as it is."""
    return isinstance(value, (keras.Variable, np.ndarray)) or keras.ops.is_tensor(value)


def is_plain_policy(policy: Any) -> bool:
    """Tells whether a dtype policy is told by its name."""
    return type(policy) is not keras.dtype_policies.DTypePolicyMap


def _is_told_by(live: Any, value: Mapping[str, Any]) -> bool:
    """Tells whether an attribute is the object that an entry of a config tells."""
    name = value["class_name"]
    if name in ("function", "__lambda__") or value.get("module") == "builtins":
        return callable(live)
    return live is not None and type(live).__name__ == str(name).rsplit(">", 1)[-1]


def _short_name(value: Any) -> str | None:
    """Returns the string for which Keras makes the same object, if there is one."""
    name = str(getattr(value, "__name__", ""))
    if name and getattr(keras.activations, name, None) is value:
        return name
    short = _snake(type(value).__name__)
    return short if _is_short_for(short, value) else None


def _is_short_for(text: str, value: Any) -> bool:
    """Tells whether Keras makes an object like this one from a string such as `"l2"`."""
    for room in _SHORT:
        if getattr(room, type(value).__name__, None) is type(value):
            try:
                made = room.get(text)
            except Exception:  # noqa: BLE001 one that needs arguments fails in its own way
                return False
            return type(made) is type(value) and made.get_config() == value.get_config()
    return False


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _told(array: np.ndarray, where: str) -> str:
    return f"a constant of '{where}': {array.dtype}{list(array.shape)}"


def public_path(value: Any) -> Leaf | None:
    """Returns the public name of a class or function of Keras, such as `keras.layers.Dense`."""
    own = getattr(value, "__name__", None)
    module = getattr(value, "__module__", None) or ""
    if not is_name(own) or module.split(".")[0] != "keras":
        return None
    if getattr(keras, own, None) is value:
        return bare_name(f"keras.{own}", value)
    for room in _ROOMS:
        if getattr(getattr(keras, room), own, None) is value:
            return bare_name(f"keras.{room}.{own}", value)
    return None


def _is_importable(kind: type) -> bool:
    """Tells whether a class can be imported from its module by its name."""
    module = kind.__module__
    if module == "__main__" or kind.__qualname__ != kind.__name__:
        return False
    if not all(map(is_name, (*module.split("."), kind.__name__))):
        return False
    try:
        found = sys.modules.get(module) or importlib.import_module(module)
    except ImportError:
        return False
    return getattr(found, kind.__name__, None) is kind
