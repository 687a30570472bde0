"""Constants and small Keras objects as expressions of the source."""

import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet.backends.values import is_symbolic
from ramet.source.counting import base_of
from ramet.source.deserialize import UnmadeError, deserialized, is_serialized
from ramet.source.expr import (
    Expr,
    Leaf,
    bare_name,
    call,
    display,
    is_name,
    literal,
    mapping,
    named,
    text_of,
)
from ramet.source.names import Scope

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
"""The public modules of Keras whose members a config may name."""

_COMPARED = (bool, int, float, str, bytes, list, tuple, dict)
"""What can be compared: a comparison of tensors is a tensor, or an error."""

_LARGEST = 16
"""Constants with more values become parameters."""

_SHORT = (keras.initializers, keras.regularizers, keras.constraints)

_SMALL = (
    keras.initializers.Initializer,
    keras.regularizers.Regularizer,
    keras.constraints.Constraint,
)
_VALUES = frozenset({"value", "l1", "l2", "max_value", "gain", "factor"})
_SIZES = frozenset({"size", "pool_size", "padding", "cropping", "mode"})
"""First arguments that are usually passed by position: of small objects, and of layers."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An object without source, which the caller passes to `build_model`."""

    name: Leaf
    """Its name in the source."""
    value: Any
    """The live object."""
    what: str
    """What it is, in words."""


@dataclass
class Values:
    """Writes constants, and records what has to be imported or passed by the caller."""

    scope: Scope = field(default_factory=Scope)
    """The names of the source."""
    parameters: dict[int, Parameter] = field(default_factory=dict[int, Parameter])
    """By the identity of the live objects."""
    imports: dict[str, str] = field(default_factory=dict[str, str])
    """Import lines, by the name that they define."""
    numpy: bool = False
    """Whether the source needs NumPy."""
    used: list[str] = field(default_factory=list[str])
    """Names of parameters, in the order in which expressions use them."""

    @contextmanager
    def recording(self) -> Generator[list[str]]:
        """Yield a list of the parameters that are used meanwhile, and do not count them outside."""
        outer, self.used = self.used, []
        yield self.used
        self.used = outer

    def parameter(self, value: Any, wanted: str, what: str, key: int | None = None) -> Leaf:
        """Make a live object a parameter of `build_model`, and return its name."""
        key = id(value) if key is None else key
        parameter = self.parameters.get(key)
        if parameter is None:
            parameter = Parameter(self.scope.new(wanted, value), value, what)
            self.parameters[key] = parameter
        self.used.append(parameter.name)
        return parameter.name

    def forget_since(self, before: Mapping[int, Parameter]) -> None:
        """Remove the parameters of an expression that is discarded."""
        for key in [key for key in self.parameters if key not in before]:
            name = self.parameters.pop(key).name
            self.scope.taken.discard(name)
            self.used[:] = [one for one in self.used if one != name]

    def constant(self, value: Any, where: str) -> Expr:  # noqa: PLR0911 one for each type
        """Write a constant; one that is too large becomes a parameter."""
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
        if is_symbolic(value):
            return self.parameter(value, f"{where}_tensor", f"a symbolic tensor of '{where}'")
        if keras.ops.is_tensor(value) and not isinstance(value, keras.Variable):
            array = np.asarray(keras.ops.convert_to_numpy(value))
            if array.size <= _LARGEST and array.dtype.kind in "biuf":
                head = bare_name("keras.ops.convert_to_tensor", keras.ops.convert_to_tensor)
                return call(head, self._array(array, where))
            return self.parameter(value, f"{where}_constant", _array_text(array, where))
        if isinstance(value, keras.Variable):
            what = f"the variable '{value.path}', which belongs to no layer of its own"
            return self.parameter(value, value.name, what)
        return self.thing(value, where)

    def _array(self, value: Any, where: str) -> Expr:
        array = np.asarray(value)
        kind = getattr(np, array.dtype.name, None)
        if array.size > _LARGEST or array.dtype.kind not in "biuf" or kind is None:
            return self.parameter(value, f"{where}_constant", _array_text(array, where))
        self.numpy = True
        if isinstance(value, np.generic):
            head = bare_name(f"np.{array.dtype.name}", kind)
            return call(head, self.constant(value.item(), where))
        dtype = text_of(str(array.dtype))
        return call(
            bare_name("np.array", np.array), self.constant(array.tolist(), where), dtype=dtype
        )

    def thing(self, value: Any, where: str) -> Expr:
        """Write a function, a class or a small Keras object such as an initializer."""
        public = public_path(value)
        if public is not None:
            return public
        if isinstance(value, type):
            return self.class_name(value)
        if hasattr(value, "get_config") and not isinstance(value, keras.Layer):
            config = internals.live_config(value)
            if isinstance(config, dict):
                return self.constructed(type(value), config, value, where)
        wanted = str(getattr(value, "__name__", type(value).__name__))
        if wanted == "<lambda>":
            wanted = f"{where}_function"
        kind = "the function" if callable(value) else f"an object ({type(value).__name__})"
        return self.parameter(value, wanted, f"{kind} that '{where}' uses")

    def class_name(self, kind: type) -> Leaf:
        """Write a class: a public name of Keras, an import, or a parameter."""
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

    def constructed(self, kind: type, config: Mapping[str, Any], live: Any, where: str) -> Expr:
        """Write the constructor of an object, with its config."""
        return call_of(
            kind,
            self.class_name(kind),
            config,
            lambda key, value: self.configured(value, getattr(live, key, None), where),
        )

    def configured(self, value: Any, live: Any, where: str) -> Expr:
        """Write an entry of a config; `live` is the attribute of the same name."""
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
        described = self.described(value, live, where)
        if isinstance(described, keras.DTypePolicy) and is_plain_policy(described):
            return text_of(described.name)
        short = _short_name(described)
        return text_of(short) if short else self.constant(described, where)

    def described(self, value: Any, live: Any, where: str) -> Any:
        """Return what an entry of a config describes: the live attribute, or a new object.

        Raises:
            UnmadeError: If there is no such attribute, and it must not be created.
        """
        # If the layer holds a dict, it never deserialized it: the dict is data.
        if _is_described_by(live, value) or isinstance(live, dict):
            return live
        return deserialized(value, where)


