"""Names of operations, which functions of `keras.ops` do not accept: a source sets them later."""

from typing import Any

import keras
from keras.src.backend.common.masking import get_keras_mask

from ramet.keras_internals.function_graphs import flat_inputs, structures_of
from ramet.keras_internals.nodes import producer

NAMER = '''\
def name_operations(inputs, outputs, names):
    """Name the operations between some tensors as in the original model.

    Keras numbers operations in order of creation, and accepts no names for them.
    """
    names, done = iter(names), {id(tensor) for tensor in inputs}
    waiting = list(outputs)
    while waiting:
        tensor = waiting.pop()
        if id(tensor) in done or not isinstance(tensor, keras.KerasTensor):
            continue
        done.add(id(tensor))
        waiting.append(getattr(tensor, "_keras_mask", None))
        operation, index, _ = tensor._keras_history
        if (id(operation), index) not in done:
            done.add((id(operation), index))
            if not isinstance(operation, keras.Layer):
                operation.name = next(names, operation.name)
            waiting += operation._inbound_nodes[index].input_tensors
'''
"""Source of the function that names operations; `operation_names` walks in the same order."""


def operation_names(function: Any) -> list[str]:
    """List the names of operations in the order in which `name_operations` meets them."""
    _, outputs = structures_of(function)
    names: list[str] = []
    done: set[Any] = {id(tensor) for tensor in flat_inputs(function)}
    waiting: list[Any] = [*dict.fromkeys(keras.tree.flatten(outputs))]
    while waiting:
        tensor = waiting.pop()
        if id(tensor) in done or not isinstance(tensor, keras.KerasTensor):
            continue
        done.add(id(tensor))
        waiting.append(get_keras_mask(tensor))
        source = producer(tensor)
        if source is None:
            continue
        node, _ = source
        if id(node) not in done:
            done.add(id(node))
            if not isinstance(node.operation, keras.Layer):
                names.append(node.operation.name)
            waiting += node.input_tensors
    return names
