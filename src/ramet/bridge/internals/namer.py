"""Names of operations, which `keras.ops` takes none for: listed here, given in a source."""

from typing import Any

import keras
from keras.src.backend.common.masking import get_keras_mask

from ramet.bridge.internals.mapping import flat_inputs, structures_of
from ramet.bridge.internals.symbolic import producer

NAMER = '''\
def name_operations(inputs, outputs, names):
    """Gives the operations between some tensors the names that they have in the model.

    Keras numbers operations as they are made, and takes no names for them.
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
"""The function of a source that names operations; `operation_names` walks alike."""


def operation_names(function: Any) -> list[str]:
    """Lists the names of operations in the order in which `name_operations` meets them."""
    _, outputs = structures_of(function)
    found: list[str] = []
    done: set[Any] = {id(tensor) for tensor in flat_inputs(function)}
    waiting: list[Any] = [*dict.fromkeys(keras.tree.flatten(outputs))]
    while waiting:
        tensor = waiting.pop()
        if id(tensor) in done or not isinstance(tensor, keras.KerasTensor):
            continue
        done.add(id(tensor))
        waiting.append(get_keras_mask(tensor))
        made = producer(tensor)
        if made is None:
            continue
        node, _ = made
        if id(node) not in done:
            done.add(id(node))
            if not isinstance(node.operation, keras.Layer):
                found.append(node.operation.name)
            waiting += node.input_tensors
    return found
