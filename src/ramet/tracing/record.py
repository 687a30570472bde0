"""Records of the live layers and inputs that a user passes to an edit."""

from typing import Any, cast

import keras

from ramet import keras_internals as internals
from ramet.errors import OptionError
from ramet.graph import Call, Layer
from ramet.tracing.options import is_constructed, unconstructed
from ramet.tracing.origin import LiveCall
from ramet.tracing.specs import spec_of
from ramet.tracing.trace import record_operation


def record_layer(layer: Any, where: str) -> Layer:
    """Return the record of a live layer, with its graph if it is a model with one.

    Args:
        layer: The layer.
        where: What it is for, in error messages.

    Raises:
        OptionError: If it is not a layer.
    """
    if isinstance(layer, type) and issubclass(layer, keras.Operation):
        message = f"{where} must be a layer, got the class {layer.__name__}; pass an instance of it"
        raise OptionError(message)
    if not isinstance(layer, keras.Operation) or isinstance(layer, keras.layers.InputLayer):
        message = f"{where} must be a Keras layer, got {_shown(layer)}"
        raise OptionError(message)
    if not is_constructed(layer):
        raise OptionError(f"{where}: {unconstructed(layer)}")
    return record_operation(layer, {})


def record_input(tensor: Any) -> tuple[Layer, Call]:
    """Return the records of a new symbolic input: its layer, and the call of it.

    Raises:
        OptionError: If it is not a symbolic input.
    """
    if not isinstance(tensor, keras.KerasTensor) or not internals.is_input(tensor):
        message = f"an input must be made by keras.Input(...), got {_shown(tensor)}"
        raise OptionError(message)
    node, _ = cast("tuple[Any, int]", internals.producer(tensor))
    name = node.operation.name
    origin = LiveCall(node, tuple(node.outputs))
    specs = tuple(spec_of(tensor) for tensor in node.outputs)
    return record_operation(node.operation, {}), Call(name, name, (), {}, specs, origin=origin)


def _shown(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
