"""Symbolic tensors, and the nodes (recorded calls) that made them."""

import functools
from typing import Any

import keras
import numpy as np
from keras.src.ops.node import KerasHistory, Node
from keras.src.ops.symbolic_arguments import SymbolicArguments
from keras.src.utils.tracking import TrackedList


def producer(tensor: Any) -> tuple[Any, int] | None:
    """Return the node that made a symbolic tensor, and the index of the tensor among its outputs.

    `None` for a tensor that no call made.
    """
    history = getattr(tensor, "_keras_history", None)
    if history is None or history.operation is None:
        return None
    node = history.operation._inbound_nodes[history.node_index]
    return node, history.tensor_index


HISTORY = "_keras_history"
"""The attribute of a symbolic tensor that says which call made it."""


NO_HISTORY = KerasHistory(None, 0, 0)
"""The history of a tensor that no call made."""


def new_history(operation: Any, place: int, index: int) -> Any:
    """Return the history of a tensor: which call made it, and which output it is.

    Bypasses the constructor, which is written in Python and takes four times as long.
    """
    return tuple.__new__(KerasHistory, (operation, place, index))


def add_call(operation: Any, node: Any) -> int:
    """Add a node to the calls of an operation, and return its position."""
    nodes = operation._inbound_nodes
    _append(nodes, node)
    return len(nodes) - 1


def add_uses(node: Any) -> None:
    """Add a node to the uses of every operation whose outputs it reads."""
    for tensor in node.arguments.keras_tensors:
        operation = tensor._keras_history.operation
        if operation is not None:
            _append(operation._outbound_nodes, node)


def _append(nodes: Any, node: Any) -> None:
    """Append a node to a list without reporting it to a tracker."""
    if type(nodes) is not TrackedList and hasattr(nodes, "_storage"):
        nodes.append(node)  # TensorFlow wraps the list, and counts its changes.
    else:
        list.append(nodes, node)


def _plain(nodes: Any) -> Any:
    """Return the plain list inside one that TensorFlow wraps."""
    return getattr(nodes, "_storage", nodes)


def has_several_calls(operation: Any) -> bool:
    """Whether an operation has several calls, or several uses."""
    return len(operation._inbound_nodes) > 1 or len(operation._outbound_nodes) > 1


def order_uses(source: Any, twin: Any, copies: dict[int, Any]) -> None:
    """Sort the uses of the copy of an operation into the source's order, if all were copied."""
    ordered = [copies[id(node)] for node in source._outbound_nodes if id(node) in copies]
    uses = _plain(twin._outbound_nodes)
    if {id(node) for node in uses} == {id(node) for node in ordered}:
        list.__setitem__(uses, slice(None), ordered)


def operation_options(operation: Any) -> dict[str, Any]:
    """Return the options that an operation was created with, such as its axis."""
    ignored = {"name", "_inbound_nodes", "_outbound_nodes", "_auto_config", "_lock", "_remat_mode"}
    return {name: value for name, value in vars(operation).items() if name not in ignored}


def equal_constants(first: Any, second: Any) -> bool:
    """Whether two constants in call arguments are the same."""
    if first is second:
        return True
    if isinstance(first, keras.Variable) or type(first) is not type(second):
        return False
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(equal_constants, first, second))
    return bool(np.array_equal(first, second))


def maker(tensor: Any) -> Any:
    """Return the operation that made a symbolic tensor."""
    return tensor._keras_history.operation


def node_index(node: Any) -> int:
    """Return the position of a node among the calls of its operation. In O(1) time."""
    return node.outputs[0]._keras_history.node_index


def original(tensor: Any) -> Any:
    """Return the output of a node that a symbolic tensor is, or is a copy of."""
    source = producer(tensor)
    return tensor if source is None else source[0].outputs[source[1]]


def same_spec(first: Any, second: Any) -> bool:
    """Whether two symbolic tensors agree in shape and dtype, and in being sparse or ragged."""
    return (
        tuple(first.shape) == tuple(second.shape)
        and first.dtype == second.dtype
        and bool(first.sparse) == bool(second.sparse)
        and ragged_spec(first) == ragged_spec(second)
    )


