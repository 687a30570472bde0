"""A model with some channels masked by hand: their values set to zero in the weights."""

from collections.abc import Iterable, Mapping
from typing import Any

import keras
import numpy as np

import ramet
from ramet.building.weights.roles import roles_of
from ramet.results import Groups


def layer_at(model: Any, path: str) -> Any:
    """Return the layer of a path such as `encoder/dense`."""
    for name in path.split("/"):
        (model,) = (layer for layer in model.layers if layer.name == name)
    return model


def masked(model: Any, groups: Groups, removed: Mapping[str, Iterable[int]]) -> Any:
    """Return a copy in which what makes or carries some channels is zero."""
    twin = ramet.clone(model)
    for name, numbers in removed.items():
        for member in groups[name].members:
            if member.kind == "read":
                continue
            layer = layer_at(twin, member.layer)
            variables = {".".join(role): v for role, v in roles_of(layer).items()}
            values = keras.ops.convert_to_numpy(variables[member.variable]).copy()
            at = [index for number in numbers for index in member.indices[number]]
            np.moveaxis(values, member.axis, 0)[at] = 0
            variables[member.variable].assign(values)
    return twin


def scattered(model: Any, scale: float = 0.4, seed: int = 0, *, kernels: bool = True) -> Any:
    """Give the weights of a model other values, biases and statistics too; signals stay small.

    Args:
        model: The model.
        scale: How large the values are.
        seed: The seed of the values.
        kernels: Whether kernels get other values, too.
    """
    numbers = np.random.default_rng(seed)
    for variable in model.weights:
        if "seed" not in variable.path and (kernels or len(variable.shape) == 1):
            values = numbers.normal(0, scale, variable.shape)
            values = np.abs(values) + 0.5 if "variance" in variable.path else values
            variable.assign(values + 0.6 if "gamma" in variable.path else values)
    return model


def samples(model: Any, seed: int = 1) -> Any:
    """Return numbers that fit the inputs of a model."""
    numbers = np.random.default_rng(seed)
    arrays: list[Any] = []
    for tensor in model.inputs:
        shape = [2, *(5 if size is None else size for size in tensor.shape[1:])]
        whole = "int" in tensor.dtype
        values = numbers.integers(0, 5, shape) if whole else numbers.normal(size=shape)
        arrays.append(values.astype(tensor.dtype))
    return arrays if len(arrays) > 1 else arrays[0]


def apart(first: Any, second: Any, data: Any) -> float:
    """Return how far the outputs of two models are apart, relative to their size."""
    pairs = zip(*(keras.tree.flatten(model(data)) for model in (first, second)), strict=True)
    arrays = [[keras.ops.convert_to_numpy(each) for each in pair] for pair in pairs]
    return max(float(np.abs(a - b).max() / (1 + np.abs(b).max())) for a, b in arrays)
