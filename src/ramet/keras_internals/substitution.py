"""Variables that are read as other values for a while, and state that is added to a built layer."""

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
from keras.src.backend.common import global_state
from keras.src.backend.common.stateless_scope import get_stateless_scope
from keras.src.backend.common.variables import AutocastScope
from keras.src.saving.serialization_lib import serialize_with_public_class

from ramet import backends
from ramet.keras_internals.tracking import attribute_of, untrack


class _ReadAs(keras.StatelessScope):
    """Variables are read as other values; whatever is assigned to others is assigned at once."""

    def add_update(self, update: Any) -> None:
        """Assign a value to a variable."""
        variable, value = update
        if id(variable) in self.state_mapping:
            super().add_update(update)
        else:
            variable._direct_assign(value)


@contextmanager
def read_as(values: Sequence[tuple[Any, Any]]) -> Generator[None]:
    """Let variables be read as other values by everything that is called meanwhile.

    Args:
        values: The variables, with tensors of their shapes. A tensor may have another dtype.
    """
    outer = get_stateless_scope()
    if outer is None:
        with _ReadAs() as scope:
            scope.state_mapping.update({id(variable): value for variable, value in values})
            yield
        return
    # What the step of a trainer maps has to stay mapped, and what it collects has to reach it.
    mapping = outer.state_mapping
    missing = object()
    before = {id(variable): mapping.get(id(variable), missing) for variable, _ in values}
    mapping.update({id(variable): value for variable, value in values})
    try:
        yield
    finally:
        for key, value in before.items():
            if value is missing:
                mapping.pop(key, None)
            else:
                mapping[key] = value


def uncast() -> Any:
    """Return a scope in which variables are read in the dtype that they have."""
    return AutocastScope(None)


def described_as(cls: type, config: dict[str, Any]) -> Any:
    """Return the description by which a file names an object of a class with some config."""
    return serialize_with_public_class(cls, config)


@contextmanager
def unlocked(layer: Any) -> Generator[None]:
    """Let state be added to a layer that is built."""
    locked = layer._tracker.locked
    layer._tracker.unlock()
    try:
        yield
    finally:
        if locked:
            layer._tracker.lock()


def hold_first(layer: Any, name: str, part: Any) -> None:
    """Have a layer hold a sublayer as an attribute, before all others that it tracks."""
    with unlocked(layer):
        setattr(layer, name, part)
    for tracked in {id(each): each for each in _tracked(layer)}.values():
        items = getattr(tracked, "_storage", tracked)  # where TensorFlow wraps a list
        items.remove(part)
        items.insert(0, part)


def release(layer: Any, name: str) -> None:
    """Have a layer hold a sublayer no more."""
    part = attribute_of(layer, name)
    with unlocked(layer):
        delattr(layer, name)
    untrack(layer, [part])
    if backends.current().has_modules:
        layer._track_variables()


def _tracked(layer: Any) -> list[Any]:
    return [layer._layers, layer._tracker.config["layers"][1]]


LORA_FACTORS = ("lora_kernel_a", "lora_kernel_b", "lora_embeddings_a", "lora_embeddings_b")
"""The attributes that hold the factors of Keras's own adapters."""


_LENDING = threading.RLock()
"""Held while a layer has factors that another thread must not see changing."""


@contextmanager
def lent_factors(pairs: Sequence[tuple[Any, Any, Any]]) -> Generator[None]:
    """Lend factors to quantized layers of Keras, which add their product to what they compute.

    Args:
        pairs: The layers, each with its two factors.
    """
    if not pairs:
        yield
        return
    with _LENDING:
        before = [dict(vars(layer)) for layer, _, _ in pairs]
        try:
            for layer, first, second in pairs:
                names = LORA_FACTORS[2:] if hasattr(layer, "input_dim") else LORA_FACTORS[:2]
                lent = {"lora_enabled": True, "lora_rank": 1, "lora_alpha": 1}
                vars(layer).update(lent, **dict(zip(names, (first, second), strict=True)))
            yield
        finally:
            for (layer, _, _), held in zip(pairs, before, strict=True):
                fields = vars(layer)
                for name in ("lora_enabled", "lora_rank", "lora_alpha", *LORA_FACTORS):
                    if name in held:
                        fields[name] = held[name]
                    else:
                        fields.pop(name, None)