def new_tensor(**spec: Any) -> Any:
    """Create a symbolic tensor without a history and without touching name counters."""
    return keras.KerasTensor(**spec)


def ragged_spec(tensor: Any) -> dict[str, Any]:
    """Return what is special about a ragged symbolic tensor; nothing for any other."""
    if not getattr(tensor, "_ragged", False):
        return {}
    return {
        "ragged": True,
        "ragged_rank": getattr(tensor, "_ragged_rank", None),
        "row_splits_dtype": getattr(tensor, "_row_splits_dtype", None),
    }


def new_node(operation: Any, args: Any, kwargs: Any, outputs: list[Any]) -> Any:
    """Record a call without running it, and wire it to operations and tensors."""
    tensor = args[0] if len(args) == 1 and not kwargs else None
    if type(tensor) is keras.KerasTensor and hasattr(tensor, HISTORY) and _is_known_node():
        return _node_on_one(operation, tensor, outputs)
    return Node(operation, call_args=args, call_kwargs=kwargs, outputs=outputs)


def _node_on_one(operation: Any, tensor: Any, outputs: list[Any]) -> Any:
    """Record a call on one tensor.

    Bypasses the constructors, which walk the arguments as nested structures, in Python on PyTorch.
    """
    node, arguments = object.__new__(Node), object.__new__(SymbolicArguments)
    fields = {"args": (tensor,), "kwargs": {}, "keras_tensors": [tensor]}
    fields |= {"_flat_arguments": [tensor], "_single_positional_tensor": tensor}
    vars(arguments).update(fields)
    vars(node).update(operation=operation, arguments=arguments, outputs=outputs, is_input=False)
    place = add_call(operation, node)
    add_uses(node)
    if tensor.record_history:
        for index, output in enumerate(outputs):
            output._keras_history = new_history(operation, place, index)
    return node


@functools.cache
def _is_known_node() -> bool:
    """Whether this Keras's own nodes have the fields that `_node_on_one` sets, and no others."""
    tensor, output = (keras.KerasTensor((1,), name=name) for name in ("tensor", "output"))
    node = Node(keras.layers.Identity(name="node"), (tensor,), {}, [output])
    shortcut = _node_on_one(node.operation, tensor, [output])
    return all(
        vars(first).keys() == vars(second).keys()
        and all(type(item) is type(vars(second)[name]) for name, item in vars(first).items())
        for first, second in ((node, shortcut), (node.arguments, shortcut.arguments))
    )


def order_nodes(operation: Any, rank: dict[int, int]) -> None:
    """Sort the calls of an operation by the given rank of each node's id."""
    nodes = operation._inbound_nodes
    ordered = sorted(nodes, key=lambda node: rank.get(id(node), len(rank)))
    if all(old is new for old, new in zip(nodes, ordered, strict=True)):
        return
    list.__setitem__(_plain(nodes), slice(None), ordered)
    for index, node in enumerate(ordered):
        for position, tensor in enumerate(node.outputs):
            tensor._keras_history = KerasHistory(operation, index, position)


def count_calls(operation: Any) -> tuple[int, int]:
    """Count the calls of an operation, and the calls that use it."""
    return len(operation._inbound_nodes), len(operation._outbound_nodes)


def forget_calls(operation: Any, calls: int, uses: int) -> None:
    """Remove all but the first `calls` calls and `uses` uses of an operation."""
    for nodes, kept in ((operation._inbound_nodes, calls), (operation._outbound_nodes, uses)):
        del _plain(nodes)[kept:]


def lend_calls(operation: Any, copy: Any) -> None:
    """Add the calls of the source to a copy that is only read, for its `input` and `output`."""
    list.extend(_plain(copy._inbound_nodes), operation._inbound_nodes)


def calls_of(operation: Any) -> list[Any]:
    """Return the nodes of an operation, in the order in which it was called."""
    return operation._inbound_nodes


def is_input(tensor: Any) -> bool:
    """Whether a symbolic tensor was made by `keras.Input`."""
    source = producer(tensor)
    return source is not None and isinstance(source[0].operation, keras.layers.InputLayer)
