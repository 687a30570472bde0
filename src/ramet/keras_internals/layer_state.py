"""The state of a layer: variables, seed generators, metrics, and what its calls leave behind."""

import random
from typing import Any

import keras
import numpy as np

from ramet.keras_internals.fields import VARIABLE_VALUE
from ramet.keras_internals.tracking import all_layers


def set_own_flag(model: Any, *, trainable: bool) -> None:
    """Set the `trainable` flag of a model itself, but not those of its layers."""
    model._trainable = trainable


def own_variables(layer: Any) -> list[Any]:
    """Return the variables that a layer tracks itself, without those of its sublayers."""
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def held_variables(layer: Any) -> list[Any]:
    """Return the variables that a layer tracks itself or holds as attributes, each once."""
    attributes = (each for each in vars(layer).values() if isinstance(each, keras.Variable))
    return [*{id(each): each for each in (*own_variables(layer), *attributes)}.values()]


def values_from_last(root: Any) -> list[Any]:
    """Return the backend values of all variables in a model, those of the last layers first."""
    layers = all_layers(root) if isinstance(root, keras.Layer) else []
    return [
        vars(variable).get(VARIABLE_VALUE)
        for layer in reversed(layers)
        for variable in own_variables(layer)
    ]


def own_trainable(layer: Any) -> list[Any]:
    """Return the trainable variables that a layer tracks itself."""
    return list(layer._trainable_variables)


def layer_state(layer: Any) -> list[Any]:
    """Return the variables that a layer tracks itself, including those of seed generators."""
    return own_variables(layer) + [seed.state for seed in own_seed_generators(layer)]


def own_seed_generators(layer: Any) -> list[Any]:
    """Return the seed generators that a layer tracks itself."""
    return list(layer._seed_generators)


def own_metrics(layer: Any) -> list[Any]:
    """Return the metrics that a layer tracks itself."""
    return list(layer._metrics)


def first_state(generator: Any) -> np.ndarray:
    """Return the initial state of a seed generator, with a new random seed if it has none."""
    seed = generator._initial_seed
    if seed is None:
        seed = random.randint(1, int(1e9))  # noqa: S311 what Keras draws from, not a secret
    return np.array([seed, 0]).astype(generator.state.dtype)


def is_adapted(layer: Any) -> bool:
    """Whether the state of a layer is computed from data by `adapt`, not trained."""
    return hasattr(layer, "adapt") and not layer._trainable_variables


def may_create_weights(layer: Any) -> bool:
    """Whether a layer is not built yet, and its class overrides `build`."""
    return not layer.built and not getattr(layer.build, "_is_default", False)


def reset_initializer(initializer: Any) -> None:
    """Draw a new seed for an initializer that was created without one."""
    if initializer._init_seed is None:
        initializer.seed = random.randint(1, int(1e9))  # noqa: S311 what Keras draws from, not a secret


def build_shapes(layer: Any) -> dict[str, Any] | None:
    """Return the arguments that a layer's `build` was called with, or `None`."""
    return layer._build_shapes_dict


def forget_variables(layer: Any) -> None:
    """Reset a built layer to unbuilt, so that `build` can re-create its weights."""
    tracker = layer._tracker
    tracker.unlock()
    for variable in own_variables(layer):
        tracker.untrack(variable)
    layer.built = False
