"""The kernels of a layer that can be adapted: those of Keras's layers, wherever they are inside.

A kernel is a matrix in the end: some of its axes make outputs, and the others are summed over.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.backends import is_of_keras

Outs = Callable[[Any, int], tuple[int, ...]]
"""Returns the axes of a kernel that make outputs, for its layer and its number of axes."""


@dataclass(frozen=True)
class Kernel:
    """One kernel of a layer."""

    path: str
    """Its name in the layer: `kernel`, `query/kernel`."""
    held: str
    """The attributes that lead to the layer that has it; empty for the layer itself."""
    owner: Any
    """The layer that has it."""
    variable: Any
    """The variable."""
    shape: tuple[int, ...]
    """Its shape; of a packed one, before it was packed."""
    outs: tuple[int, ...]
    """The axes that make outputs."""


def _last(_layer: Any, axes: int) -> tuple[int, ...]:
    return (axes - 1,)


def _last_two(_layer: Any, axes: int) -> tuple[int, ...]:
    return axes - 2, axes - 1


def _last_but_one(_layer: Any, axes: int) -> tuple[int, ...]:
    return (axes - 2,)


def _einsum(layer: Any, axes: int) -> tuple[int, ...]:
    """Return the axes of the kernel of an EinsumDense that are axes of its output."""
    inputs, _, output = layer.equation.partition("->")
    kernel = inputs.split(",")[1].strip()
    return tuple(axis for axis, name in zip(range(axes), kernel, strict=True) if name in output)


_RULES: tuple[tuple[tuple[str, ...], dict[str, Outs]], ...] = (
    (("Dense", "Embedding"), {"kernel": _last, "embeddings": _last, "reverse_embeddings": _last}),
    (("EinsumDense",), {"kernel": _einsum}),
    (("DepthwiseConv1D", "DepthwiseConv2D"), {"kernel": _last_two}),
    (
        ("SeparableConv1D", "SeparableConv2D"),
        {"depthwise_kernel": _last_two, "pointwise_kernel": _last},
    ),
    (
        ("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"),
        {"kernel": _last_but_one},
    ),
    (("Conv1D", "Conv2D", "Conv3D"), {"kernel": _last}),
    (
        ("LSTMCell", "GRUCell", "SimpleRNNCell"),
        {"kernel": _last, "recurrent_kernel": _last},
    ),
)
"""Classes of Keras, with the names of their kernels and the axes of those that make outputs."""


_LINEAR = tuple(
    getattr(keras.layers, name)
    for name in (
        *("Dense", "EinsumDense", "Conv1D", "Conv2D", "Conv3D"),
        *("DepthwiseConv1D", "DepthwiseConv2D"),
        *("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"),
    )
)
"""Layers that are linear in their one kernel, up to a bias and an activation."""


@functools.cache
def _rules_for(cls: type) -> dict[str, Outs]:
    if issubclass(cls, internals.ConvLSTMCell):
        return {"kernel": _last, "recurrent_kernel": _last}
    for names, rules in _RULES:
        if issubclass(cls, tuple(getattr(keras.layers, name) for name in names)):
            return rules
    return {}


def dropout_obstacle(layer: Any, kernel: Kernel) -> str | None:
    """Return why the inputs of a kernel of a layer cannot be dropped for an update alone.

    A layer is to be one that computes `activation(linear(inputs, kernel) + bias)`, so that the
    update can have inputs of its own.
    """
    owner = kernel.owner
    cls = plain_class(type(owner))
    if isinstance(owner, keras.layers.Embedding):
        return "the inputs of an Embedding are numbers of rows"
    within = layer
    for step in kernel.held.split("/") if kernel.held else ():
        if isinstance(within, (keras.layers.RNN, keras.layers.TimeDistributed)):
            return f"{type(within).__name__} calls what is inside once for every time step"
        within = internals.attribute_of(within, step)
    if not isinstance(owner, _LINEAR):
        return f"{cls.__name__} computes more than a product with its kernel"
    if not is_of_keras(cls):
        return f"what {cls.__name__} computes is not known"
    return None


def plain_class(cls: type) -> type:
    """Return the class of a layer without adapters."""
    return getattr(cls, "base_class", cls)


def kernels_of(layer: Any) -> list[Kernel]:
    """List the kernels of a built layer and of the layers inside it, each variable once."""
    return list({id(each.variable): each for each in _walk(layer, "", "")}.values())


def _walk(layer: Any, path: str, held: str) -> Iterator[Kernel]:
    rules = _rules_for(type(layer))
    for variable in internals.own_variables(layer) if rules else ():
        rule = rules.get(variable.name)
        if rule is not None:
            shape = internals.unpacked_shape(layer, variable)
            outs = rule(layer, len(shape))
            yield Kernel(path + variable.name, held, layer, variable, shape, outs)
    for name, part in internals.attribute_parts(layer).items():
        yield from _walk(part, f"{path}{part.name}/", f"{held}/{name}" if held else name)


def kernel_at(layer: Any, held: str, name: str) -> tuple[Any, Any] | None:
    """Return the layer that has a kernel, and its variable; `None` if there is none."""
    owner = layer
    for step in held.split("/") if held else ():
        owner = internals.attribute_of(owner, step)
        if not isinstance(owner, keras.Layer):
            return None
    for variable in internals.own_variables(owner):
        if variable.name == name:
            return owner, variable
    return None
