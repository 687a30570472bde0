"""The variables that the layers of a model hold, whether Keras tracks them or not."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.backends.tensorflow import is_tensorflow_variable
from ramet.backends.torch import is_torch_module, is_torch_parameter, is_torch_tensor
from ramet.building.weights.roles import own_roles
from ramet.comparing.objects.parts import parts_of
from ramet.comparing.objects.values import is_value


def is_variable(value: Any) -> bool:
    """Whether a value is a variable of Keras or of a backend."""
    return (
        issubclass(type(value), keras.Variable)
        or is_tensorflow_variable(value)
        or (is_torch_tensor(value) and is_torch_parameter(value))
    )


def buffers_of(value: Any) -> list[Any]:
    """Return the tensors that a module of PyTorch keeps as its state besides its parameters."""
    if not is_torch_module(type(value)):
        return []
    return [each for each in vars(value).get("_buffers", {}).values() if each is not None]


def is_trained(variable: Any) -> bool:
    """Whether training changes a variable, or a parameter of PyTorch's own."""
    return getattr(variable, "trainable", None) or getattr(variable, "requires_grad", False)


def all_variables(model: Any) -> list[Any]:
    """Return the variables of a model, those that Keras does not track too, each once."""
    layers = internals.all_layers(model)
    known = [v for layer in layers for v in own_roles(layer).values()]
    return [*{id(v): v for v in (*model.variables, *known, *_reached(layers))}.values()]


def _reached(layers: list[Any]) -> Iterator[Any]:
    """Yield the variables that the attributes of layers lead to."""
    met = {id(layer) for layer in layers}
    alive: list[Any] = []
    for layer in layers:
        yield from buffers_of(layer)
        waiting = deque(internals.layer_fields(layer).values())
        while waiting:
            value = waiting.popleft()
            if is_value(value) or id(value) in met:
                continue
            met.add(id(value))
            alive.append(value)
            if is_variable(value):
                yield value
                continue
            yield from buffers_of(value)
            parts = parts_of(value)
            if parts is not None:
                items = (*(part.value for part in parts.parts), *parts.loose)
                waiting.extend(item for item in items if not is_value(item))
