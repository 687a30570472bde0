"""What `clone` and `build` are given, checked before anything is done."""

from numbers import Integral
from typing import Any, Final

import keras

from ramet.bridge import internals
from ramet.errors import ModelError, OptionError, StateError

WEIGHTS: Final = ("copy", "share", "fresh")
"""What the variables of a new model can be."""


def check_model(model: Any) -> None:
    """Checks that something is an instance of a Keras model.

    Raises:
        ModelError: If it is not; the message says what it is instead.
    """
    if isinstance(model, type) and issubclass(model, keras.Layer):
        message = (
            f"expected a Keras model, got the class {model.__name__}; "
            f"pass an instance of it, such as {model.__name__}(...)"
        )
        raise ModelError(message)
    if not isinstance(model, keras.Model):
        kind = type(model).__name__
        article = "an" if kind[0].lower() in "aeiou" else "a"
        found = "None" if model is None else f"{article} {kind}"
        hint = (
            "; wrap the layer in a model, such as keras.Sequential([layer])"
            if isinstance(model, keras.Layer)
            else "; pass an instance of keras.Model"
        )
        message = f"expected a Keras model, got {found}{hint}"
        raise ModelError(message)


def check_options(weights: Any, seed: Any, name: Any) -> None:
    """Checks the options that `build` and `clone` have in common.

    Raises:
        OptionError: If one has a value that it cannot have.
    """
    if not isinstance(weights, str) or weights not in WEIGHTS:
        from ramet.graph.names import did_you_mean

        known = ", ".join(f"'{word}'" for word in WEIGHTS)
        hint = did_you_mean(weights, WEIGHTS) if isinstance(weights, str) else ""
        message = f"unknown weights={weights!r}; expected one of {known}{hint}"
        raise OptionError(message)
    if seed is not None and weights != "fresh":
        message = (
            f"seed={seed!r} has no meaning with weights='{weights}', where nothing is "
            "drawn at random; leave it out, or ask for weights='fresh'"
        )
        raise OptionError(message)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, Integral)):
        message = f"seed must be an integer, got {seed!r}"
        raise OptionError(message)
    if name is not None and (not isinstance(name, str) or not name or "/" in name):
        message = f"name must be a string without '/', got {name!r}"
        raise OptionError(message)


def check_has_values(model: Any, weights: str) -> None:
    """Checks that a model has the values that are to be copied or shared.

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
            f"{weights} yet; build it or call it on data first, or ask for "
            "weights='fresh'"
        )
        raise StateError(message)
