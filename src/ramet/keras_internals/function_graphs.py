"""The graph of a `keras.Function`: its inputs, its outputs, and the nodes between them."""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from typing import Any

import keras
from keras.src.models.functional import Functional
from keras.src.ops.function import make_node_key

from ramet import backends
from ramet.keras_internals.nodes import maker, node_index, producer


def set_functional(model: Any, inputs: Any, outputs: Any) -> None:
    """Set the graph of a Sequential model to the one between two symbolic tensors."""
    model._functional = Functional(inputs=inputs, outputs=outputs)
    model.built = True


def new_functional(inputs: Any, outputs: Any, name: str) -> Any:
    """Create a Functional model, also with inputs that no call uses.

    Keras refuses those before 3.14, even though it can run the model.
    """
    makers = [vars(maker(tensor)) for tensor in keras.tree.flatten(inputs)]
    unused = [(fields, fields["_outbound_nodes"]) for fields in makers]
    unused = [(fields, nodes) for fields, nodes in unused if not nodes]
    for fields, _ in unused:
        fields["_outbound_nodes"] = [None]
    try:
        return keras.Model(inputs, outputs, name=name)
    finally:
        for fields, nodes in unused:
            fields["_outbound_nodes"] = nodes


def name_outputs(function: Any) -> None:
    """Name the outputs of a model after the layers that make them."""
    names = [maker(tensor).name for tensor in function._outputs]
    if names != list(function.output_names):
        function.output_names = names


def chain_of(function: Any) -> list[Any] | None:
    """List the layers of a graph that is a chain, each called once, or return `None`.

    Arguments for masks do not count.
    """
    if not len(function._inputs) == len(function._outputs) == 1:
        return None
    layers: list[Any] = []
    tensor = function._outputs[0]
    while True:
        source = producer(tensor)
        node = None if source is None else source[0]
        if node is None or not isinstance(node.operation, keras.Layer):
            return None
        if node.operation in layers or len(node.outputs) != 1:
            return None
        layers.append(node.operation)
        if node.is_input:
            return layers[::-1] if tensor is function._inputs[0] else None
        args, kwargs = node.arguments.args, node.arguments.kwargs
        single = len(args) == 1 and isinstance(args[0], keras.KerasTensor)
        if not single or kwargs.keys() - {"mask", "training"}:
            return None
        tensor = args[0]


def functional_of(model: Any) -> Any | None:
    """Return the `keras.Function` with the graph of a model, or `None` if it has none."""
    if isinstance(model, keras.Sequential):
        return model._functional
    if isinstance(model, keras.Function):
        return model
    return None


def key_nodes(function: Any) -> None:
    """Set the node keys of a `keras.Function`, which contain ids, to those of its nodes."""
    fields = vars(function)
    fields["_nodes"] = {
        make_node_key(node.operation, node_index(node))
        for nodes in fields["_nodes_by_depth"].values()
        for node in nodes
    }


def graph_with(node: Any, operations: list[Any]) -> Any | None:
    """Return the first operation whose graph contains a node, or `None`."""
    for function in operations:
        if isinstance(function, keras.Function) and any(
            node in nodes for nodes in function._nodes_by_depth.values()
        ):
            return function
    return None


def nodes_inside(function: Any, operation: Any) -> list[Any]:
    """Return the calls of an operation in the graph of a `keras.Function`."""
    return [
        node
        for node in operation._inbound_nodes
        if make_node_key(operation, node_index(node)) in function._nodes
    ]


def starts_inside(function: Any) -> list[Any]:
    """Return the inputs of a `keras.Function` that are outputs of calls, not of `keras.Input`."""
    producers = ((tensor, producer(tensor)) for tensor in function._inputs)
    return [tensor for tensor, source in producers if source and not source[0].is_input]


def structures_of(function: Any) -> tuple[Any, Any]:
    """Return the inputs and outputs of a `keras.Function`, in the structure they were passed in."""
    return function._inputs_struct, function._outputs_struct


def flat_inputs(function: Any) -> list[Any]:
    """Return the symbolic inputs of a `keras.Function`, in Keras's flat order."""
    return function._inputs


