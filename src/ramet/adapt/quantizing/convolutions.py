"""Convolutions with int8 kernels, which Keras lacks.

The kernel is kept as int8, with a scale for each channel of the output, and converted to floats
in each call: a file and the model in memory take a quarter of the bytes; the arithmetic is that
of floats. The classes are registered, so that a saved model loads where ramet is installed.
"""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

_LIMIT = 127
"""The largest int8 in use; -128 is left out, so that the range is symmetric."""


class Int8Kernel(layers.Layer):
    """What a convolution needs to keep its kernel as int8; a mixin."""

    scale_axes: tuple[int, ...] = (-1,)
    """The axes of the kernel that stand for channels of the output."""
    int8_kernel: Any = None
    kernel_scale: Any = None

    def add_weight(self, *args: Any, **kwargs: Any) -> Any:
        """Create a weight; for the kernel, integers and their scales."""
        if kwargs.get("name") != "kernel":
            return super().add_weight(*args, **kwargs)
        shape = tuple(kwargs["shape"])
        self.kernel_scale = super().add_weight(
            name="kernel_scale",
            shape=scale_shape(shape, self.scale_axes),
            initializer="ones",
            dtype="float32",
            autocast=False,
            trainable=False,
        )
        self.int8_kernel = super().add_weight(
            name="kernel", shape=shape, initializer="zeros", dtype="int8", trainable=False
        )
        return self.int8_kernel

    @property
    def kernel(self) -> Any:
        """The kernel as floats."""
        floats = ops.multiply(ops.cast(self.int8_kernel, "float32"), self.kernel_scale)
        return ops.cast(floats, self.compute_dtype)

    @kernel.setter
    def kernel(self, variable: Any) -> None:
        """Do nothing: `add_weight` keeps the integers."""

    def enable_lora(self, *_: Any, **__: Any) -> None:
        """Refuse, since the call would not use the factors."""
        message = (
            f"{type(self).__name__} cannot have LoRA weights; add them before quantizing and merge"
        )
        raise NotImplementedError(message)

    def save_own_variables(self, store: Any) -> None:
        """Write the weights to a file, by name."""
        for variable in self._own():
            store[variable.name] = ops.convert_to_numpy(variable)

    def load_own_variables(self, store: Any) -> None:
        """Read the weights from a file."""
        for variable in self._own():
            variable.assign(store[variable.name])

    def _own(self) -> list[Any]:
        own = [self.int8_kernel, self.kernel_scale, getattr(self, "bias", None)]
        return [variable for variable in own if variable is not None]


def scale_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of the scales of a kernel: one for each channel of the output."""
    kept = {axis % len(shape) for axis in axes}
    return tuple(size if axis in kept else 1 for axis, size in enumerate(shape))


def rounded(kernel: Any, axes: tuple[int, ...]) -> dict[str, Any]:
    """Return a kernel as integers and scales, each at most half a step off."""
    kept = {axis % kernel.ndim for axis in axes}
    others = tuple(axis for axis in range(kernel.ndim) if axis not in kept)
    floats = kernel.astype(np.float32)
    scale = np.abs(floats).max(axis=others, keepdims=True, initial=0) / _LIMIT
    scale[scale == 0] = 1
    steps = np.clip(np.rint(floats / scale), -_LIMIT, _LIMIT).astype(np.int8)
    return {"kernel": steps, "kernel_scale": scale}


_DOC = """A {base} whose kernel is kept as int8, with scales; see `quantize`.

    Its arguments are those of {base}; its biases train, its kernel does not.

    Examples:
        >>> issubclass(ramet.adapt.{name}, layers.{base})
        True
    """


def _int8(base: type, *axes: int) -> type:
    name = f"Int8{base.__name__}"
    text = _DOC.format(base=base.__name__, name=name)
    body = {"__doc__": text, "__module__": "ramet.adapt", "scale_axes": axes}
    cls = type(name, (Int8Kernel, base), body)
    return keras.saving.register_keras_serializable("ramet", name)(cls)


Int8Conv1D = _int8(layers.Conv1D, -1)
Int8Conv2D = _int8(layers.Conv2D, -1)
Int8Conv3D = _int8(layers.Conv3D, -1)
Int8Conv1DTranspose = _int8(layers.Conv1DTranspose, -2)
Int8Conv2DTranspose = _int8(layers.Conv2DTranspose, -2)
Int8Conv3DTranspose = _int8(layers.Conv3DTranspose, -2)
Int8DepthwiseConv1D = _int8(layers.DepthwiseConv1D, -2, -1)
Int8DepthwiseConv2D = _int8(layers.DepthwiseConv2D, -2, -1)

INT8_CLASSES: dict[type, type] = {
    cls.__mro__[2]: cls
    for cls in (
        Int8Conv1D,
        Int8Conv2D,
        Int8Conv3D,
        Int8Conv1DTranspose,
        Int8Conv2DTranspose,
        Int8Conv3DTranspose,
        Int8DepthwiseConv1D,
        Int8DepthwiseConv2D,
    )
}
"""The class with an int8 kernel, by Keras's own class."""
