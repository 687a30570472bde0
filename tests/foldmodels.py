"""Models for the tests of folding, with weights as if they had been trained."""

from typing import Any

import keras
import numpy as np
from keras import layers

Norm = layers.BatchNormalization


def trained(model: keras.Model, seed: int = 0) -> keras.Model:
    """Give a model random weights and statistics, none of them 0 or 1."""
    rng = np.random.default_rng(seed)
    for layer in model._flatten_layers():
        for variable in layer._trainable_variables + layer._non_trainable_variables:
            shape = tuple(variable.shape)
            name = variable.path.rpartition("/")[2]
            if "variance" in name or name == "gamma":
                value = rng.uniform(0.5, 1.5, shape)
            elif len(shape) > 1:
                value = rng.normal(size=shape) / np.sqrt(max(1, np.prod(shape[:-1])))
            else:
                value = rng.normal(0, 0.3, shape)
            if "int" not in variable.dtype and "seed" not in name:
                variable.assign(value)
        if hasattr(layer, "finalize_state"):
            layer.finalize_state()
    return model


def data(model: keras.Model, batch: int = 2) -> list[np.ndarray]:
    """Return inputs for a model."""
    rng = np.random.default_rng(1)
    return [
        rng.integers(0, 4, (batch, *tensor.shape[1:]))
        if "int" in tensor.dtype
        else rng.normal(size=(batch, *(size or 5 for size in tensor.shape[1:]))).astype("float32")
        for tensor in model.inputs
    ]


def difference(first: keras.Model, second: keras.Model) -> dict[str, float]:
    """Return how far each output of two models differs, relative to the largest value."""
    inputs = data(first)
    found = [
        each(inputs if len(inputs) > 1 else inputs[0], training=False) for each in (first, second)
    ]
    named = [each if isinstance(each, dict) else {"": each} for each in found]
    assert named[0].keys() == named[1].keys()
    differences = {}
    for name in named[0]:
        a, b = (np.asarray(keras.ops.convert_to_numpy(each[name]), "float64") for each in named)
        differences[name] = float(np.abs(a - b).max() / np.abs(a).max())
    return differences


def branches(
    inputs: dict[str, tuple[int, ...]], made: dict[str, tuple[str, list[Any]]]
) -> keras.Model:
    """Return a model with a branch of layers for each output; each starts at one of the inputs."""
    starts = {name: keras.Input(shape, name=name) for name, shape in inputs.items()}
    outputs = {}
    for name, (start, chain) in made.items():
        x = starts[start]
        for each in chain:
            x = each(x)
        outputs[name] = x
    used = {start for start, _ in made.values()}
    return trained(
        keras.Model([tensor for name, tensor in starts.items() if name in used], outputs)
    )
