"""Symbolic tensors, the calls that make them, and the graphs they form."""

import contextlib
import inspect
from collections.abc import Generator, Iterator
from typing import Any

import keras
import numpy as np
from keras.src.backend.common.masking import get_keras_mask
from keras.src.ops.node import KerasHistory, Node
from keras.src.utils.tracking import TrackedList


def producer(tensor: Any) -> tuple[Any, int] | None:
    """Returns the node that made a symbolic tensor and which output it is."""
    history = getattr(tensor, "_keras_history", None)
    if history is None or history.operation is None:
        return None
    node = history.operation._inbound_nodes[history.node_index]
    return node, history.tensor_index


HISTORY = "_keras_history"
"""Where a symbolic tensor knows which call made it."""

NO_HISTORY = KerasHistory(None, 0, 0)
"""The history of a tensor that no call made."""


def new_history(operation: Any, place: int, index: int) -> Any:
    """Makes what a tensor knows of the call that made it.

    Past the constructor, which is written in Python and takes four times as long.
    """
    return tuple.__new__(KerasHistory, (operation, place, index))


def add_call(operation: Any, node: Any) -> int:
    """Adds a node to the calls of an operation, and returns its position."""
    nodes = operation._inbound_nodes
    _append(nodes, node)
    return len(nodes) - 1


def add_uses(node: Any) -> None:
    """Adds a node to the uses of every operation whose tensors it takes."""
    for tensor in node.arguments.keras_tensors:
        operation = tensor._keras_history.operation
        if operation is not None:
            _append(operation._outbound_nodes, node)


def _append(nodes: Any, node: Any) -> None:
    """Adds a node to a list, past the tracker that the list may report to."""
    if type(nodes) is not TrackedList and hasattr(nodes, "_storage"):
        nodes.append(node)  # TensorFlow wraps the list, and counts its changes.
    else:
        list.append(nodes, node)


def _plain(nodes: Any) -> Any:
    """Returns the plain list inside of one that TensorFlow wraps."""
    return getattr(nodes, "_storage", nodes)


def has_several_calls(operation: Any) -> bool:
    """Tells whether an operation is called, or used, more than once."""
    return len(operation._inbound_nodes) > 1 or len(operation._outbound_nodes) > 1


def order_uses(source: Any, made: Any, copies: dict[int, Any]) -> None:
    """Puts the uses of the copy of an operation into the source's order, if it has all."""
    uses = [copies[id(node)] for node in source._outbound_nodes if id(node) in copies]
    found = _plain(made._outbound_nodes)
    if {id(node) for node in found} == {id(node) for node in uses}:
        list.__setitem__(found, slice(None), uses)


def is_context_default(operation: Any, name: str, value: Any) -> bool:
    """Tells whether an argument that Keras hands on has the default of `call`."""
    if name not in getattr(operation, "_call_context_args", ("training",)):
        return False
    signature = getattr(operation, "_call_signature", None)
    known = None if signature is None else signature.parameters.get(name)
    return known is not None and known.default is value


def operation_options(operation: Any) -> dict[str, Any]:
    """Returns what an operation was made with, such as its axis."""
    ignored = {"name", "_inbound_nodes", "_outbound_nodes", "_auto_config", "_lock", "_remat_mode"}
    return {name: value for name, value in vars(operation).items() if name not in ignored}


def equal_constants(first: Any, second: Any) -> bool:
    """Tells whether two constants in call arguments are the same."""
    if first is second:
        return True
    if isinstance(first, keras.Variable) or type(first) is not type(second):
        return False
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(equal_constants, first, second))
    return bool(np.array_equal(first, second))


def maker(tensor: Any) -> Any:
    """Returns the operation that made a symbolic tensor."""
    return tensor._keras_history.operation


def node_index(node: Any) -> int:
    """Returns the position of a node among the calls of its operation. In O(1) time."""
    return node.outputs[0]._keras_history.node_index


def accepts(operation: Any, argument: str) -> bool:
    """Tells whether a layer's `call` has a keyword argument."""
    signature = getattr(operation, "_call_signature", None)
    return signature is not None and argument in signature.parameters


def context_arguments(operation: Any) -> frozenset[str]:
    """Names the arguments of a layer that Keras hands on from outer calls: `training`."""
    names = getattr(operation, "_call_context_args", ())
    return frozenset(name for name in names if accepts(operation, name))


