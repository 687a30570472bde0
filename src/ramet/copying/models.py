"""Copies of whole models and layers."""

import contextlib
from collections import Counter
from collections.abc import Generator
from typing import Any

import keras

from ramet import backends
from ramet import keras_internals as internals
from ramet.backends.values import written
from ramet.copying.deep_copy import Copier
from ramet.copying.fresh_weights import refresh, refresh_training, seeded
from ramet.errors import RametError, StateError
from ramet.tracing.failures import explained
from ramet.tracing.options import check_has_values


def copy_model(model: Any, *, weights: str, seed: int | None, name: str | None) -> Any:
    """Copy a model, with its graph if it has one. The options have been checked.

    Raises:
        StateError: If there are no weights to copy or share yet, or the model is being trained.
    """
    check_has_values(model, weights)
    copier = Copier(weights)
    with explained(model), seeded(seed):
        with _untrained_meanwhile(model):
            twin = copier.copy_whole(model)
        if weights == "fresh":
            refresh(_pairs(model, twin))
            refresh_training(twin, copier.state.optimizers)
        elif backends.current().has_modules:
            _copy_gradients(model, twin)
    if name is not None:
        vars(twin)["name"] = name
    return twin


def _copy_gradients(model: Any, twin: Any) -> None:
    """Copy gradients that Keras forgets to clear: of variables that share a path with another.

    No others are looked at, since another thread may be computing them.
    """
    pairs = [*zip(model.variables, twin.variables, strict=False)]
    paths = Counter(old.path for old, _ in pairs)
    alike = [pair for pair in pairs if paths[pair[0].path] > 1]
    if alike:
        values = [tuple(map(internals.raw_value, pair)) for pair in alike]
        backends.current().copy_gradients(model, values)


@contextlib.contextmanager
def _untrained_meanwhile(model: Any) -> Generator[None]:
    """Check that no other thread trains a model: its copy would be of several steps.

    Raises:
        StateError: If one does.
    """
    variables = internals.trained_variables(model)
    values = [*map(internals.raw_value, variables)]  # alive, so that their ids stay theirs
    before = [*map(written, values)]

    def is_written() -> bool:
        return before != [written(internals.raw_value(variable)) for variable in variables]

    if None in before:  # JAX takes the values out of the variables during an epoch
        raise _being_trained(model)
    try:
        yield
    except RametError:
        raise
    except Exception as error:
        if is_written():
            raise _being_trained(model) from error
        raise
    if is_written():
        raise _being_trained(model)


def _being_trained(model: Any) -> StateError:
    return StateError(
        f"model '{model.name}' is being trained, so that a copy of it would mix several steps; "
        "clone it before or after, or in a callback at the end of an epoch"
    )


def copy_layer(layer: Any) -> Any:
    """Copy a layer or model, with its values."""
    with explained(layer):
        return Copier("copy").copy_whole(layer)


def copy_fresh(layer: Any) -> Any:
    """Copy a layer with fresh weights."""
    with explained(layer):
        twin = Copier("fresh").copy_whole(layer)
        if isinstance(layer, keras.Layer):
            refresh(_pairs(layer, twin))
    return twin


def _pairs(source: Any, twin: Any) -> list[tuple[Any, Any]]:
    """Return a layer or model and all layers inside it, with their copies."""
    return [*zip(internals.all_layers(source), internals.all_layers(twin), strict=True)]
