"""Fresh weights: new values from the layers' own initializers.

Keras does not remember how a variable was initialized. So a layer is made a
second time, from its config, and the values of that one are taken; a layer
without a config runs its `build` a second time.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ramet.bridge import internals
from ramet.bridge.remake import remake
from ramet.errors import StateError


def refresh(pairs: Iterable[tuple[Any, Any]], duplicate: Callable[[Any], Any]) -> None:
    """Gives structural copies of layers fresh weights, seeds and metrics.

    What `adapt` computed from data is kept: no initializer makes it.

    Args:
        pairs: The layers that were copied, and their copies.
        duplicate: Makes another structural copy of a layer.

    Raises:
        StateError: If a weight's initializer cannot be known.
    """
    pairs = [*pairs]
    with internals.distributed_like(v for old, _ in pairs for v in internals.layer_state(old)):
        _refresh(pairs, duplicate)


def _refresh(pairs: list[tuple[Any, Any]], duplicate: Callable[[Any], Any]) -> None:
    done: set[int] = set()
    unknown: list[tuple[Any, Any]] = []
    for old, new in pairs:
        for variable in internals.layer_state(new):
            internals.lay_out(variable)
        for generator in internals.own_seed_generators(new):
            generator.state.assign(internals.first_state(generator))
        _restart(internals.own_metrics(new))
        variables = internals.own_variables(new)
        if internals.is_adapted(old):
            done.update(id(variable) for variable in variables)
        elif any(id(variable) not in done for variable in variables):
            values = _fresh_values(old, new, duplicate)
            if _fits(variables, values):
                _assign(variables, values, done)
            else:
                unknown += [(new, variable) for variable in variables]
    # A layer may hold a variable that another one made, and made anew.
    for layer, variable in unknown:
        if id(variable) not in done:
            _raise_unknown(layer, variable)


def refresh_training(model: Any, optimizers: Iterable[tuple[Any, Any]]) -> None:
    """Gives a model's optimizers fresh slots, and starts its metrics anew."""
    for _, optimizer in optimizers:
        new = remake(optimizer, built=False)
        if new is not None and optimizer.built:
            new.build(internals.optimizer_targets(optimizer))
        if new is None or not _fits(optimizer.variables, new.variables):
            message = (
                f"optimizer '{optimizer.name}' ({type(optimizer).__name__}) cannot start "
                "anew: it cannot be made from its config; write a get_config() for it, "
                "or compile the model after cloning it"
            )
            raise StateError(message)
        for old, made in zip(optimizer.variables, new.variables, strict=True):
            internals.lay_out(old, like=made)
        _assign(optimizer.variables, new.variables, set())
    _restart(model.metrics)


def _restart(metrics: Iterable[Any]) -> None:
    for metric in metrics:
        for variable in metric.variables:
            internals.lay_out(variable)
        metric.reset_state()


def _fresh_values(old: Any, new: Any, duplicate: Callable[[Any], Any]) -> list[Any]:
    """Returns what a layer's own variables hold when they are made again."""
    remade = None if internals.is_container(old) else remake(old)
    if remade is not None:
        values = internals.own_variables(remade)
        if _fits(internals.own_variables(new), values):
            return values
    return _rebuilt(old, new, duplicate)


def _rebuilt(old: Any, new: Any, duplicate: Callable[[Any], Any]) -> list[Any]:
    """Returns the variables that a layer's `build` makes when it is run again."""
    shapes = internals.build_shapes(old)
    if shapes is None or internals.is_container(old):
        return []
    twin = duplicate(new)
    for part in internals.all_layers(twin):
        internals.forget_variables(part)
    try:
        with internals.untouched_names():
            twin.build(**shapes)
    except Exception as error:
        error.add_note(f"while building layer '{old.name}' again for fresh weights")
        raise
    return internals.own_variables(twin)


def _fits(variables: list[Any], values: list[Any]) -> bool:
    return len(variables) == len(values) and all(
        # Not by name: an unnamed variable gets a new one each time it is made.
        tuple(old.shape) == tuple(new.shape) and old.dtype == new.dtype
        for old, new in zip(variables, values, strict=True)
    )


def _assign(variables: list[Any], values: list[Any], done: set[int]) -> None:
    for variable, value in zip(variables, values, strict=True):
        if id(variable) not in done:
            variable.assign(value)
            done.add(id(variable))


def _raise_unknown(layer: Any, variable: Any) -> None:
    message = (
        f"layer '{layer.name}' ({type(layer).__name__}) cannot have fresh weights: how "
        f"its variable '{variable.path}' is initialized is not known; write a "
        "get_config() from which the layer can be made again, or create the variable "
        "in build(); weights='copy' works as it is"
    )
    raise StateError(message)