def call_of(
    kind: type, head: Expr, config: Mapping[str, Any], write: Callable[[str, Any], Expr]
) -> Expr:
    """Write the call of a class with the entries of a config that are not defaults."""
    known = internals.constructor_parameters(kind)
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
    if len(kwargs) == 1 and not args and _is_plain_first(kind, *kwargs):
        args, kwargs = [*kwargs.values()], {}
    if config.get("name") is not None and "name" in known:
        name = config["name"]
        return named(call(head, *args, **kwargs), name, base_of(name, kind.__name__))
    return call(head, *args, **kwargs)


def _is_leading(kind: type, name: str, position: int) -> bool:
    own = [*inspect.signature(kind.__init__).parameters.values()][1:]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return position < len(own) and own[position].name == name and own[position].kind in positional


def _is_plain_first(kind: type, name: str) -> bool:
    """Whether an argument reads well without its name if it is the only one: `L2(1e-4)`."""
    plain = issubclass(kind, _SMALL) if name in _VALUES else name in _SIZES
    return plain and _is_leading(kind, name, 0)


def is_default(name: str, default: Any, value: Any) -> bool:
    """Whether an entry of a config is what the default of the constructor becomes."""
    if name == "dtype":
        return _is_float32(value)
    if value is default or value is None:
        return value is default
    if is_serialized(value) or not isinstance(value, _COMPARED):
        return isinstance(default, str) and _is_default_part(name, default, value)
    if default is None:
        usual = {"activation": "linear", "data_format": "channels_last", "arguments": {}}
        return usual.get(name) == value
    if isinstance(default, (list, tuple)):
        one = type(value) is int and all(part == value for part in default)
        return one or (isinstance(value, (list, tuple)) and list(default) == list(value))
    return bool(type(default) is type(value) and default == value)


