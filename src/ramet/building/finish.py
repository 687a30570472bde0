"""The last steps for a model whose graph is more than a copy: checks, names, compilation."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from ramet import backends
from ramet import keras_internals as internals
from ramet.building.weights.slots import Heir, carry_slots
from ramet.copying.handlers import Uncopyable
from ramet.errors import CopyError, GraphError, OptionError


def check_function(model: Any, remedy: str) -> None:
    """Check what Keras's constructor would check: unique names, and no foreign inputs.

    Args:
        model: The new model.
        remedy: What to do about two layers of one name.

    Raises:
        GraphError: If something is wrong.
    """
    function: Any = internals.functional_of(model)
    operations = function.operations
    for name, count in Counter(operation.name for operation in operations).items():
        if count > 1:
            message = (
                f"the new '{model.name}' has {count} layers named '{name}', so it could "
                f"not be saved; {remedy}"
            )
            raise GraphError(message)
    for name in internals.foreign_inputs(function):
        message = (
            f"the new '{model.name}' depends on input '{name}', which is not one of its "
            "own; let call_function compute from the arguments that are passed to it"
        )
        raise GraphError(message)


def name_uniquely(model: Any, kept: set[int]) -> None:
    """Give operations that Keras created for masks unique names.

    Args:
        model: The new model.
        kept: Ids of the operations whose names stay.
    """
    function: Any = internals.functional_of(model)
    operations = function.operations
    taken = {operation.name for operation in operations if id(operation) in kept}
    for operation in operations:
        if id(operation) not in kept:
            base, number = operation.name, 0
            name = base
            while name in taken:
                number += 1
                name = f"{base}_{number}"
            vars(operation)["name"] = name
            taken.add(name)


def check_layer_name(layer: Any, name: str) -> None:
    """Check that the backend accepts a layer of that name.

    Raises:
        OptionError: If it does not.
    """
    reason = backends.current().why_not_named(name)
    if reason is None:
        return
    paths = [variable.path.split("/") for variable in getattr(layer, "variables", ())]
    if any(layer.name in steps for steps in paths):
        raise OptionError(f"layer '{layer.name}' cannot be called '{name}': {reason}")


_BY_OUTPUT = ("loss", "metrics", "weighted_metrics", "loss_weights")
"""Arguments of `compile` that may be dicts by the names of outputs."""


def _with_new_names(arguments: dict[str, Any], model: Any, twin: Any) -> dict[str, Any]:
    """Return the arguments with losses and metrics under the new names of outputs."""
    old: Any = internals.functional_of(model)
    new: Any = internals.functional_of(twin)
    if isinstance(new.output, dict):
        return arguments  # They go by the keys of the dict.
    names = dict(zip(old.output_names, new.output_names, strict=True))
    return {
        key: {names.get(name, name): item for name, item in value.items()}
        if key in _BY_OUTPUT and isinstance(value, dict)
        else value
        for key, value in arguments.items()
    }


NOT_COMPILED = "none: the source is not compiled"
"""What a report says of the optimizer of a model that has none."""


def compile_alike(
    model: Any, twin: Any, copied: Callable[[Any], Any], heirs: Mapping[int, Heir] | None = None
) -> str:
    """Compile a new model like the old one.

    Args:
        model: The old model.
        twin: The new one.
        copied: Copies a loss, metric or other argument, as the new model was copied.
        heirs: The new variables that have the values of old ones, by the ids of those: their
            optimizer slots are carried over. `None` lets the optimizer start without slots.

    Returns:
        What became of the optimizer, in words.
    """
    internals.reset_compile(twin)
    arguments = internals.compile_arguments(model)
    if arguments is None:
        how = "none: compile() is the model's own, so the new one is not compiled"
        return how if model.compiled else NOT_COMPILED
    arguments = _with_new_names(arguments, model, twin)
    optimizer = arguments["optimizer"]
    try:
        new = {k: copied(v) for k, v in arguments.items() if k != "optimizer"}
    except Uncopyable as problem:
        message = (
            f"what model '{model.name}' was compiled with cannot be copied: it holds a "
            f"{problem.class_name}; compile the new model yourself, from an uncompiled one"
        )
        raise CopyError(message) from problem
    if isinstance(optimizer, internals.BaseOptimizer):
        optimizer = type(optimizer).from_config(internals.live_config(optimizer))
    twin.compile(optimizer=optimizer, **new)
    for metric in twin.metrics:
        metric.reset_state()
    if not isinstance(model.optimizer, internals.BaseOptimizer):
        return NOT_COMPILED
    if heirs is None:
        return f"{type(model.optimizer).__name__.lower()}: starts over"
    return carry_slots(model.optimizer, twin.optimizer, heirs, twin.trainable_variables)
