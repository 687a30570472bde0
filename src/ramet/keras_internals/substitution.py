"""Variables that are read as other values for a while, and state that is added to a built layer."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
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
