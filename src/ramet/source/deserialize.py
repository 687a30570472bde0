"""Deserialize what a config describes, if that can neither run nor load anything.

Keras leaves a dict in a config as it is wherever it expects plain data, so that a file which
was loaded safely can still hold the description of anything. To create an object from it is a
second loading, and follows stricter rules than the first.
"""

import inspect
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.errors import SourceError

_MEMORY = 1 << 26
"""Bytes of variables that one description may create: 64 MiB. A config describes no weights."""

_TENSORS = 10_000
"""Symbolic tensors that it may create."""


class UnmadeError(SourceError):
    """An entry of a config describes what must not, or cannot, be created."""


def is_serialized(value: Any) -> bool:
    """Whether an entry of a config is an object that Keras serialized."""
    return isinstance(value, dict) and "class_name" in value and "config" in value


def deserialized(value: Any, where: str) -> Any:
    """Create the object that an entry of a config describes.

    Raises:
        UnmadeError: If that could run or load something, or Keras cannot create it.
    """
    odd = _first_odd(value)
    if odd is not None:
        message = (
            f"layer '{where}' has {odd} in its config, which is not an initializer, activation or "
            "other plain part of Keras and is not created from a config; register your own classes "
            "with keras.saving.register_keras_serializable, or copy the model with ramet.clone"
        )
        raise UnmadeError(message)
    try:
        with (
            internals.untouched_names(),
            internals.untouched_randomness(),
            internals.safe_deserialization(),
            internals.limited_memory(_MEMORY, _TENSORS),
        ):
            return keras.saving.deserialize_keras_object(value)
    except Exception as error:  # user classes may raise anything
        message = (
            f"layer '{where}' has {_named(value)} in its config, which Keras cannot create: "
            f"{internals.reason_of(error)}; copy the model with ramet.clone"
        )
        raise UnmadeError(message) from error


def is_harmless(value: Any) -> bool:
    """Whether every class and function that a part of a config names may be created."""
    return _first_odd(value) is None


def is_harmless_class(kind: type) -> bool:
    """Whether a class can be created from any config without running code in it."""
    if issubclass(kind, keras.Model) or _minds_safety(kind):
        return False
    return internals.is_part(kind) or kind.__module__.partition(".")[0] != "keras"


def _first_odd(value: Any) -> str | None:
    """Return, in words, the first thing in a config that must not be created."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if "class_name" in one and not _may_be_created(one):
                return _named(one)
            waiting += reversed([*one.values()])
        elif isinstance(one, (list, tuple)):
            waiting += reversed([*one])
    return None


def _may_be_created(described: dict[str, Any]) -> bool:
    """Whether a description names a part of Keras, or what this process registered."""
    kind, config = described["class_name"], described.get("config")
    key = config if kind == "function" else described.get("registered_name") or kind
    if isinstance(key, str) and keras.saving.get_registered_object(key) is not None:
        return True
    return internals.may_be_created(described)


def _minds_safety(kind: type) -> bool:
    """Whether a class checks the safe mode of Keras itself, so that its config may hold code."""
    return "safe_mode" in inspect.signature(getattr(kind, "from_config", kind)).parameters


def _named(described: Any) -> str:
    kind, config = described.get("class_name"), described.get("config")
    name = config if kind == "function" else kind
    module = described.get("module")
    return ascii(f"{module}.{name}" if module else str(name))
