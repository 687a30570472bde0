"""Run a source once, and compare its model with the one that it was written from."""

from collections.abc import Container, Iterator, Mapping
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.comparing.contents import read
from ramet.comparing.counterparts import Pairs, pair
from ramet.comparing.state import sharing_differences
from ramet.comparing.structure import structure_differences
from ramet.errors import SourceError
from ramet.source.counting import Plan
from ramet.source.module import Module
from ramet.tracing.origin import live_of

_TRAINING = (
    *(f" has {name} " for name in ("loss", "optimizer", "history", "steps_per_execution")),
    " has compiled ",
    " was compiled ",
)
"""How a model was compiled and trained, which the source leaves out."""

_COUNTED = (" automatic name ", " automatic names ")
"""Automatic names; those that a source promises are compared here."""


def differences(module: Module, body: str, parameters: Mapping[str, Any], plan: Plan) -> list[str]:
    """Run a source in a fresh session, and list how its model differs, in words.

    Args:
        module: The writer of the source.
        body: The source.
        parameters: The arguments of `build_model`.
        plan: Which names the source leaves out. Layers that it renames may have other names;
            so may operations, unless the names are exact.

    Raises:
        SourceError: If the source does not run, or creates other weights than the model has.
    """
    model = live_of(module.graph).model
    twin = _run(body, parameters, model)
    _check_weights(model, twin)
    _copy_values(model, twin)
    pairs = pair(model, twin)
    contents = read(pairs)
    lines = [
        *_names(pairs, plan, {use.key for use in module.layers.uses}, exact=module.exact),
        *structure_differences(pairs, contents),
        *sharing_differences(pairs, contents.variables),
    ]
    ignored = (*_TRAINING, *_COUNTED)
    return [line for line in dict.fromkeys(lines) if not any(word in line for word in ignored)]


def _names(pairs: Pairs, plan: Plan, written: Container[int], *, exact: bool) -> Iterator[str]:
    """Yield the names that differ though the source promises them, including automatic ones."""
    for both in pairs.layers[1:]:
        promised = id(both.old) in written if isinstance(both.old, keras.Layer) else exact
        if both.old.name != both.new.name and promised and both.old.name not in plan.renamed:
            yield f"{both.where} has name '{both.old.name}' and '{both.new.name}'"


def _run(source: str, parameters: Mapping[str, Any], model: Any) -> Any:
    names: dict[str, Any] = {}
    try:
        with internals.fresh_names(), internals.untouched_randomness():
            exec(source, names)  # noqa: S102 the source was just written from the model
            return names["build_model"](**parameters)
    except Exception as error:
        message = (
            f"model '{model.name}' cannot be written as source: running it fails with "
            f"{type(error).__name__}: {internals.reason_of(internals.unwrapped(error))}"
        )
        raise SourceError(message) from error


def _copy_values(model: Any, twin: Any) -> None:
    """Copy the values of a model: attributes may be variables, or be computed from them."""
    for old, new in zip(model.variables, twin.variables, strict=False):
        if tuple(old.shape) == tuple(new.shape):
            new.assign(old)
    for layer in internals.all_layers(twin):
        if isinstance(layer, keras.layers.Normalization) and layer.built:
            layer.finalize_state()


def _check_weights(model: Any, twin: Any) -> None:
    shapes = [[(tuple(v.shape), v.dtype) for v in one.weights] for one in (model, twin)]
    if shapes[0] == shapes[1]:
        return
    pairs = zip(model.layers, twin.layers, strict=False)
    differ = (
        old.name
        for old, new in pairs
        if [tuple(v.shape) for v in old.weights] != [tuple(v.shape) for v in new.weights]
    )
    layer = next(differ, None)
    where = f"model '{model.name}'" if layer is None else f"layer '{layer}'"
    message = (
        f"{where} has other weights than a newly constructed one, so no source can create it; "
        "copy the model with ramet.clone"
    )
    raise SourceError(message)
