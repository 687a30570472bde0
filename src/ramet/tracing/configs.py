"""The config of a layer: raw, as plain data, and in a form to be compared."""

import base64
import hashlib
import json
import marshal
import math
import re
from types import CodeType
from typing import Any, cast

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet.graph import Layer
from ramet.graph.names import is_automatic


def raw_config(operation: Any) -> dict[str, Any]:
    """Return the config of a live layer, or the options of an operation.

    Raises whatever `get_config` raises.
    """
    if isinstance(operation, keras.Layer):
        return internals.live_config(operation)
    return internals.operation_options(operation)


def config_of(layer: Layer) -> dict[str, Any] | None:
    """Return the config of a layer as plain data, including the changes by edits.

    `None` if it has none.
    """
    if layer.origin is None:
        return None
    try:
        config = raw_config(layer.origin)
    except Exception:  # noqa: BLE001 a config fails in as many ways as there are authors
        return None
    return _plain({**config, **(layer.changes or {})})


def comparable_config(layer: Layer) -> dict[str, Any] | None:
    """Return the config of a layer for comparison with another; `None` if it has none.

    This is what Keras would save, without its name, the numbers in automatic names of layers
    inside, and the layers of a nested model, which are compared one by one.
    """
    own = internals.own_config(layer.origin) if layer.graph is not None else None
    try:
        config = own or internals.serialized(layer.origin).get("config", {})
        plain = json.loads(json.dumps(config, sort_keys=True, default=_class_name))
    except Exception:  # noqa: BLE001 a layer without a config has none to compare
        return None
    plain.pop("name", None)
    plain = {key: _without_counters(item) for key, item in plain.items()}
    return plain if layer.graph is None else _without_layers(plain)


def _without_layers(config: dict[str, Any]) -> dict[str, Any]:
    """Return the config of a model without its layers.

    The input shape of a Sequential model follows from the tensor it is called on.
    """
    inside = ("layers", "input_layers", "output_layers", "build_input_shape")
    return {key: value for key, value in config.items() if key not in inside}


def _without_counters(value: Any) -> Any:
    """Return a config value in which automatic names of layers have no numbers.

    `Bidirectional` prefixes the names of its parts. The shapes that parts were built for are
    left out: they follow from what the layer is called on.
    """
    if isinstance(value, list):
        return [_without_counters(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    plain = {key: _without_counters(item) for key, item in cast("dict[str, Any]", value).items()}
    config, kind = plain.get("config"), plain.get("class_name")
    if isinstance(kind, str):  # an address in the process that saved it
        plain.pop("shared_object_id", None)
    if kind == "__lambda__" and isinstance(config, dict) and isinstance(config.get("code"), str):
        config["code"] = _code_digest(config["code"])
    if isinstance(config, dict) and isinstance(kind, str):
        plain.pop("build_config", None)
    if isinstance(config, dict) and isinstance(kind, str) and isinstance(config.get("name"), str):
        name = config["name"]
        if is_automatic(re.sub("^(forward|backward)_", "", name), kind):
            config["name"] = re.sub(r"_\d+$", "", name)
    return plain


def _code_digest(text: str) -> str:
    """Return what identifies the code of a function, wherever it was written.

    Keras saves code with the file and lines that it stands in. The text is what Keras made of a
    live function just now, so that reading it runs no risk.
    """
    try:
        code = marshal.loads(base64.b64decode(text))  # noqa: S302 see above
    except (ValueError, EOFError, TypeError):
        return text
    return hashlib.sha256(repr(_instructions(code)).encode()).hexdigest()[:12]


def _instructions(code: CodeType) -> Any:
    constants = [_instructions(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code.hex(), constants, names, code.co_argcount, code.co_flags


def _class_name(value: Any) -> str:
    return type(value).__name__


def _plain(value: Any) -> Any:
    """Return a value as JSON data; an object by its config or its class."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    return _described(value)


def _described(value: Any) -> Any:
    name = getattr(value, "__name__", None) or type(value).__name__
    try:
        config = internals.live_config(value)
    except Exception:  # noqa: BLE001 a function has none, and a config may fail
        return str(name)
    return {"class_name": str(name), "config": _plain(config)}
