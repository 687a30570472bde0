"""What can be told of a live layer: its config, its weights, and their statistics."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ramet.bridge import internals
from ramet.graph import Layer

_CHUNK = 1 << 22
"""How many values are widened at a time, so that big weights need little memory."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """A variable, and how its values are spread. Values that are not finite are counted."""

    name: str
    """Path of the variable."""
    shape: tuple[int, ...]
    """Its shape."""
    dtype: str
    """Name of its dtype."""
    trainable: bool
    """Whether training changes it."""
    mean: float | None = None
    """Mean of the finite values; `None` if there are none, or they are no numbers."""
    std: float | None = None
    """Standard deviation of the finite values."""
    low: float | None = None
    """The smallest finite value."""
    high: float | None = None
    """The largest finite value."""
    not_finite: int = 0
    """How many values are NaN or infinite."""


def config_of(layer: Layer) -> dict[str, Any] | None:
    """Returns what a layer was made with, changes by edits included.

    A layer that has no config gives `None`.
    """
    operation = layer.origin
    if not isinstance(operation, keras.Layer):
        return _plain(internals.operation_options(operation)) if operation is not None else None
    try:
        config = operation.get_config()
    except Exception:  # noqa: BLE001 a config fails in as many ways as there are authors
        return None
    return _plain({**config, **(layer.changes or {})})


def _plain(value: Any) -> Any:
    """Returns a value as JSON can hold it; an object by its config or its class."""
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
        config = value.get_config()
    except Exception:  # noqa: BLE001 a function has none, and a config may fail
        return str(name)
    return {"class_name": str(name), "config": _plain(config)}


def variables_of(layer: Layer) -> list[Any] | None:
    """Returns the live variables of a layer, or `None` if they are made on build."""
    operation = layer.origin
    if not isinstance(operation, keras.Layer):
        return []
    if layer.changes is not None or layer.inherits is not None or not operation.built:
        return None
    return [*operation.variables]


def parameters_of(layer: Layer) -> dict[int, tuple[int, bool]] | None:
    """Returns size and trainability of a layer's weights, by identity.

    `None` if they are made on build. A nested model that was edited is asked by parts.
    """
    if layer.graph is not None and layer.edit is not None:
        return _parameters_inside(layer)
    if variables_of(layer) is None:
        return None
    trainable = {id(v) for v in getattr(layer.origin, "trainable_weights", ())}
    weights = getattr(layer.origin, "weights", ())
    return {id(v): (math.prod(v.shape), id(v) in trainable) for v in weights}


def _parameters_inside(layer: Layer) -> dict[int, tuple[int, bool]] | None:
    found: dict[int, tuple[int, bool]] = {}
    for inner in layer.graph.layers.values() if layer.graph else ():
        parameters = parameters_of(inner)
        if parameters is None:
            return None
        found |= parameters
    return found


def statistics_of(variable: Any) -> Statistics:
    """Computes how the values of a variable are spread. Costs O(values)."""
    about = (variable.path, tuple(variable.shape), str(variable.dtype), bool(variable.trainable))
    try:
        values = np.asarray(internals.to_numpy(variable)).reshape(-1)
        finite = sum(int(chunk.size) for chunk in _finite(values))
    except (TypeError, ValueError):  # strings, and values that are nowhere yet
        return Statistics(*about)
    if not finite:
        return Statistics(*about, not_finite=int(values.size))
    mean = sum(float(chunk.sum()) for chunk in _finite(values)) / finite
    square = sum(float(np.square(chunk - mean).sum()) for chunk in _finite(values)) / finite
    low = min(float(chunk.min()) for chunk in _finite(values) if chunk.size)
    high = max(float(chunk.max()) for chunk in _finite(values) if chunk.size)
    return Statistics(*about, mean, math.sqrt(square), low, high, int(values.size) - finite)


def _finite(values: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, values.size, _CHUNK):
        chunk = values[start : start + _CHUNK].astype(np.float64)
        yield chunk[np.isfinite(chunk)]
