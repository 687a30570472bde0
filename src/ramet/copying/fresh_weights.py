"""Fresh weights: new values from the layers' own initializers.

Keras does not record how a variable was initialized. So a layer is re-created
from its config, and the values of the new layer are used; for a layer without a
config, `build` is run a second time.
"""

import contextlib
from collections.abc import Generator, Iterable
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.copying.deep_copy import Copier
from ramet.copying.from_config import remake
from ramet.errors import StateError


@contextlib.contextmanager
def seeded(seed: int | None) -> Generator[None]:
    """Seed all global random generators, if there is a seed, and restore them on exit."""
    with contextlib.ExitStack() as stack:
        if seed is not None:
            stack.enter_context(internals.untouched_randomness())
            stack.enter_context(internals.untouched_names())
            internals.seed_globals(int(seed))
        yield


def refresh(pairs: Iterable[tuple[Any, Any]]) -> None:
    """Give copies of layers fresh weights, seeds and metrics.

    State computed by `adapt` is kept: no initializer can produce it.

    Args:
        pairs: The layers that were copied, and their copies.

    Raises:
        StateError: If the initializer of a weight is not known.
    """
    pairs = [*pairs]
    with internals.distributed_like(v for old, _ in pairs for v in internals.layer_state(old)):
        _refresh(pairs)


def _refresh(pairs: list[tuple[Any, Any]]) -> None:
    done: set[int] = set()
    unknown: list[tuple[Any, Any]] = []
    # Models with a graph come last: they are only re-created for variables of their own.
    for old, new in sorted(pairs, key=lambda pair: internals.is_container(pair[0])):
        for variable in internals.layer_state(new):
            internals.lay_out(variable)
        for generator in internals.own_seed_generators(new):
            generator.state.assign(internals.first_state(generator))
        _restart(internals.own_metrics(new))
        variables = internals.own_variables(new)
        if internals.is_adapted(old):
            done.update(id(variable) for variable in variables)
        elif any(id(variable) not in done for variable in variables):
            values = _fresh_values(old, new)
            if values is None:
                unknown.append((old, new))
            else:
                _assign(variables, values, done)
    _refresh_inside(pairs, unknown, done)


def _refresh_inside(
    pairs: list[tuple[Any, Any]], unknown: list[tuple[Any, Any]], done: set[int]
) -> None:
    """Initialize layers that cannot be re-created, by re-creating a layer or model around them."""
    remade: dict[int, dict[int, Any]] = {}
    for old, new in unknown:
        variables = internals.own_variables(new)
        # A layer may hold a variable of another layer, which has a fresh value by now.
        waiting = [variable for variable in variables if id(variable) not in done]
        around = _layers_around(old, [source for source, _ in pairs]) if waiting else []
        for outer in around:
            if id(outer) not in remade:
                remade[id(outer)] = _remade_inside(outer)
            inner = remade[id(outer)].get(id(old))
            values = None if inner is None else _fitting(variables, internals.own_variables(inner))
            if values is not None:
                _assign(variables, values, done)
                waiting = []
                break
        if waiting:
            _raise_unknown(new, waiting[0])


def _layers_around(layer: Any, layers: list[Any]) -> list[Any]:
    """Return the layers and models that a layer is in, the smallest first."""
    inside = {id(each): [*map(id, internals.all_layers(each))] for each in layers}
    around = [each for each in layers if each is not layer and id(layer) in inside[id(each)]]
    return sorted(around, key=lambda each: len(inside[id(each)]))


def _remade_inside(outer: Any) -> dict[int, Any]:
    """Re-create a layer or model; return the layers inside, by the ids of the old ones."""
    remade = remake(outer)
    old = internals.all_layers(outer)
    new = [] if remade is None else internals.all_layers(remade)
    if [*map(type, old)] != [*map(type, new)]:
        return {}
    return {id(each): twin for each, twin in zip(old, new, strict=True)}


def refresh_training(model: Any, optimizers: Iterable[tuple[Any, Any]]) -> None:
    """Give a model's optimizers fresh slots, and reset its metrics."""
    for _, optimizer in optimizers:
        new = remake(optimizer, built=False)
        if new is not None and optimizer.built:
            new.build(internals.optimizer_targets(optimizer))
        if new is None or not _fits(optimizer.variables, new.variables):
            message = (
                f"optimizer '{optimizer.name}' ({type(optimizer).__name__}) cannot have fresh "
                "slots: it cannot be re-created from its config; write a get_config() for it, "
                "or compile the model after cloning it"
            )
            raise StateError(message)
        for variable, fresh in zip(optimizer.variables, new.variables, strict=True):
            internals.lay_out(variable, like=fresh)
        _assign(optimizer.variables, new.variables, set())
    _restart(model.metrics)


def _restart(metrics: Iterable[Any]) -> None:
    for metric in metrics:
        for variable in metric.variables:
            internals.lay_out(variable)
        metric.reset_state()


def _fresh_values(old: Any, new: Any) -> list[Any] | None:
    """Return fresh variables for those that a layer tracks itself; `None` if there are none."""
    variables = internals.own_variables(new)
    remade = remake(old)
    if remade is not None:
        values = _fitting(variables, internals.own_variables(remade))
        if values is not None:
            return values
    values = _fitting(variables, _rebuilt(old, new))
    return _fitting(variables, _constructed(old, new)) if values is None else values


_ALIKE = frozenset({"inputs", "outputs", "name", "trainable", "dtype", "autocast"})
"""Arguments of constructors that are known of every layer or model, or change no values."""


def _constructed(old: Any, new: Any) -> list[Any]:
    """Return the variables that a constructor without arguments of its own creates."""
    parameters = internals.constructor_parameters(type(old))
    if not parameters.keys() <= _ALIKE | {"activity_regularizer"}:
        return []
    tensors: dict[str, Any] = {}
    if parameters.keys() & {"inputs", "outputs"}:
        if not isinstance(old, keras.Function):
            return []
        twin = Copier("fresh").copy_whole(new)
        tensors = {"inputs": twin.inputs, "outputs": twin.outputs}
    with contextlib.suppress(Exception), internals.untouched_names():
        return internals.own_variables(type(old)(**tensors))
    return []


def _rebuilt(old: Any, new: Any) -> list[Any]:
    """Return the variables that a layer's `build` creates when it is run again."""
    shapes = internals.build_shapes(old)
    if shapes is None or internals.is_container(old):
        return []
    twin = Copier("fresh").copy_whole(new)
    for part in internals.all_layers(twin):
        internals.forget_variables(part)
    try:
        with internals.untouched_names():
            twin.build(**shapes)
    except Exception as error:
        error.add_note(f"while building layer '{old.name}' again for fresh weights")
        raise
    return internals.own_variables(twin)


def _fitting(variables: list[Any], values: list[Any]) -> list[Any] | None:
    """Return fresh variables in the order of the old ones; `None` if they do not fit.

    Quantization creates variables in another order than a layer that starts quantized. Names
    decide only then: an unnamed variable gets a new name each time it is created.
    """
    if _fits(variables, values):
        return values
    by_name = {value.name: value for value in values}
    if len(by_name) == len(values) and {variable.name for variable in variables} == by_name.keys():
        ordered = [by_name[variable.name] for variable in variables]
        if _fits(variables, ordered):
            return ordered
    return None


def _fits(variables: list[Any], values: list[Any]) -> bool:
    return len(variables) == len(values) and all(
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
        "get_config() from which the layer can be re-created, or create the variable "
        "in build(), or use weights='copy'"
    )
    raise StateError(message)