def set_structures(function: Any, inputs: Any, outputs: Any) -> None:
    """Set the symbolic inputs and outputs of a `keras.Function`."""
    fields = vars(function)
    fields["_inputs_struct"], fields["_outputs_struct"] = inputs, outputs
    fields["_inputs"] = keras.tree.flatten(inputs)
    fields["_outputs"] = keras.tree.flatten(outputs)


def nodes_as_run(function: Any) -> list[Any]:
    """List the calls of a `keras.Function` in the order in which Keras runs them.

    The order matters where calls draw from one seed generator or update one state.
    """
    depths = sorted(function._nodes_by_depth.items(), reverse=True)
    return [
        node
        for _, nodes in depths
        for node in nodes
        if node.operation is not None and not node.is_input
    ]


Operate = Callable[[Any], Callable[..., Any]]
"""From an operation to the function to call for it, in which Keras fills in `training`."""


Runner = Callable[[Any, list[Any], Operate], tuple[Any, ...] | None]
"""Runs the calls of a `keras.Function`, given the function, its flat inputs, and `Operate`.

Returns the flat outputs, or `None` to have Keras run the calls.
"""


@contextlib.contextmanager
def run_by(functions: list[Any], runner: Runner) -> Generator[None]:
    """Have `runner` run the calls whenever Keras runs one of some `keras.Function`s.

    Keras still does everything around the calls: it converts inputs, attaches their masks,
    decides on `training`, and packs the outputs.
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
        # Past `__setattr__`, by which layers and backends track attributes.
        vars(function)["_run_through_graph"] = patched(function)
    try:
        yield
    finally:
        for function in functions:
            vars(function).pop("_run_through_graph", None)


def _itself(operation: Any) -> Any:
    return operation


def map_graph(function: Any) -> None:
    """Map the graph between a `keras.Function`'s inputs and outputs.

    Does the same as Keras's `map_graph`, but without recursion, and in O(calls): Keras
    counts each name among all names.
    """
    fields = vars(function)
    nodes, first_seen = _walk(fields["_inputs"], fields["_outputs"])
    node_depth, operation_depth = _depths(nodes)
    keys = {make_node_key(node.operation, node_index(node)) for node in nodes}
    for tensor in fields["_inputs"]:
        source = producer(tensor)
        if source is None or source[0].operation in operation_depth:
            continue
        node = source[0]
        if node.is_input:
            operation_depth[node.operation] = node_depth[node] = 0
            first_seen[node.operation] = -1
            keys.add(make_node_key(node.operation, node_index(node)))
    fields["_nodes"] = keys
    fields["_nodes_by_depth"] = _by_depth(node_depth)
    by_depth = _by_depth(operation_depth)
    fields["_operations_by_depth"] = by_depth
    operations = [
        operation
        for depth in sorted(by_depth, reverse=True)
        for operation in _sorted_in_place(by_depth[depth], first_seen)
    ]
    backends.current().set_attribute(function, "_operations", operations)


def foreign_inputs(function: Any) -> list[str]:
    """Return the names of `keras.Input`s that a graph needs and that are not its inputs."""
    nodes, _ = _walk(function._inputs, function._outputs)
    own = {id(tensor) for tensor in function._inputs}
    starts = [node for node in nodes if node.is_input]
    return [n.operation.name for n in starts if not own & {id(t) for t in n.outputs}]


def require_where_computed(function: Any) -> None:
    """Make optional inputs required if an operation computes with them.

    A layer accepts `None` for a mask; an operation does not.
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
    """List nodes depth first from the outputs, and rank operations by when they are met."""
    boundary = {id(tensor) for tensor in inputs}
    done: dict[Any, None] = {}
    skipped: set[Any] = set()
    first_seen: dict[Any, int] = {}
    for output in outputs:
        stack: list[tuple[Any, Iterator[Any]]] = []
        pending: Iterator[Any] = iter((output,))
        while True:
            for tensor in pending:
                source = producer(tensor)
                if source is None or source[0] in done or source[0] in skipped:
                    continue
                node = source[0]
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
    """Return the depths of nodes and operations: how far they are from the outputs."""
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
    by_depth: defaultdict[int, list[Any]] = defaultdict(list)
    for item, depth in depths.items():
        by_depth[depth].append(item)
    return by_depth


def _sorted_in_place(operations: list[Any], rank: dict[Any, int]) -> list[Any]:
    operations.sort(key=rank.__getitem__)
    return operations
