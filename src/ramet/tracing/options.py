"""Checks of the model and the options that `clone`, `build` and `trace` are called with."""

from typing import Any

import keras

from ramet import keras_internals as internals
from ramet._arguments import attribute, check_index, check_name, check_word, shown
from ramet._words import WEIGHTS
from ramet.errors import ModelError, OptionError, StateError


def check_model(model: Any) -> None:
    """Check that a value is a Keras model, and warn once if ramet was not tested with this Keras.

    Raises:
        ModelError: If it is not.
    """
    internals.warn_if_untested()
    if isinstance(model, type) and issubclass(model, keras.Layer):
        message = (
            f"expected a Keras model, got the class {model.__name__}; "
            f"pass an instance of it, such as {model.__name__}(...)"
        )
        raise ModelError(message)
    if not isinstance(model, keras.Model):
        hint = (
            "; wrap the layer in a model, such as keras.Sequential([layer])"
            if isinstance(model, keras.Layer)
            else "; pass an instance of keras.Model"
        )
        message = f"expected a Keras model, got {shown(model)}{hint}"
        raise ModelError(message)
    if not is_constructed(model):
        raise ModelError(unconstructed(model))


def is_constructed(layer: Any) -> bool:
    """Whether the constructor of Keras has run for a layer."""
    return attribute(layer, "name") is not None


def unconstructed(layer: Any) -> str:
    """Return a message about a layer whose constructor has not run."""
    kind = type(layer).__name__
    return f"the {kind} was created without its constructor; create it by calling {kind}(...)"


def check_options(weights: Any, seed: Any, name: Any) -> None:
    """Check the options that `build` and `clone` have in common.

    Raises:
        OptionError: If one has an invalid value.
    """
    check_word(weights, "weights", WEIGHTS)
    if seed is not None and weights != "fresh":
        message = (
            f"seed={shown(seed)} has no effect with weights='{weights}', where nothing is "
            "drawn at random; leave it out, or pass weights='fresh'"
        )
        raise OptionError(message)
    if seed is not None:
        check_index(seed, "seed")
    if name is not None:
        check_name(name, "name")


def check_has_values(model: Any, weights: str) -> None:
    """Check that a model has weights to copy or share.

    Raises:
        StateError: If it has not been built and has no weights yet.
    """
    if weights == "fresh" or model.built or model.weights:
        return
    layers = internals.all_layers(model)
    waiting = any(internals.may_create_weights(layer) for layer in layers[1:])
    if waiting or len(layers) == 1:
        message = (
            f"model '{model.name}' has not been built, so there are no weights to "
            f"{weights} yet; build it or call it on data first, or pass "
            "weights='fresh'"
        )
        raise StateError(message)