def named_arguments(operation: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Returns arguments of a call by their names, without those that have their defaults.

    Arguments that do not fit the signature are numbered.
    """
    signature = getattr(operation, "_call_signature", None) or inspect.signature(operation.call)
    try:
        found = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return {**{str(place): value for place, value in enumerate(args)}, **kwargs}
    known = signature.parameters
    return {name: value for name, value in found.items() if value is not known[name].default}


@contextlib.contextmanager
def noted_arguments() -> Generator[dict[int, list[str]]]:
    """Notes, for layers that are made meanwhile, which constructor arguments were written.

    By the ids of the layers. Keras itself notes arguments with their defaults filled in.
    """
    notes: dict[int, list[str]] = {}
    plain = keras.Operation.__new__

    def noting(cls: type, *args: Any, **kwargs: Any) -> Any:
        made = plain(cls, *args, **kwargs)
        names = inspect.getfullargspec(cls.__init__).args[1:]
        notes[id(made)] = [*names[: len(args)], *kwargs]
        return made

    keras.Operation.__new__ = noting
    try:
        yield notes
    finally:
        keras.Operation.__new__ = plain


def original(tensor: Any) -> Any:
    """Returns the output of a node that a symbolic tensor is, or is a copy of."""
    made = producer(tensor)
    return tensor if made is None else made[0].outputs[made[1]]


def same_spec(first: Any, second: Any) -> bool:
    """Tells whether two symbolic tensors have the same shape, dtype and kind."""
    return (
        tuple(first.shape) == tuple(second.shape)
        and first.dtype == second.dtype
        and bool(first.sparse) == bool(second.sparse)
        and ragged_spec(first) == ragged_spec(second)
    )


def masked_arguments(operation: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yields, for a call, the name of each mask argument, what it masks, and the mask.

    A mask is what is passed or, if nothing is, what Keras will fill in.
    """
    signature = getattr(operation, "_call_signature", None)
    if signature is None:
        return
    try:
        bound = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return  # The call itself will say so better.
    first = next(iter(bound.values()), None)
    for name in signature.parameters:
        if name != "mask" and not name.endswith("_mask"):
            continue
        data = first if name == "mask" else bound.get(name.removesuffix("_mask"))
        given = bound.get(name)
        masks = given if given is not None else keras.tree.map_structure(get_keras_mask, data)
        pairs = [keras.tree.flatten(tree) for tree in (data, masks)]
        if len(pairs[0]) == len(pairs[1]):
            yield from ((name, tensor, mask) for tensor, mask in zip(*pairs, strict=True))


def fillable_masks(node: Any) -> set[str]:
    """Names the mask arguments that Keras fills in for such a call.

    That is `mask` for a layer that is called on one argument with tensors, and else
    `<argument>_mask` for each. Those that say what the masks of others are do not count.
    """
    signature = getattr(node.operation, "_call_signature", None)
    if signature is None:
        return set()
    try:
        bound = signature.bind(*node.arguments.args, **node.arguments.kwargs).arguments
    except TypeError:
        return {"mask"}
    tensors = [
        name
        for name, value in bound.items()
        if name != "mask" and not name.endswith("_mask") and _has_tensors(value)
    ]
    if len(tensors) == 1:
        return {"mask"}
    return {f"{name}_mask" for name in tensors}


def implied_masks(operation: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """Returns the mask arguments that Keras would fill in for a call.

    Keras records some of them in the graph; those of a layer that takes several
    tensors it finds on the tensors when the graph runs.
    """
    signature = getattr(operation, "_call_signature", None)
    if signature is None:
        return {}
    bound = signature.bind(*args, **kwargs).arguments
    tensors = {name: value for name, value in bound.items() if _has_tensors(value)}
    found: dict[str, Any] = {}
    for name, value in tensors.items():
        mask_name = "mask" if len(tensors) == 1 else f"{name}_mask"
        masks = keras.tree.map_structure(get_keras_mask, value)
        free = mask_name in signature.parameters and bound.get(mask_name) is None
        if free and any(mask is not None for mask in keras.tree.flatten(masks)):
            found[mask_name] = masks
    if isinstance(operation, keras.layers.MultiHeadAttention) and "query_mask" in found:
        # Keras takes that one off the tensor only, whatever is passed.
        rows = keras.ops.expand_dims(found["query_mask"], -1)
        given = bound.get("attention_mask")
        found["attention_mask"] = rows if given is None else keras.ops.logical_and(rows, given)
    return found


def _has_tensors(value: Any) -> bool:
    flat = keras.tree.flatten(value)
    return bool(flat) and all(isinstance(leaf, keras.KerasTensor) for leaf in flat)


def new_tensor(**spec: Any) -> Any:
    """Makes a symbolic tensor without a history and without touching name counters."""
    return keras.KerasTensor(**spec)


def ragged_spec(tensor: Any) -> dict[str, Any]:
    """Returns what a ragged symbolic tensor has beyond shape and dtype."""
    if not getattr(tensor, "_ragged", False):
        return {}
    return {
        "ragged": True,
        "ragged_rank": getattr(tensor, "_ragged_rank", None),
        "row_splits_dtype": getattr(tensor, "_row_splits_dtype", None),
    }


def new_node(operation: Any, args: Any, kwargs: Any, outputs: list[Any]) -> Any:
    """Records a call without running it; wires it to operations and tensors."""
    return Node(operation, call_args=args, call_kwargs=kwargs, outputs=outputs)


def order_nodes(operation: Any, rank: dict[int, int]) -> None:
    """Sorts the calls of an operation by the given rank of each node's id."""
    nodes = operation._inbound_nodes
    ordered = sorted(nodes, key=lambda node: rank.get(id(node), len(rank)))
    if all(old is new for old, new in zip(nodes, ordered, strict=True)):
        return
    list.__setitem__(_plain(nodes), slice(None), ordered)
    for index, node in enumerate(ordered):
        for position, tensor in enumerate(node.outputs):
            tensor._keras_history = KerasHistory(operation, index, position)


def count_calls(operation: Any) -> tuple[int, int]:
    """Counts the calls of an operation, and the calls that use it."""
    return len(operation._inbound_nodes), len(operation._outbound_nodes)


def forget_calls(operation: Any, calls: int, uses: int) -> None:
    """Forgets all but the first calls of an operation, and uses of it."""
    for nodes, kept in ((operation._inbound_nodes, calls), (operation._outbound_nodes, uses)):
        del _plain(nodes)[kept:]


def lend_calls(operation: Any, copy: Any) -> None:
    """Lets a copy that is only looked at know the calls of the source: `input`, `output`."""
    list.extend(_plain(copy._inbound_nodes), operation._inbound_nodes)


def calls_of(operation: Any) -> list[Any]:
    """Returns the nodes of an operation, in the order in which it was called."""
    return operation._inbound_nodes


def is_input(tensor: Any) -> bool:
    """Tells whether a symbolic tensor was made by `keras.Input`."""
    made = producer(tensor)
    return made is not None and isinstance(made[0].operation, keras.layers.InputLayer)
