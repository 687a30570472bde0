"""How many bytes weights take."""

from typing import Any

import keras
import numpy as np

from ramet import keras_internals as internals

_BYTES = {"bfloat16": 2, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1}
"""Bytes of an element, by dtypes that NumPy does not know."""


def bytes_of(layer: Any) -> int:
    """Return the bytes of the weights of a layer, and of all layers in it."""
    if not isinstance(layer, keras.Layer):
        return 0
    parts = internals.all_layers(layer)
    variables = {id(v): v for part in parts for v in internals.layer_state(part)}
    return sum(map(_bytes, variables.values()))


def _bytes(variable: Any) -> int:
    dtype = str(variable.dtype)
    if dtype == "string":
        return 0
    return int(np.prod(variable.shape)) * (_BYTES.get(dtype) or np.dtype(dtype).itemsize)
