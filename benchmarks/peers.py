"""The ways to copy a model."""

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

import ramet
from benchmarks.results import (
    ARRAYS,
    CLONE,
    CLONE_MODEL,
    CLONES,
    DEEPCOPY,
    MEMCPY,
    RESNET,
    SAVE_LOAD,
    SET_WEIGHTS,
    SHARE,
    TORCH_DEEPCOPY,
)

EXACT = (CLONE, CLONES, SET_WEIGHTS, DEEPCOPY, SAVE_LOAD)
"""The ways that give the weights of the source, in arrays of their own."""

MEASURES = (CLONE, ARRAYS, MEMCPY)
"""The ways by which others are measured."""


def ways(model: Any, name: str) -> dict[str, Callable[[], Any]]:
    """Lists the ways to copy a model; its name says whether it has a peer in plain torch."""
    sources = [np.ones(weight.shape, weight.dtype) for weight in model.weights]
    found: dict[str, Callable[[], Any]] = {
        CLONE: lambda: ramet.clone(model),
        SHARE: lambda: ramet.clone(model, weights="share"),
        CLONES: lambda: ramet.clones(model, 10),
        CLONE_MODEL: lambda: keras.models.clone_model(model),
        SET_WEIGHTS: lambda: clone_and_set_weights(model),
        DEEPCOPY: lambda: copy.deepcopy(model),
        SAVE_LOAD: lambda: save_and_load(model),
        ARRAYS: lambda: copy_arrays([weight.value for weight in model.weights]),
        MEMCPY: lambda: [source.copy() for source in sources],
    }
    if name == RESNET and keras.backend.backend() == "torch":
        from benchmarks.plain_resnet import ResNet50

        plain = ResNet50()
        found[TORCH_DEEPCOPY] = lambda: copy.deepcopy(plain)
    return found


def clone_and_set_weights(model: Any) -> Any:
    """Copies a model the usual way."""
    twin = keras.models.clone_model(model)
    twin.set_weights(model.get_weights())
    return twin


def save_and_load(model: Any) -> Any:
    """Copies a model by way of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        return keras.models.load_model(path)


def copy_arrays(values: list[Any]) -> list[Any]:
    """Copies arrays, and nothing else, by the quickest means that their backend has."""
    match keras.backend.backend():
        case "jax":
            import jax

            return jax.device_put(values, may_alias=False)
        case "tensorflow":
            import tensorflow as tf

            return [tf.raw_ops.DeepCopy(x=value) for value in values]
        case _:
            return [value.detach().clone() for value in values]


def check_weights(model: Any, way: str, result: Any) -> None:
    """Raises an error if a way did not copy the weights that it should.

    Raises:
        ValueError: If a weight differs.
    """
    if way not in EXACT:
        return
    twin = result[-1] if way == CLONES else result
    for ours, theirs in zip(model.weights, twin.weights, strict=True):
        pair = (keras.ops.convert_to_numpy(weight) for weight in (ours, theirs))
        if not np.array_equal(*pair):
            raise ValueError(f"{way}: weight '{theirs.path}' is not that of the source")
