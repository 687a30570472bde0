"""Layers that add nothing at first, or start as the identity."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet.errors import OptionError
from ramet.graph.names import with_article

_CONVOLUTIONS = (keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D)
_REPEATABLE = ("linear", "relu")
"""Activations that change nothing the second time."""


def with_zeros_at_the_end(layers: Sequence[Any]) -> list[Any]:
    """Return copies of layers, the last of which starts with a kernel of zeros.

    Raises:
        OptionError: If it has no kernel that can.
    """
    *others, last = layers
    config = internals.live_config(last)
    name = getattr(getattr(last, "activation", None), "__name__", "linear")
    if type(last) not in (*_CONVOLUTIONS, keras.layers.Dense, keras.layers.EinsumDense):
        message = (
            f"the last new layer must have a kernel that starts with zeros, got "
            f"{type(last).__name__}; end with a Dense layer or a convolution"
        )
        raise OptionError(message)
    if name != "linear":
        message = (
            f"the last new layer '{last.name}' has the activation {name}, after which nothing "
            "might be learned; end with a layer without an activation"
        )
        raise OptionError(message)
    zeros = {"kernel_initializer": "zeros", "bias_initializer": "zeros"}
    twins = [type(layer).from_config(internals.live_config(layer)) for layer in others]
    return [*twins, type(last).from_config({**config, **zeros})]


def identity_like(layer: Any, at: str) -> Any:
    """Return a layer of the class of another that computes the identity of its output.

    Raises:
        OptionError: If there is none.
    """
    name = getattr(getattr(layer, "activation", None), "__name__", "")
    known = type(layer) in (*_CONVOLUTIONS, keras.layers.Dense)
    if not known or name not in _REPEATABLE:
        kind = f"{type(layer).__name__} with {name}" if known else type(layer).__name__
        message = (
            f"'{at}' is {with_article(kind)}, for which there is no identity; pass the layers "
            "to add, such as new=[layers.Dense(64, activation='relu'), layers.Dense(8)]"
        )
        raise OptionError(message)
    common = {"activation": name, "dtype": layer.dtype_policy}
    if isinstance(layer, keras.layers.Dense):
        new = keras.layers.Dense(layer.units, kernel_initializer="identity", **common)
        new.build((None, layer.units))
        return new
    new = type(layer)(
        layer.filters, layer.kernel_size, padding="same", data_format=layer.data_format, **common
    )
    around = (None,) * layer.rank
    first = layer.data_format == "channels_first"
    new.build((None, layer.filters, *around) if first else (None, *around, layer.filters))
    kernel = np.zeros(tuple(new.kernel.shape))
    middle = tuple((size - 1) // 2 for size in layer.kernel_size)
    kernel[middle] = np.eye(layer.filters)
    new.kernel.assign(kernel)
    return new
