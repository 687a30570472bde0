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
    DEEPCOPY,
    KEPT,
    MEMCPY,
    RESNET,
    SAVE_LOAD,
    SET_WEIGHTS,
    SHARE,
    TORCH_DEEPCOPY,
)

EXACT = (CLONE, KEPT, SET_WEIGHTS, DEEPCOPY, SAVE_LOAD)
"""The ways that copy the weights of the source, into new arrays."""

MEASURES = (CLONE, ARRAYS, MEMCPY)
"""The ways that others are compared with."""


def ways(model: Any, name: str) -> dict[str, Callable[[], Any]]:
    """List the ways to copy a model; its name says whether it has a peer in plain torch."""
    sources = [np.ones(weight.shape, weight.dtype) for weight in model.weights]
    kept: list[Any] = []
    by_name: dict[str, Callable[[], Any]] = {
        CLONE: lambda: ramet.clone(model),
        SHARE: lambda: ramet.clone(model, weights="share"),
        KEPT: lambda: clone_and_keep(model, kept),
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
        by_name[TORCH_DEEPCOPY] = lambda: copy.deepcopy(plain)
    return by_name


def clone_and_keep(model: Any, kept: list[Any]) -> Any:
    """Clone a model into fresh memory: earlier copies are kept."""
    twin = ramet.clone(model)
    kept.append(twin)
    return twin


def clone_and_set_weights(model: Any) -> Any:
    """Copy a model the usual way."""
    twin = keras.models.clone_model(model)
    twin.set_weights(model.get_weights())
    return twin


def save_and_load(model: Any) -> Any:
    """Copy a model through a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        model.save(path)
        return keras.models.load_model(path)


def copy_arrays(values: list[Any]) -> list[Any]:
    """Copy arrays, and nothing else, by the fastest means of their backend."""
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
    """Raise an error if a way did not copy the weights that it should have.

    Raises:
        ValueError: If a weight differs.
    """
    if way not in EXACT:
        return
    for ours, theirs in zip(model.weights, result.weights, strict=True):
        pair = (keras.ops.convert_to_numpy(weight) for weight in (ours, theirs))
        if not np.array_equal(*pair):
            raise ValueError(f"{way}: weight '{theirs.path}' is not that of the source")
