"""`use`: switch between the adapters of a model, add them up, or turn them off."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from ramet import keras_internals as internals
from ramet._arguments import check_number, shown
from ramet.adapt.adapting.steps import switch
from ramet.adapt.adapting.taken import check_adapter_name, check_known
from ramet.errors import OptionError
from ramet.layers import Adapted
from ramet.tracing.options import check_model


def use(model: Any, adapters: str | Iterable[str] | Mapping[str, float] | None) -> None:
    """Switch the adapters of a model in place: choose one, add several up, or turn them off.

    Adapters in use train; the others do not. The model stays compiled. If this changes which
    variables train, its optimizer starts over, since it only knows those that it was built for.

    Args:
        model: A model with adapters. It is changed.
        adapters: A name; several names, whose adapters are added up; a dict of names and
            weights; or `None` for the model without adapters.

    Raises:
        GraphError: If the model has no adapter of that name.
        ModelError: If the argument is not a model.
        OptionError: If `adapters` is of another type.

    Examples:
        >>> french = ramet.adapt.lora(model, "head", rank=2, name="fr")
        >>> both = ramet.adapt.lora(french, "head", rank=2, name="de").build()
        >>> ramet.adapt.use(both, "fr")
        >>> ramet.adapt.use(both, {"fr": 0.5, "de": 0.5})
    """
    check_model(model)
    weights = weights_of(adapters)
    layers = [layer for layer in internals.all_layers(model) if isinstance(layer, Adapted)]
    known = dict.fromkeys(entry.name for layer in layers for entry in layer.adapters.entries)
    check_known(f"model '{model.name}'", [*known], [*weights])
    before = [id(variable) for variable in model.trainable_variables]
    for layer in layers:
        switch(layer, weights)
    if before != [id(variable) for variable in model.trainable_variables]:
        _start_over(model)


def weights_of(adapters: Any) -> dict[str, float]:
    """Return the weights of the adapters that a user names.

    Raises:
        OptionError: If they are not names, or not finite numbers.
    """
    if adapters is None:
        return {}
    if isinstance(adapters, str):
        adapters = [adapters]
    if isinstance(adapters, Mapping):
        weights = dict(cast("Mapping[Any, Any]", adapters))
    elif isinstance(adapters, (list, tuple, set, frozenset)):
        names = [*cast("Iterable[Any]", adapters)]
        for name in names:
            check_adapter_name(name)
        weights = dict.fromkeys(names, 1.0)
    else:
        message = (
            f"adapters are named by a name, a list or a dict with weights, got {shown(adapters)}"
        )
        raise OptionError(message)
    for name, weight in weights.items():
        check_adapter_name(name)
        check_number(weight, f"the weight of adapter '{name}'")
    return {name: float(weight) for name, weight in weights.items()}


def _start_over(model: Any) -> None:
    """Compile a model again, with a new optimizer like the one that it has."""
    arguments = internals.compile_arguments(model)
    if not model.compiled or arguments is None:
        return
    optimizer = arguments.pop("optimizer")
    if isinstance(optimizer, internals.BaseOptimizer):
        optimizer = type(optimizer).from_config(internals.live_config(optimizer))
    internals.reset_compile(model)
    model.compile(optimizer=optimizer, **arguments)
