"""A source that was written, run once: what its model has otherwise than the one it is of."""

from collections.abc import Iterator, Mapping
from typing import Any

import keras

from ramet.bridge import compare, internals
from ramet.errors import SourceError
from ramet.graph.names import is_automatic

_TRAINING = (
    *(f" has {name} " for name in ("loss", "optimizer", "history", "steps_per_execution")),
    " has compiled ",
    " was compiled ",
)
"""What tells how a model was compiled and trained, which no source tells."""


_LOADING = (" has is_awq_calibrated ", " has is_gptq_calibrated ")
"""What Keras sets on the layers of a model that it loads from a file."""


def differences(source: str, parameters: Mapping[str, Any], model: Any) -> list[str]:
    """Runs a source and lists what its model has otherwise, in words.

    Raises:
        SourceError: If the source does not run, or weights of the model have no place in
            what it makes.
    """
    names: dict[str, Any] = {}
    try:
        with internals.untouched_names(), internals.untouched_randomness():
            exec(source, names)  # noqa: S102 it was just written from the model
            made = names["build_model"](**parameters)
    except Exception as error:
        message = (
            f"model '{model.name}' cannot be written as source: what was written fails with "
            f"{type(error).__name__}: {internals.reason_of(internals.unwrapped(error))}"
        )
        raise SourceError(message) from error
    _check_weights(model, made)
    _bring_over(model, made)
    found = [*compare.structure(model, made), *compare.sharing(model, made)]
    ignored = {*_counted_names(model, made)}
    return [
        one
        for one in found
        if not any(word in one for word in (*_TRAINING, *_LOADING))
        and not any(one.startswith(f"layer '{name}' has ") for name in ignored)
    ]


def _bring_over(model: Any, made: Any) -> None:
    """Gives a model the values of another: attributes may be variables, or made of them."""
    for old, new in zip(model.variables, made.variables, strict=False):
        if tuple(old.shape) == tuple(new.shape):
            new.assign(old)
    for layer in internals.all_layers(made):
        if isinstance(layer, keras.layers.Normalization) and layer.built:
            layer.finalize_state()


def _check_weights(model: Any, made: Any) -> None:
    shapes = [[(tuple(v.shape), v.dtype) for v in one.weights] for one in (model, made)]
    if shapes[0] == shapes[1]:
        return
    pairs = zip(model.layers, made.layers, strict=False)
    differ = (
        old.name
        for old, new in pairs
        if [tuple(v.shape) for v in old.weights] != [tuple(v.shape) for v in new.weights]
    )
    layer = next(differ, None)
    where = f"model '{model.name}'" if layer is None else f"layer '{layer}'"
    message = (
        f"{where} has other weights than one that is made anew, so no source can make it; "
        "copy the model with ramet.clone"
    )
    raise SourceError(message)


def _counted_names(model: Any, made: Any) -> Iterator[str]:
    """Yields the layers inside of layers that Keras named by counting: nobody chose that."""
    pairs = zip(internals.all_layers(model), internals.all_layers(made), strict=False)
    for old, new in pairs:
        if old.name != new.name and is_automatic(old.name, type(old).__name__):
            yield old.name
