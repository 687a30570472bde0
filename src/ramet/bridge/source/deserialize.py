"""What a config names, made into an object: only what can neither run nor load anything.

Keras leaves a dict in a config as it is wherever it expects plain data, so that a file which
was loaded safely can still hold the description of anything. To make an object of it is a
second loading, and obeys stricter rules than the first.
"""

import inspect
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.source.expr import is_name
from ramet.errors import SourceError

_KINDS = (
    keras.initializers.Initializer,
    keras.regularizers.Regularizer,
    keras.constraints.Constraint,
    keras.dtype_policies.DTypePolicy,
    keras.dtype_policies.DTypePolicyMap,
    keras.quantizers.Quantizer,
    getattr(keras.quantizers, "QuantizationConfig", keras.quantizers.Quantizer),  # since 3.13
    keras.Layer,
)
"""What may be made, with all that is derived from it in the public modules of Keras."""

_NEVER = tuple(
    found
    for name in (
        *("Lambda", "TorchModuleWrapper", "TFSMLayer", "JaxLayer", "FlaxLayer"),  # run code
        *("StringLookup", "IntegerLookup", "TextVectorization"),  # read files
    )
    if isinstance(found := getattr(keras.layers, name, None), type)
)
"""Layers that run or load what their config names. Models can hold any of them."""

_PLAIN = frozenset({"__bytes__", "__ellipsis__", "__numpy__", "__slice__", "__tensor__"})
"""How Keras describes constants that JSON has not."""

_TOOLS = frozenset({"deserialize", "get", "serialize"})
"""Functions beside the activations that are none."""


class UnmadeError(SourceError):
    """An entry of a config describes what is not made of it."""


def is_serialized(value: Any) -> bool:
    """Whether an entry of a config is an object that Keras serialized."""
    return isinstance(value, dict) and "class_name" in value and "config" in value


def deserialized(value: Any, where: str) -> Any:
    """Makes the object that an entry of a config describes.

    Raises:
        UnmadeError: If that could run or load something, or Keras cannot make it.
    """
    odd = _first_odd(value)
    if odd is not None:
        message = (
            f"layer '{where}' has {odd} in its config, which is no initializer, activation or "
            "other plain part of Keras and is not made from a config; register your own classes "
            "with keras.saving.register_keras_serializable, or copy the model with ramet.clone"
        )
        raise UnmadeError(message)
    try:
        with (
            internals.untouched_names(),
            internals.untouched_randomness(),
            internals.safe_deserialization(),
        ):
            return keras.saving.deserialize_keras_object(value)
    except Exception as error:  # a config fails in as many ways as there are classes
        message = (
            f"layer '{where}' has {_named(value)} in its config, which Keras cannot make: "
            f"{internals.reason_of(error)}; copy the model with ramet.clone"
        )
        raise UnmadeError(message) from error


def is_harmless(value: Any) -> bool:
    """Whether every class and function that a part of a config names may be made."""
    return _first_odd(value) is None


def is_harmless_class(kind: type) -> bool:
    """Whether the config of a class of Keras can be given to it without running what it holds."""
    return not issubclass(kind, (*_NEVER, keras.Model)) and not _minds_safety(kind)


def _first_odd(value: Any) -> str | None:
    """Returns, in words, the first thing in a config that must not be made."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if "class_name" in one and not _may_be_made(one):
                return _named(one)
            waiting += reversed([*one.values()])
        elif isinstance(one, (list, tuple)):
            waiting += reversed([*one])
    return None


def _may_be_made(described: dict[str, Any]) -> bool:
    """Whether a description names one of Keras's plain parts, or what this process registered.

    It looks where Keras will look: first by the registered name, then in the public module.
    """
    kind, config = described["class_name"], described.get("config")
    if kind in _PLAIN:
        return True
    function = kind == "function"
    found = config if function else kind
    registered = found if function else described.get("registered_name", kind)
    if isinstance(registered, str) and keras.saving.get_registered_object(registered) is not None:
        return True
    module = described.get("module")
    if not is_name(found) or not isinstance(module, str):
        return False
    if function:
        known = found not in _TOOLS and module in ("builtins", "keras.activations")
        return known and inspect.isfunction(getattr(keras.activations, found, None))
    public = _public(module, found)
    return isinstance(public, type) and issubclass(public, _KINDS) and is_harmless_class(public)


def _public(module: str, name: str) -> Any:
    """Returns what a public module of Keras has under a name: no path into its source."""
    package, _, room = module.partition(".")
    if package != "keras" or room == "src" or (room and not is_name(room)):
        return None
    home = getattr(keras, room, None) if room else keras
    return getattr(home, name, None) if inspect.ismodule(home) else None


def _minds_safety(kind: type) -> bool:
    """Whether a class asks for Keras's safe mode itself, so that it has something to hide."""
    return "safe_mode" in inspect.signature(getattr(kind, "from_config", kind)).parameters


def _named(described: Any) -> str:
    kind, config = described.get("class_name"), described.get("config")
    name = config if kind == "function" else kind
    module = described.get("module")
    return ascii(f"{module}.{name}" if module else str(name))
