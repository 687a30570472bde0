"""Trace a Keras model: read its graph, without calling or changing anything."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import keras

from ramet import keras_internals as internals
from ramet.errors import ModelError
from ramet.graph import Call, Graph, Layer, Ref, Spec
from ramet.graph.names import unique_name
from ramet.graph.tree import Tree, leaves, map_tree
from ramet.tracing.derived import derived_arguments
from ramet.tracing.layer_facts import facts_of
from ramet.tracing.options import check_model
from ramet.tracing.origin import Live, LiveCall
from ramet.tracing.specs import spec_of


def trace(model: Any) -> Graph:
    """Trace a Keras model: return its graph.

    The model is neither called nor changed. Costs O(calls); no weight is copied.

    Args:
        model: A Functional model, a subclass of one, or a Sequential model that has been
            built. A Graph is returned unchanged.

    Returns:
        The model as frozen data, with nested models inside.

    Raises:
        ModelError: If the argument is not a model, or has no graph.

    Examples:
        >>> graph = ramet.trace(model)
        >>> len(graph.layers)
        7
        >>> graph.calls["relu"].refs
        (Ref(call='norm', index=0),)
    """
    if isinstance(model, Graph):
        return model
    check_model(model)
    if not has_graph(model):
        raise ModelError(_why_no_graph(model))
    with internals.room_for(model):
        return _trace_function(model, {})


def has_graph(model: Any) -> bool:
    """Whether a model has a graph, so that it can be traced."""
    return internals.functional_of(model) is not None


def _why_no_graph(model: Any) -> str:
    if isinstance(model, keras.Sequential) and not model.layers:
        return f"Sequential model '{model.name}' has no layers, so it has no graph; add one"
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
    """Return the graph between some symbolic inputs and some outputs."""
    recorder = _Recorder(inputs, {})
    recorder.record(keras.tree.flatten(outputs))
    return recorder.graph("function", inputs, outputs, Live())


def trace_function(function: Any) -> Graph:
    """Return the graph of a `keras.Function`, which need not be a model."""
    return _trace_function(function, {})


def _trace_function(model: Any, traced: dict[int, Graph]) -> Graph:
    """Trace a model that has a graph; `traced` holds the graphs of nested models so far."""
    graph = traced.get(id(model))
    if graph is None:
        function = internals.functional_of(model)
        inputs, outputs = map(_untracked, internals.structures_of(function))
        recorder = _Recorder(internals.flat_inputs(function), traced)
        recorder.record(keras.tree.flatten(outputs))
        live = Live(model, function)
        graph = traced[id(model)] = recorder.graph(model.name, inputs, outputs, live)
    return graph


def _untracked(tree: Tree) -> Tree:
    """Return a structure with plain containers instead of Keras's tracked ones.

    A tracked container belongs to the model that tracks it: a graph with one cannot be pickled.
    """
    if type(tree) in (dict, internals.TRACKED_DICT):
        return {key: _untracked(item) for key, item in tree.items()}
    if type(tree) in (list, internals.TRACKED_LIST):
        return [_untracked(item) for item in tree]
    return tree


_LEAVES = {keras.KerasTensor, bool, float, int, str, type(None)}
"""Types of arguments that contain no others."""


@dataclass
class _Recorder:
    """Records the calls that some tensors depend on."""

    inputs: list[Any]
    """Where the graph starts: symbolic tensors that are computed outside of it."""
    traced: dict[int, Graph]
    """Graphs of nested models, by id."""
    layers: dict[str, Layer] = field(default_factory=dict[str, Layer])
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    keys: dict[int, str] = field(default_factory=dict[int, str])
    """Key of each operation in `layers`, by id."""
    needed: set[int] = field(default_factory=set[int])
    """Ids of the nodes that the outputs depend on."""
    refs: dict[int, Ref] = field(default_factory=dict[int, Ref])
    """Reference of each symbolic tensor, by id."""

    def record(self, outputs: list[Any]) -> None:
        """Record every call that the outputs, or masks of tensors on the way, depend on."""
        for tensor in self.inputs:
            node = _node_of(tensor)
            if node is None or not node.is_input:
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
        node = _node_of(tensor)
        return node is not None and id(node) in self.needed

    def graph(self, name: str, inputs: Tree, outputs: Tree, live: Live) -> Graph:
        """Return the recorded calls as a graph, and store it in its origin for `is_edited`."""
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
        """Yield the tensors that a call depends on, and masks of them and of its outputs."""
        for tensor in node.input_tensors:
            if id(tensor) not in self.refs:
                yield tensor
            mask = internals.get_keras_mask(tensor)
            if isinstance(mask, keras.KerasTensor):
                yield mask
        for tensor in node.outputs:
            mask = internals.get_keras_mask(tensor)
            if isinstance(mask, keras.KerasTensor) and _node_of(mask) is not node:
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
            args=self._recorded(args),
            kwargs=self._recorded(kwargs),
            outputs=self._specs(node),
            derived=frozenset(derived_arguments(node, self._is_needed)),
            origin=LiveCall(node, tuple(node.outputs)),
        )
        for index, tensor in enumerate(node.outputs):
            self.refs.setdefault(id(tensor), Ref(name, index))

    def _specs(self, node: Any) -> tuple[Spec, ...]:
        """Return the outputs of a call; what is unknown inside a nested model stays so."""
        specs = tuple(spec_of(tensor) for tensor in node.outputs)
        inner = self.layers[self._layer_key(node.operation)].graph
        if inner is None:
            return specs
        own = [inner.calls[ref.call].outputs[ref.index] for ref in leaves(inner.outputs)]
        both = zip(specs, own, strict=False)
        return tuple(spec if end.known else replace(end, name=spec.name) for spec, end in both)

    def _layer_key(self, operation: Any) -> str:
        key = self.keys.get(id(operation))
        if key is None:
            key = self.keys[id(operation)] = unique_name(operation.name, self.layers)
            self.layers[key] = record_operation(operation, self.traced)
        return key

    def _recorded(self, arguments: Any) -> Any:
        """Return the arguments of a call with references in place of symbolic tensors."""
        if type(arguments) is tuple and {*map(type, arguments)} <= _LEAVES:
            return tuple(map(self._argument, arguments))
        if not arguments:
            return type(arguments)()
        return keras.tree.map_structure(self._argument, arguments)

    def _argument(self, leaf: Any) -> Any:
        return self._ref(leaf) if isinstance(leaf, keras.KerasTensor) else leaf

    def _ref(self, tensor: Any) -> Ref:
        """Return the reference of a tensor, also of a copy of a recorded one."""
        ref = self.refs.get(id(tensor))
        if ref is None:
            node, index = cast("tuple[Any, int]", internals.producer(tensor))
            ref = self.refs[id(tensor)] = self.refs[id(node.outputs[index])]
        return ref

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
    """Return the record of a live layer, with its graph if it is a model with one."""
    nested = None
    if internals.functional_of(operation) is not None:
        nested = _trace_function(operation, traced)
    facts = facts_of(operation, nested)
    return Layer(operation.name, type(operation).__name__, operation, nested, facts=facts)


def _earlier_calls(met: set[int]) -> Callable[[Any], Any]:
    """Return a function that returns the previous call of the same layer for a node.

    Keras numbers the calls of a layer in order. Replaying them in that order keeps the numbers,
    on which `layer.output` and saved files depend.
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
    """List the nodes that some tensors depend on, each after those that it depends on.

    `needs` yields the tensors or nodes that a node depends on. There is no recursion: a chain
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
    source = internals.producer(tensor)
    return None if source is None else source[0]
