"""The weights of quantized layers, computed from floats by Keras's own quantizers."""

import functools
from collections.abc import Mapping
from typing import Any

from keras import layers

from ramet import keras_internals as internals
from ramet.adapt.quantizing.convolutions import INT8_CLASSES, rounded
from ramet.adapt.quantizing.modes import KERNELS
from ramet.backends.values import to_numpy
from ramet.building.weights.roles import roles_of
from ramet.graph import Layer
from ramet.graph.values import Array, Computed, Recipe, Role, Variable
from ramet.tracing.configs import raw_config

_LEFT_OUT = {
    "activation": None,
    "use_bias": False,
    "bias_axes": None,
    "kernel_initializer": "zeros",
    "embeddings_initializer": "zeros",
    "kernel_regularizer": None,
    "embeddings_regularizer": None,
    "activity_regularizer": None,
}
"""What a layer that only tries a kernel does without."""


def recipe_for(layer: Layer, mode: str, policy: Any, held: Role = ()) -> Recipe:
    """Return how the weights of a quantized layer are computed from those before it.

    In float8, the weights stay floats, and the scales of Keras start afresh.

    Args:
        layer: The record before the edit.
        mode: `"int8"`, `"int4"` or `"float8"`.
        policy: The dtype policy of the quantized layer.
        held: The attribute of the layer that holds the one that is quantized, if it is inside.
    """
    if mode == "float8":
        return {}
    live = part_of(layer, held)
    cls, roles = type(live), roles_of(live)
    names = tuple(name for name in KERNELS[cls] if (name,) in roles)
    known = tuple(Variable(layer, (*held, name)) for name in names)
    if cls in INT8_CLASSES:
        whole = Computed(_rounded, known, {"axes": INT8_CLASSES[cls].scale_axes})
    else:
        whole = Computed(quantized_weights, known, {"trial": Trial.of(layer, held), "mode": mode})
    grouped = getattr(policy, "block_size", -1) not in (None, -1)
    endings = ("", "_scale", "_zero") if grouped else ("", "_scale")
    parts = [f"{name}{ending}" for name in names for ending in endings]
    parts += ["g_idx"] if grouped else []
    return {(*held, part): Computed(_part, (whole,), {"name": part}) for part in parts}


def part_of(layer: Layer, held: Role) -> Any:
    """Return the live layer in a record, or the one that an attribute of it holds."""
    return functools.reduce(getattr, held, layer.origin)


class Trial:
    """A layer of one class with a kernel and nothing else, to try what becomes of the kernel."""

    def __init__(self, cls: type, config: Mapping[str, Any], shape: tuple[Any, ...]) -> None:
        """Say which class, with which config, built for which shape."""
        self.cls, self.config, self.shape = cls, config, shape

    @classmethod
    def of(cls, layer: Layer, held: Role = ()) -> "Trial":
        """Return a trial of the layer in a record, or of one inside it; see `recipe_for`."""
        live = part_of(layer, held)
        config = {**raw_config(live), **({} if held else layer.changes or {})}
        config = {key: _LEFT_OUT.get(key, value) for key, value in config.items()}
        shapes = internals.build_shapes(live) or {}
        return cls(type(live), config, tuple(shapes.get("input_shape") or ()))

    def __eq__(self, other: object) -> bool:
        """Whether another trial is of the same layer."""
        return (
            isinstance(other, Trial)
            and vars(self).keys() == vars(other).keys()
            and all(
                value is vars(other)[key] or value == vars(other)[key]
                for key, value in vars(self).items()
            )
        )

    def __hash__(self) -> int:
        """Return the hash of the class."""
        return hash(self.cls)

    def made(self, arrays: Mapping[str, Array], policy: Any = None, shape: Any = None) -> Any:
        """Return a layer with some weights.

        Args:
            arrays: The weights, by name.
            policy: Its dtype policy, if it is not that of the layer that is tried.
            shape: The shape of its inputs; by default, one that fits the first of the weights.
        """
        config = {**self.config, **({} if policy is None else {"dtype": policy})}
        with internals.untouched_names(), internals.untouched_randomness():
            layer = self.cls.from_config(config)
            layer.build(shape or self.fitting(next(iter(arrays.values())).shape))
        held = roles_of(layer)
        for name, array in arrays.items():
            held[name,].assign(array)
        return layer

    def fitting(self, kernel: tuple[int, ...]) -> tuple[Any, ...]:
        """Return the shape of inputs for which a layer has such a kernel."""
        if issubclass(self.cls, layers.Dense):
            return (None, kernel[0])
        if not issubclass(self.cls, layers.EinsumDense) or "..." in self.config["equation"]:
            return self.shape
        reads, _, kernels = self.config["equation"].partition("->")[0].partition(",")
        sizes = dict(zip(kernels, kernel, strict=True))
        return tuple(
            sizes.get(letter, size) for letter, size in zip(reads, self.shape, strict=True)
        )


def quantized_weights(*kernels: Array, trial: Trial, mode: str) -> Any:
    """Return the weights of a layer that Keras quantizes, by name.

    Args:
        *kernels: The kernels, as floats.
        trial: The layer.
        mode: `"int8"` or `"int4"`.
    """
    names = (name for name in KERNELS[trial.cls])
    layer = trial.made(dict(zip(names, kernels, strict=False)))
    with internals.quick_collections():
        layer.quantize(mode)
    return {role[-1]: to_numpy(variable) for role, variable in roles_of(layer).items()}


def _rounded(kernel: Array, *, axes: tuple[int, ...]) -> Any:
    return rounded(kernel, axes)


def _part(weights: Any, *, name: str) -> Array:
    return weights[name]
