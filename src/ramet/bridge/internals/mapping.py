"""The graph of a `keras.Function`: where it begins and ends, and which calls lie between."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from typing import Any

import keras
from keras.src.ops.function import make_node_key

from ramet.bridge.internals.symbolic import maker, node_index, producer


def functional_of(model: Any) -> Any | None:
    """Returns the object that holds a model's graph, if it has one."""
    if isinstance(model, keras.Sequential):
        return model._functional
    if isinstance(model, keras.Function):
        return model
    return None


def key_nodes(function: Any) -> None:
    """Lets a `keras.Function` know its nodes by keys, which are made of ids."""
    fields = vars(function)
    fields["_nodes"] = {
        make_node_key(node.operation, node_index(node))
        for nodes in fields["_nodes_by_depth"].values()
        for node in nodes
    }


def graph_with(node: Any, operations: list[Any]) -> Any | None:
    """Returns the one of some models and layers that has a node in its graph."""
    for function in operations:
        if isinstance(function, keras.Function) and any(
            node in nodes for nodes in function._nodes_by_depth.values()
        ):
            return function
    return None


def nodes_inside(function: Any, operation: Any) -> list[Any]:
    """Returns the calls of an operation in the graph of a `keras.Function`."""
    return [
        node
        for node in operation._inbound_nodes
        if make_node_key(operation, node_index(node)) in function._nodes
    ]


def starts_inside(function: Any) -> list[Any]:
    """Returns the inputs of a `keras.Function` that are made by calls of others."""
    nodes = ((tensor, producer(tensor)) for tensor in function._inputs)
    return [tensor for tensor, made in nodes if made is not None and not made[0].is_input]


def structures_of(function: Any) -> tuple[Any, Any]:
    """Returns the inputs and outputs of a `keras.Function`, as the author gave them."""
    return function._inputs_struct, function._outputs_struct


def flat_inputs(function: Any) -> list[Any]:
    """Returns the symbolic inputs of a `keras.Function`, in Keras's flat order."""
    return function._inputs


def set_structures(function: Any, inputs: Any, outputs: Any) -> None:
    """Gives a `keras.Function` its symbolic inputs and outputs."""
    fields = vars(function)
    fields["_inputs_struct"], fields["_outputs_struct"] = inputs, outputs
    fields["_inputs"] = keras.tree.flatten(inputs)
    fields["_outputs"] = keras.tree.flatten(outputs)


def nodes_as_run(function: Any) -> list[Any]:
    """Lists the calls of a `keras.Function` in the order in which Keras makes them.

    The order counts where calls draw from one seed generator or update one state.
    """
    depths = sorted(function._nodes_by_depth.items(), reverse=True)
    return [
        node
        for _, nodes in depths
        for node in nodes
        if node.operation is not None and not node.is_input
    ]


Operate = Callable[[Any], Callable[..., Any]]
"""From an operation to what is called for it: Keras fills in `training` there."""

Runner = Callable[[Any, list[Any], Operate], tuple[Any, ...] | None]
"""Makes the calls of a `keras.Function`, given it, its flat inputs, and `Operate`.

Returns the flat outputs, or `None` to let Keras make the calls.
"""


@contextlib.contextmanager
def run_by(functions: list[Any], runner: Runner) -> Generator[None]:
    """Lets `runner` make the calls whenever Keras runs one of some `keras.Function`s.

    Everything around the calls stays with Keras: how inputs are converted, which masks
    they carry, what `training` is, and what the outputs are packed into.
    """

    def patched(function: Any) -> Callable[..., Any]:
        original = function._run_through_graph

        def run(inputs: Any, operation_fn: Operate = _itself, **options: Any) -> Any:
            flat = keras.tree.flatten(inputs)
            symbolic = any(isinstance(value, keras.KerasTensor) for value in flat)
            outputs = None if options or symbolic else runner(function, flat, operation_fn)
            if outputs is None:
                return original(inputs, operation_fn, **options)
            return keras.tree.pack_sequence_as(function._outputs_struct, [*outputs])

        return run

    for function in functions:
        # Past `__setattr__`, by which layers and backends track what they are given.
        vars(function)["_run_through_graph"] = patched(function)
    try:
        yield
    finally:
        for function in functions:
            vars(function).pop("_run_through_graph", None)


def _itself(operation: Any) -> Any:
    return operation


