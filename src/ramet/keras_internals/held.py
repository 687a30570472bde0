"""What the attributes of a layer hold, whether Keras tracks it or not."""

import contextlib
import types
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

import keras
import numpy as np

from ramet import backends
from ramet.backends.tensorflow import is_record, is_tensorflow_variable, replace_items
from ramet.backends.torch import hooks_of, is_torch_module, is_torch_tensor, is_writable_torch
from ramet.keras_internals.fields import (
    COMPILED_FIELDS,
    LAYER_RECORDS,
    LOADING_FIELDS,
    LOOP_FIELDS,
    MODEL_RECORDS,
    STATEFUL,
    VARIABLE_VALUE,
    WRAPPERS,
    live_attributes,
)
from ramet.keras_internals.tracking import all_layers

_DEPTH = 8
"""How deep containers and objects of the user's own are looked into."""


def held_items(layer: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a layer holds, by attribute: `dense`, `blocks.0`, `helper.scale`.

    Containers and objects of user code come before what is in them, each once. PyTorch's
    parameters, buffers and modules are among the attributes. Layers are not looked into.
    """
    met: set[int] = set()
    waiting = [(name, value) for name, value in _fields(layer).items() if value is not layer]
    for _ in range(_DEPTH):
        inside: list[tuple[str, Any]] = []
        for path, value in waiting:
            parts = _parts(value)
            if parts is not None:
                if id(value) in met:
                    continue
                met.add(id(value))
                inside += [(f"{path}.{_step(key)}", item) for key, item in parts]
            yield path, value
        waiting = inside


def _step(key: Any) -> str:
    return str(key) if isinstance(key, (str, int)) else type(key).__name__


def _fields(layer: Any) -> dict[str, Any]:
    """Return the attributes of a layer that are not records of Keras or a backend."""
    ignored = LAYER_RECORDS | COMPILED_FIELDS
    fields = vars(layer)
    if isinstance(layer, (keras.Model, keras.Function)):
        ignored |= MODEL_RECORDS | LOOP_FIELDS
        if isinstance(fields.get("history"), keras.callbacks.History):
            ignored |= {"history"}  # of the last `fit`
    if is_torch_module(type(layer)):
        ignored |= {"training"}
    records = (fields.get(name, {}) for name in ("_modules", "_parameters", "_buffers"))
    everything = {**fields, **{name: item for record in records for name, item in record.items()}}
    return {
        name: value
        for name, value in everything.items()
        if name not in ignored and name not in ("_torch_params", "_functional")
        if not is_record(name)
    }


CHECKED_RECORDS = frozenset(
    {"_convert_input_args", "_allow_non_tensor_positional_args", "_input_spec", "_remat_mode"}
)
"""Records of Keras in a layer that decide what it accepts and how it runs."""


BUILD_RECORDS = frozenset({"_build_input_shape", "_input_shape_arg"})
"""How a layer came to be built, which other records say in another form."""


def layer_fields(layer: Any) -> dict[str, Any]:
    """Return what a layer or operation has besides what Keras and backends record for themselves.

    Whether it trains and supports masks, and its dtype, are among them, but no variables that
    Keras tracks.
    """
    fields = {n: v for n, v in _fields(layer).items() if not _is_unset(n, v)}
    held = vars(layer)
    fields |= {name: held[name] for name in CHECKED_RECORDS & held.keys()}
    fields |= hooks_of(layer)
    for name in ("build", "quantize"):
        if name in held and id(getattr(held[name], "__code__", None)) not in WRAPPERS:
            fields[name] = held[name]
    if isinstance(layer, keras.Layer):
        fields |= {name: getattr(layer, name) for name in ("trainable", "supports_masking")}
        fields["dtype"] = layer.dtype_policy.name
        return fields
    # An operation may have noted one axis, or a list of one.
    return {name: _unwrapped(value) for name, value in fields.items()}


def _is_unset(name: str, value: Any) -> bool:
    return name in BUILD_RECORDS or (name in LOADING_FIELDS and value is False)


def _unwrapped(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        return value
    return value[0] if len(value) == 1 else tuple(value)


def _parts(value: Any) -> list[tuple[Any, Any]] | None:
    """Return what is in a container, a module or an object of user code; `None` for others."""
    if isinstance(value, dict):
        return [*value.items()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [*enumerate(value)]
    if is_torch_module(type(value)) and not isinstance(value, keras.Layer):
        return [*value.named_parameters(), *value.named_buffers()]
    return [*live_attributes(value).items()] if _is_of_user(value) else None


def _is_of_user(value: Any) -> bool:
    """Whether a value is a plain object of user code."""
    closed = *STATEFUL, type, types.ModuleType, types.FunctionType, types.MethodType
    return (
        not isinstance(value, closed)
        and hasattr(value, "__dict__")
        and backends.package_of(type(value)) not in backends.LIBRARIES
    )


def own_losses(layer: Any) -> list[Any]:
    """Return what a layer itself added to the loss, in the current stateless scope."""
    return layer._get_own_losses()


def raw_value(variable: Any) -> Any:
    """Return the backend's value inside a Keras variable."""
    return vars(variable).get(VARIABLE_VALUE)


@contextlib.contextmanager
def untouched_layers(model: Any) -> Generator[None]:
    """Restore what a call may leave behind on layers, other than Keras's variables.

    Attributes that were assigned, what was put into containers, arrays and objects that
    they hold, tensors of the backend that were written to, and losses.
    """
    layers = all_layers(model)
    attributes = [(layer, dict(vars(layer))) for layer in layers]
    losses = [(layer._losses, list(layer._losses)) for layer in layers]
    ids = [(layer._loss_ids, set(layer._loss_ids)) for layer in layers]
    held = {id(value): value for layer in layers for _, value in held_items(layer)}
    undo = [step for value in held.values() if (step := _restoring(value)) is not None]
    try:
        yield
    finally:
        for layer, saved in attributes:
            vars(layer).clear()
            vars(layer).update(saved)
        for kept, items in losses:
            kept[:] = items
        for kept, items in ids:
            kept.clear()
            kept.update(items)
        for step in undo:
            step()


def _restoring(value: Any) -> Callable[[], Any] | None:
    """Return what restores a value that a call may change in place; `None` for any other."""
    if isinstance(value, (list, dict, set)):
        return partial(_refill, value, _plain(value))
    if is_torch_tensor(value):
        if not is_writable_torch(value):
            return None
        return partial(value.data.copy_, value.detach().clone())
    if is_tensorflow_variable(value):
        return partial(value.assign, value.numpy())
    if is_torch_module(type(value)) or _is_of_user(value):
        return partial(_refill, vars(value), dict(vars(value)))
    is_array = isinstance(value, np.ndarray) and value.flags.writeable
    return partial(np.copyto, value, value.copy()) if is_array else None


def _plain(value: Any) -> Any:
    """Return a copy of a container as one of Python's own."""
    return next(cls for cls in (list, dict, set) if isinstance(value, cls))(value)


def _refill(container: Any, items: Any) -> None:
    """Put back what was in a container, if something else is in it now."""
    if _identities(container) == _identities(items):
        return
    if isinstance(container, list):
        container[:] = items
    else:
        replace_items(container, items)


def _identities(container: Any) -> Any:
    if isinstance(container, dict):
        return [(id(key), id(item)) for key, item in container.items()]
    identities = map(id, container)
    return [*identities] if isinstance(container, list) else {*identities}