def _is_default_part(name: str, default: str, value: Any) -> bool:
    try:
        part = deserialized(value, name) if is_serialized(value) else value
    except UnmadeError:
        return False
    return _is_short_for(default, part)


def _is_float32(value: Any) -> bool:
    if is_serialized(value):
        return value["class_name"] == "DTypePolicy" and value["config"] == {"name": "float32"}
    return value in (None, "float32")


def is_live_state(value: Any) -> bool:
    """Whether a value is a tensor, which a config holds as it is."""
    return isinstance(value, (keras.Variable, np.ndarray)) or keras.ops.is_tensor(value)


def is_plain_policy(policy: Any) -> bool:
    """Whether its name describes a dtype policy completely."""
    return type(policy) is not keras.dtype_policies.DTypePolicyMap


def _is_described_by(live: Any, value: Mapping[str, Any]) -> bool:
    """Whether an attribute is the object that an entry of a config describes."""
    name = value["class_name"]
    if name in ("function", "__lambda__") or value.get("module") == "builtins":
        return callable(live)
    return live is not None and type(live).__name__ == str(name).rsplit(">", 1)[-1]


def _short_name(value: Any) -> str | None:
    """Return the string from which Keras creates the same object, if there is one."""
    name = str(getattr(value, "__name__", ""))
    if name and getattr(keras.activations, name, None) is value:
        return name
    short = _snake(type(value).__name__)
    return short if _is_short_for(short, value) else None


def _is_short_for(text: str, value: Any) -> bool:
    """Whether Keras creates an object like this one from a string such as `"l2"`."""
    for room in _SHORT:
        if getattr(room, type(value).__name__, None) is type(value):
            try:
                twin = room.get(text)
            except Exception:  # noqa: BLE001 one that needs arguments fails in its own way
                return False
            if type(twin) is not type(value):
                return False
            return internals.live_config(twin) == internals.live_config(value)
    return False


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _array_text(array: np.ndarray, where: str) -> str:
    return f"a constant of '{where}': {array.dtype}{list(array.shape)}"


def public_path(value: Any) -> Leaf | None:
    """Return the public name of a Keras class or function, such as `keras.layers.Dense`."""
    own = getattr(value, "__name__", None)
    if not is_name(own) or not _is_of_keras(value):
        return None
    if getattr(keras, own, None) is value:
        return bare_name(f"keras.{own}", value)
    for room in _ROOMS:
        if getattr(getattr(keras, room), own, None) is value:
            return bare_name(f"keras.{room}.{own}", value)
    path = _aliases().get(id(value))
    return None if path is None else bare_name(path, value)


@functools.cache
def _aliases() -> dict[int, str]:
    """Return the public names of Keras classes that differ from their own, by identity."""
    rooms = {room: getattr(keras, room) for room in _ROOMS}
    return {
        id(value): f"keras.{room}.{name}"
        for room, module in rooms.items()
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__name__ != name
    }


def _is_of_keras(value: Any) -> bool:
    return str(getattr(value, "__module__", None)).split(".")[0] == "keras"


def _is_importable(kind: type) -> bool:
    """Whether a class can be imported from its module by its name, and is not private to Keras."""
    module = kind.__module__
    if module == "__main__" or _is_of_keras(kind) or kind.__qualname__ != kind.__name__:
        return False
    if not all(map(is_name, (*module.split("."), kind.__name__))):
        return False
    try:
        home = sys.modules.get(module) or importlib.import_module(module)
    except ImportError:
        return False
    return getattr(home, kind.__name__, None) is kind