_CALLS: ContextVar[dict[int, Callable[..., Any]]] = ContextVar("ramet_calls")
"""What layers compute instead of their `call`, for this thread, by their ids."""


_LENT: dict[int, int] = {}
"""How many threads have something else called in place of a layer's `call`, by the layer's id."""


@contextmanager
def called_as(calls: Sequence[tuple[Any, Callable[..., Any]]]) -> Generator[None]:
    """Let layers compute something else for whoever calls them meanwhile in this thread.

    Args:
        calls: The layers, each with what is called in place of its `call`.
    """
    if not calls:
        yield
        return
    token = _CALLS.set(_CALLS.get({}) | {id(layer): call for layer, call in calls})
    for layer, _ in calls:
        _lend_call(layer)
    try:
        yield
    finally:
        for layer, _ in calls:
            _return_call(layer)
        _CALLS.reset(token)


def _lend_call(layer: Any) -> None:
    """Give a layer a `call` of its own, which knows what each thread wants called."""

    def method(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            instead = _CALLS.get({}).get(id(layer))
            return (instead or getattr(type(layer), name).__get__(layer))(*args, **kwargs)

        return call

    with _LENDING:
        _LENT[id(layer)] = _LENT.get(id(layer), 0) + 1
        vars(layer).update({name: method(name) for name in ("call", "quantized_call")})


def _return_call(layer: Any) -> None:
    with _LENDING:
        _LENT[id(layer)] -= 1
        if not _LENT[id(layer)]:
            del _LENT[id(layer)]
            for name in ("call", "quantized_call"):
                vars(layer).pop(name, None)


def shallow(layer: Any, cls: type, **fields: Any) -> Any:
    """Return an object that shares all attributes with a layer but some. It is only called."""
    twin: Any = object.__new__(cls)
    vars(twin).update(vars(layer))
    vars(twin).update(fields)
    return twin


def with_kernel(layer: Any, cls: type, variable: Any, kernel: Any) -> Any:
    """Return an object that computes the linear part of a layer, with another kernel."""
    name = next(name for name, value in vars(layer).items() if value is variable)
    fields = {"activation": None, "bias": None, "use_bias": False, "lora_enabled": False}
    policy = keras.DTypePolicy(layer.compute_dtype)
    return shallow(layer, cls, **fields, **{name: kernel, "_dtype_policy": policy})


def is_training() -> bool:
    """Whether the call that is under way is one in training."""
    context = global_state.get_global_attribute("current_call_ctx")
    return bool(getattr(context, "training", False))


def requantize(layer: Any) -> None:
    """Quantize the kernel of a layer again, with the product of the factors that it was lent."""
    is_embedding = hasattr(layer, "input_dim")
    noun = "embeddings" if is_embedding else "kernel"
    method = (
        layer._get_embeddings_with_merged_lora
        if is_embedding
        else layer._get_kernel_with_merged_lora
    )
    values = dict(zip((f"_{noun}", f"{noun}_scale", f"{noun}_zero"), method(), strict=False))
    for name, value in values.items():
        if value is not None:
            getattr(layer, name).assign(value)


def forget_attribute(layer: Any, name: str) -> None:
    """Have a layer hold and track a variable no more."""
    layer._untrack_variable(attribute_of(layer, name))
    with unlocked(layer):
        setattr(layer, name, None)


def remove_variables(layer: Any, variables: list[Any]) -> None:
    """Have a layer track some of its variables no more."""
    for variable in variables:
        layer._untrack_variable(variable)


def set_paths(layer: Any, part: Any) -> None:
    """Give the variables of a sublayer the paths that they have inside a layer, once it has one."""
    if layer.path is not None:
        part._path = f"{layer.path}/{part.name}"
        for variable in [*part._trainable_variables, *part._non_trainable_variables]:
            variable._path = f"{part._path}/{variable.name}"
        for generator in part._seed_generators:
            generator.state._path = f"{part._path}/{generator.name}/{generator.state.name}"
