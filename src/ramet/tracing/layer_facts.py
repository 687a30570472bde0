"""Facts about a live layer: what edits need, its weights, and their statistics."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ramet.backends.values import to_numpy
from ramet.graph import Graph, Layer
from ramet.graph.data import Facts

_CHUNK = 1 << 22
"""How many values are converted to float64 at a time, to limit memory."""
_FEW = 16
"""How many values are kept one by one."""
_STEPS = 24
"""How many steps the values are counted in."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """A variable and statistics of its values. NaN and infinite values are only counted."""

    name: str
    """Path of the variable."""
    shape: tuple[int, ...]
    """Its shape."""
    dtype: str
    """Name of its dtype."""
    trainable: bool
    """Whether training changes it."""
    mean: float | None = None
    """Mean of the finite values; `None` if there are none, or they are not numbers."""
    std: float | None = None
    """Standard deviation of the finite values."""
    low: float | None = None
    """The smallest finite value."""
    high: float | None = None
    """The largest finite value."""
    not_finite: int = 0
    """How many values are NaN or infinite."""
    values: tuple[float, ...] = ()
    """All values, if they are few and finite, in flat order."""
    counts: tuple[int, ...] = ()
    """If they are many, how many lie in each of some equal steps from `low` to `high`."""


def facts_of(operation: Any, graph: Graph | None) -> Facts:
    """Return what edits need to know of a live layer.

    Args:
        operation: The layer or operation.
        graph: The graph of a nested model.
    """
    if not isinstance(operation, keras.Layer):
        return Facts("operation")
    if isinstance(operation, keras.layers.InputLayer):
        return Facts("input", built=True, optional=bool(operation.optional))
    inside = graph is not None and any(x.facts.has_weights for x in graph.layers.values())
    return Facts(
        built=bool(operation.built),
        has_weights=inside or bool(operation.weights),
        trainable=bool(operation.trainable),
    )


def variables_of(layer: Layer) -> list[Any] | None:
    """Return the live variables of a layer, or `None` if they are created on build."""
    operation = layer.origin
    if not isinstance(operation, keras.Layer):
        return []
    if layer.changes is not None or layer.inherits is not None or not operation.built:
        return None
    return [*operation.variables]


def parameters_of(layer: Layer) -> dict[int, tuple[int, bool]] | None:
    """Return size and `trainable` flag of each weight of a layer, by id.

    `None` if they are created on build. For a nested model that was edited, those of its parts.
    """
    if layer.graph is not None and layer.edit is not None:
        return _parameters_inside(layer)
    if variables_of(layer) is None:
        return None
    trainable = {id(v) for v in getattr(layer.origin, "trainable_weights", ())}
    weights = getattr(layer.origin, "weights", ())
    return {id(v): (math.prod(v.shape), id(v) in trainable) for v in weights}


def _parameters_inside(layer: Layer) -> dict[int, tuple[int, bool]] | None:
    sizes: dict[int, tuple[int, bool]] = {}
    for inner in layer.graph.layers.values() if layer.graph else ():
        parameters = parameters_of(inner)
        if parameters is None:
            return None
        sizes |= parameters
    return sizes


def statistics_of(variable: Any) -> Statistics:
    """Return statistics of the values of a variable. Costs O(values)."""
    about = (variable.path, tuple(variable.shape), str(variable.dtype), bool(variable.trainable))
    try:
        values = np.asarray(to_numpy(variable)).reshape(-1)
        finite = sum(int(chunk.size) for chunk in _finite(values))
    except (TypeError, ValueError):  # strings, and values that do not exist yet
        return Statistics(*about)
    if not finite:
        return Statistics(*about, not_finite=int(values.size))
    mean = sum(float(chunk.sum()) for chunk in _finite(values)) / finite
    square = sum(float(np.square(chunk - mean).sum()) for chunk in _finite(values)) / finite
    low = min(float(chunk.min()) for chunk in _finite(values) if chunk.size)
    high = max(float(chunk.max()) for chunk in _finite(values) if chunk.size)
    few = tuple(map(float, values)) if values.size <= _FEW and values.size == finite else ()
    counts = () if few or low == high else _counted(values, low, high)
    lost = int(values.size) - finite
    return Statistics(*about, mean, math.sqrt(square), low, high, lost, few, counts)


def _counted(values: np.ndarray, low: float, high: float) -> tuple[int, ...]:
    counts = np.zeros(_STEPS, np.int64)
    for chunk in _finite(values):
        counts += np.histogram(chunk, _STEPS, (low, high))[0]
    return tuple(map(int, counts))


def _finite(values: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, values.size, _CHUNK):
        chunk = values[start : start + _CHUNK].astype(np.float64)
        yield chunk[np.isfinite(chunk)]