def map_graph(function: Any) -> None:
    """Maps the graph between a `keras.Function`'s inputs and outputs.

    Does what Keras's `map_graph` does, but without recursion and without
    counting every name over all names. Costs O(calls).
    """
    fields = vars(function)
    nodes, first_seen = _walk(fields["_inputs"], fields["_outputs"])
    node_depth, operation_depth = _depths(nodes)
    keys = {make_node_key(node.operation, node_index(node)) for node in nodes}
    for tensor in fields["_inputs"]:
        made = producer(tensor)
        if made is None or made[0].operation in operation_depth:
            continue
        node = made[0]
        if node.is_input:
            operation_depth[node.operation] = node_depth[node] = 0
            first_seen[node.operation] = -1
            keys.add(make_node_key(node.operation, node_index(node)))
    fields["_nodes"] = keys
    fields["_nodes_by_depth"] = _by_depth(node_depth)
    by_depth = _by_depth(operation_depth)
    fields["_operations_by_depth"] = by_depth
    fields["_operations"] = [
        operation
        for depth in sorted(by_depth, reverse=True)
        for operation in _sorted_in_place(by_depth[depth], first_seen)
    ]
    if keras.backend.backend() == "tensorflow" and isinstance(function, keras.Layer):
        # TensorFlow's checkpoints go by a record of the attributes that were set.
        from tensorflow import __internal__

        tracked = __internal__.tracking.AutoTrackable
        tracked.__setattr__(function, "_operations", fields.pop("_operations"))


def foreign_inputs(function: Any) -> list[str]:
    """Returns the names of inputs that a graph needs and does not have."""
    nodes, _ = _walk(function._inputs, function._outputs)
    own = {id(tensor) for tensor in function._inputs}
    starts = [node for node in nodes if node.is_input]
    return [n.operation.name for n in starts if not own & {id(t) for t in n.outputs}]


def require_where_computed(function: Any) -> None:
    """Makes optional inputs that an operation computes with required.

    A layer can do without a mask, an operation cannot.
    """
    read = {
        id(tensor)
        for nodes in function._nodes_by_depth.values()
        for node in nodes
        if not isinstance(node.operation, keras.Layer)
        for tensor in node.input_tensors
    }
    for tensor in function._inputs:
        if maker(tensor).optional and id(tensor) in read:
            maker(tensor).optional = False


def _walk(inputs: list[Any], outputs: list[Any]) -> tuple[list[Any], dict[Any, int]]:
    """Lists nodes depth first from the outputs, and when each operation was met."""
    boundary = {id(tensor) for tensor in inputs}
    done: dict[Any, None] = {}
    skipped: set[Any] = set()
    first_seen: dict[Any, int] = {}
    for output in outputs:
        stack: list[tuple[Any, Iterator[Any]]] = []
        pending: Iterator[Any] = iter((output,))
        while True:
            for tensor in pending:
                made = producer(tensor)
                if made is None or made[0] in done or made[0] in skipped:
                    continue
                node = made[0]
                if not node.is_input and id(tensor) in boundary:
                    skipped.add(node)
                    continue
                first_seen.setdefault(node.operation, len(first_seen))
                stack.append((node, pending))
                pending = iter(() if node.is_input else node.input_tensors)
                break
            else:
                if not stack:
                    break
                node, pending = stack.pop()
                done[node] = None
    return list(done), first_seen


def _depths(nodes: list[Any]) -> tuple[dict[Any, int], dict[Any, int]]:
    """Returns how far nodes and operations are from the outputs."""
    node_depth: dict[Any, int] = {}
    operation_depth: dict[Any, int] = {}
    inside = set(nodes)
    for node in reversed(nodes):
        depth = max(node_depth.setdefault(node, 0), operation_depth.get(node.operation, 0))
        operation_depth[node.operation] = node_depth[node] = depth
        for parent in node.parent_nodes:
            if parent in inside:
                node_depth[parent] = max(depth + 1, node_depth.get(parent, 0))
    return node_depth, operation_depth


def _by_depth(depths: dict[Any, int]) -> dict[int, list[Any]]:
    found: defaultdict[int, list[Any]] = defaultdict(list)
    for item, depth in depths.items():
        found[depth].append(item)
    return found


def _sorted_in_place(operations: list[Any], rank: dict[Any, int]) -> list[Any]:
    operations.sort(key=rank.__getitem__)
    return operations
