"""The last steps for a model whose graph is not just a copy: checks, names, compile."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.copier import Copier
from ramet.bridge.plain import Uncopyable
from ramet.bridge.slots import carry_slots
from ramet.errors import CopyError, GraphError, OptionError


def check_function(model: Any, remedy: str) -> None:
    """Checks what Keras's constructor would: unique names, and no foreign inputs.

    Raises:
        GraphError: If something is wrong; `remedy` tells what to do about names.
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
            "own; let call_function compute from the arguments that it is given"
        )
        raise GraphError(message)


def name_apart(model: Any, kept: set[int]) -> None:
    """Gives operations that Keras made for masks names that are not taken.

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
    """Checks that the backend can have a layer of that name.

    Raises:
        OptionError: If it cannot.
    """
    if keras.backend.backend() != "torch" or "." not in name:
        return
    paths = [variable.path.split("/") for variable in getattr(layer, "variables", ())]
    if any(layer.name in steps for steps in paths):
        message = (
            f"layer '{layer.name}' cannot be called '{name}': PyTorch holds no weights under a "
            "name with a dot; choose a name without"
        )
        raise OptionError(message)


_BY_OUTPUT = ("loss", "metrics", "weighted_metrics", "loss_weights")
"""What `compile` takes by the names of outputs."""


def _with_new_names(arguments: dict[str, Any], model: Any, made: Any) -> dict[str, Any]:
    """Puts losses and metrics that go by the names of outputs under their new names."""
    old: Any = internals.functional_of(model)
    new: Any = internals.functional_of(made)
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
    model: Any, made: Any, copier: Copier, heirs: Mapping[int, Any] | None = None
) -> str:
    """Compiles a new model like the old one.

    Args:
        model: The old model.
        made: The new one.
        copier: Copies losses and metrics.
        heirs: The new variables that have the values of old ones, by the ids of those: what the
            optimizer remembers of them is carried over. `None` for one that starts anew.

    Returns:
        What became of the optimizer, in words.
    """
    internals.reset_compile(made)
    arguments = internals.compile_arguments(model)
    if arguments is None:
        how = "none: compile() is the model's own, so the new one is not compiled"
        return how if model.compiled else NOT_COMPILED
    arguments = _with_new_names(arguments, model, made)
    optimizer = arguments["optimizer"]
    try:
        new = {k: copier.copy(v) for k, v in arguments.items() if k != "optimizer"}
    except Uncopyable as problem:
        message = (
            f"what model '{model.name}' was compiled with cannot be copied: it holds a "
            f"{problem.kind}; compile the new model yourself, from an uncompiled one"
        )
        raise CopyError(message) from problem
    copier.drain()
    if isinstance(optimizer, internals.BaseOptimizer):
        optimizer = type(optimizer).from_config(optimizer.get_config())
    made.compile(optimizer=optimizer, **new)
    for metric in made.metrics:
        metric.reset_state()
    if not isinstance(model.optimizer, internals.BaseOptimizer):
        return NOT_COMPILED
    if heirs is None:
        return f"{type(model.optimizer).__name__.lower()}: starts anew"
    return carry_slots(model.optimizer, made.optimizer, heirs, made.trainable_variables)
