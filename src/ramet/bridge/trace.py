"""From a Keras model to a Graph. Reads the model; calls and changes nothing."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import keras

from ramet.bridge import internals
from ramet.bridge.checks import check_model
from ramet.bridge.derive import derived_arguments
from ramet.bridge.live import Live, LiveCall, spec_of
from ramet.errors import ModelError
from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.names import unique_name
from ramet.graph.tree import Tree, map_tree


def trace(model: Any) -> Graph:
    """Reads the graph of a Keras model.

    The model is read, not called and not changed. Costs O(calls); no weight is
    copied.

    Args:
        model: A Functional model, a subclass of one, or a Sequential model that
            has been built. A Graph is returned as it is.

    Returns:
        The model as frozen data, with nested models inside.

    Raises:
        ModelError: If it is not a model, or one that has no graph.
    """
    if isinstance(model, Graph):
        return model
    check_model(model)
    if not has_graph(model):
        raise ModelError(_why_no_graph(model))
    with internals.room_for(model):
        return _trace_function(model, {})


def has_graph(model: Any) -> bool:
    """Tells whether a model has a graph, so that it can be traced."""
    return internals.functional_of(model) is not None


def _why_no_graph(model: Any) -> str:
    if isinstance(model, keras.Sequential):
        return (
            f"Sequential model '{model.name}' has not been built, so it has no graph "
            "yet; give it an Input, or call it on data or model.build(input_shape)"
        )
    return (
        f"model '{model.name}' ({type(model).__name__}) has no graph: its layers are "
        "called by Python code; ramet.clone copies it whole, and only Functional and "
        "Sequential models can be traced"
    )


def trace_between(inputs: list[Any], outputs: Any) -> Graph:
    """Reads the graph between some symbolic inputs and some outputs."""
    recorder = _Recorder(inputs, {})
    recorder.record(keras.tree.flatten(outputs))
    return recorder.graph("function", inputs, outputs, Live())


def trace_function(function: Any) -> Graph:
    """Reads the graph of a `keras.Function`, be it a model or not."""
    return _trace_function(function, {})


def _trace_function(model: Any, traced: dict[int, Graph]) -> Graph:
    """Traces a model that has a graph; `traced` holds the nested ones met so far."""
    found = traced.get(id(model))
    if found is None:
        function = internals.functional_of(model)
        inputs, outputs = internals.structures_of(function)
        recorder = _Recorder(internals.flat_inputs(function), traced)
        recorder.record(keras.tree.flatten(outputs))
        live = Live(model, function)
        found = traced[id(model)] = recorder.graph(model.name, inputs, outputs, live)
    return found


@dataclass
class _Recorder:
    """Writes down the calls above some tensors."""

    inputs: list[Any]
    """Where the graph starts: symbolic tensors whose makers are outside of it."""
    traced: dict[int, Graph]
    """Graphs of nested models, by identity."""
    layers: dict[str, Layer] = field(default_factory=dict[str, Layer])
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    keys: dict[int, str] = field(default_factory=dict[int, str])
    """Key of each operation in `layers`, by identity."""
    needed: set[int] = field(default_factory=set[int])
    """Nodes that the outputs depend on, by identity."""
    refs: dict[int, Ref] = field(default_factory=dict[int, Ref])
    """Reference of each symbolic tensor, by identity."""

    def record(self, outputs: list[Any]) -> None:
        """Records every call that the outputs, or masks on the way, depend on."""
        for tensor in self.inputs:
            made = internals.producer(tensor)
            if made is None or not made[0].is_input:
                self._record_bare(tensor)
        self.needed = {id(node) for node in _in_order(outputs, self._arguments)}
        starts = [t for t in (*self.inputs, *outputs) if id(t) not in self.refs]
        met = {id(node) for node in _in_order(starts, self._needs)}
        earlier = _earlier_calls(met)

        def needs(node: Any) -> Iterator[Any]:
            before = earlier(node)
            if before is not None:
                yield before
            yield from self._needs(node)

        for node in _in_order(starts, needs):
            self._record_node(node)

    def _arguments(self, node: Any) -> Iterator[Any]:
        yield from (t for t in node.input_tensors if id(t) not in self.refs)

    def _is_needed(self, tensor: Any) -> bool:
        made = internals.producer(tensor)
        return made is not None and id(made[0]) in self.needed

    def graph(self, name: str, inputs: Tree, outputs: Tree, live: Live) -> Graph:
        """Returns what was recorded as a graph."""
        self._attach_masks()
        live.graph = Graph(
            name=name,
            layers=self.layers,
            calls=self.calls,
            inputs=map_tree(self._ref, inputs),
            outputs=map_tree(self._ref, outputs),
            origin=live,
        )
        return live.graph

    def _needs(self, node: Any) -> Iterator[Any]:
        """Yields the tensors that must exist before a call, and their masks."""
        for tensor in node.input_tensors:
            if id(tensor) not in self.refs:
                yield tensor
            mask = internals.get_keras_mask(tensor)
            if isinstance(mask, keras.KerasTensor):
                yield mask
        for tensor in node.outputs:
            mask = internals.get_keras_mask(tensor)
            if isinstance(mask, keras.KerasTensor) and not _made_by(mask, node):
                yield mask

    def _record_bare(self, tensor: Any) -> None:
        if id(tensor) in self.refs:
            return
        name = unique_name(tensor.name, self.calls)
        origin = LiveCall(None, (tensor,))
        self.calls[name] = Call(name, None, (), {}, (spec_of(tensor),), origin=origin)
        self.refs[id(tensor)] = Ref(name)

    def _record_node(self, node: Any) -> None:
        for tensor in node.input_tensors:
            if internals.producer(tensor) is None:
                self._record_bare(tensor)
        name = unique_name(node.operation.name, self.calls)
        args, kwargs = node.arguments.args, node.arguments.kwargs
        self.calls[name] = Call(
            name=name,
            layer=self._layer_key(node.operation),
            args=keras.tree.map_structure(self._argument, args),
            kwargs=keras.tree.map_structure(self._argument, kwargs),
            outputs=tuple(spec_of(tensor) for tensor in node.outputs),
            derived=frozenset(derived_arguments(node, self._is_needed)),
            origin=LiveCall(node, tuple(node.outputs)),
        )
        for index, tensor in enumerate(node.outputs):
            self.refs.setdefault(id(tensor), Ref(name, index))

    def _layer_key(self, operation: Any) -> str:
        key = self.keys.get(id(operation))
        if key is None:
            key = self.keys[id(operation)] = unique_name(operation.name, self.layers)
            self.layers[key] = record_operation(operation, self.traced)
        return key

    def _argument(self, leaf: Any) -> Any:
        return self._ref(leaf) if isinstance(leaf, keras.KerasTensor) else leaf

    def _ref(self, tensor: Any) -> Ref:
        """Returns the reference of a tensor, also of a copy of a recorded one."""
        found = self.refs.get(id(tensor))
        if found is None:
            node, index = cast("tuple[Any, int]", internals.producer(tensor))
            found = self.refs[id(tensor)] = self.refs[id(node.outputs[index])]
        return found

    def _attach_masks(self) -> None:
        for name, call in self.calls.items():
            masks = [internals.get_keras_mask(t) for t in call.origin.tensors]
            if any(mask is not None for mask in masks):
                outputs = tuple(
                    replace(spec, mask=self._argument(mask))
                    for spec, mask in zip(call.outputs, masks, strict=True)
                )
                self.calls[name] = replace(call, outputs=outputs)


def record_operation(operation: Any, traced: dict[int, Graph]) -> Layer:
    """Records a live layer, with its graph if it is a model that has one."""
    nested = None
    if internals.functional_of(operation) is not None:
        nested = _trace_function(operation, traced)
    return Layer(operation.name, type(operation).__name__, operation, nested)


def _made_by(tensor: Any, node: Any) -> bool:
    made = internals.producer(tensor)
    return made is not None and made[0] is node


def _earlier_calls(met: set[int]) -> Callable[[Any], Any]:
    """Returns a function from a node to the call of the same layer before it.

    Keras numbers the calls of a layer as they were made. Replaying them in that
    order keeps the numbers, which is what `layer.output` and saved files go by.
    """
    previous: dict[int, Any] = {}
    seen: set[int] = set()

    def earlier(node: Any) -> Any:
        if id(node.operation) not in seen:
            seen.add(id(node.operation))
            last = None
            for call in internals.calls_of(node.operation):
                if id(call) in met:
                    previous[id(call)] = last
                    last = call
        return previous.get(id(node))

    return earlier


def _in_order(tensors: list[Any], needs: Callable[[Any], Iterator[Any]]) -> list[Any]:
    """Lists the nodes above some tensors so that each comes after what it needs.

    `needs` yields, for a node, tensors or nodes. Walks without recursion: a chain
    of calls may be longer than Python's stack.
    """
    done: dict[int, Any] = {}
    for tensor in tensors:
        path: dict[int, tuple[Any, Iterator[Any]]] = {}
        pending: Iterator[Any] = iter((tensor,))
        while True:
            for item in pending:
                node = item if isinstance(item, internals.Node) else _node_of(item)
                if node is None or id(node) in done or id(node) in path:
                    continue
                path[id(node)] = (node, pending)
                pending = iter(needs(node))
                break
            else:
                if not path:
                    break
                key, (node, pending) = path.popitem()
                done[key] = node
    return list(done.values())


def _node_of(tensor: Any) -> Any:
    made = internals.producer(tensor)
    return None if made is None else made[0]
