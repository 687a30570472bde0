"""Dropout on what updates read: in training, an update has a path of its own beside the kernel.

The layer computes `activation(linear(x, kernel) + linear(dropout(x), update) + bias)`. Both paths
are the call of the layer itself, on objects that share everything with it but the kernel, the bias
and the activation. Nothing is set on the layer, so other threads do not notice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

from ramet import keras_internals as internals
from ramet.layers.kernels import plain_class


@dataclass(frozen=True)
class Beside:
    """An update that reads other inputs than the kernel."""

    update: Any
    """What is added to the kernel for these inputs."""
    rate: float
    """How many of the inputs are dropped."""


def with_paths(owner: Any, variable: Any, paths: Sequence[Beside], seed: Any) -> Callable[..., Any]:
    """Return what a layer computes when some updates of its kernel read dropped inputs.

    Args:
        owner: The layer.
        variable: Its kernel.
        paths: The updates.
        seed: What draws the inputs that are dropped.
    """
    cls: Any = plain_class(type(owner))
    method = cls.call if owner.quantization_mode is None else cls.quantized_call

    def call(inputs: Any, *args: Any, **kwargs: Any) -> Any:
        main = internals.shallow(owner, cls, activation=None)
        value = method(main, inputs, *args, **kwargs)
        for path in paths:
            update = ops.cast(path.update, owner.compute_dtype)
            linear = internals.with_kernel(owner, cls, variable, update)
            dropped = keras.random.dropout(inputs, path.rate, seed=seed)
            value = ops.add(value, cls.call(linear, dropped))
        return value if owner.activation is None else owner.activation(value)

    return call
