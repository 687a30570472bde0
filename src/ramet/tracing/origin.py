"""The live objects behind a graph, by which it is edited and built.

`Live` implements `ramet.graph.origin.Origin`, the interface of graphs to live objects. Many of its
methods only call the packages above this one (`building`, `editing`, `masking`), and import them
when they are called: those packages import this one.
"""

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import keras

from ramet import keras_internals as internals
from ramet._words import Promise
from ramet.backends import is_of_keras
from ramet.errors import GraphError
from ramet.graph import Call, Graph, Layer, Spec
from ramet.graph.edits.resolve import TensorFunction
from ramet.graph.edits.sharing import Tie
from ramet.graph.tree import Tree
from ramet.results.transfer import TransferReport
from ramet.tracing.specs import make_input


@dataclass(frozen=True, slots=True, eq=False)
class LiveCall:
    """The live objects that a call was traced from."""

    node: Any
    """The Keras node; `None` for a bare tensor."""
    tensors: tuple[Any, ...]
    """The symbolic outputs."""


@dataclass(eq=False)
class Live:
    """The live objects that a graph was traced from; see `Origin` for the methods."""

    model: Any = None
    """The model that was traced; `None` for a graph that is not a whole model."""
    function: Any = None
    """The `keras.Function` that holds the model's graph."""
    graph: Graph | None = None
    """The graph as it was traced, to tell whether another one is edited."""
    left_compiled: bool = False
    """Whether this is a part of a compiled model."""

    def build(self, graph: Graph, *, weights: str, seed: int | None, name: str | None) -> Any:
        """Build a model from a graph; see `Graph.build`."""
        from ramet.building.build import build

        return build(graph, weights=weights, seed=seed, name=name)

    def transfer_report(self, graph: Graph, weights: str) -> TransferReport:
        """Return what becomes of every variable; see `Graph.transfer_report`."""
        from ramet.building.weights.report import transfer_report
        from ramet.tracing.options import check_options

        check_options(weights, None, None)
        return transfer_report(graph, weights)

    def part(self, *others: Any) -> "Live":
        """Return the origin of a graph that is a part of this one, or joined from several."""
        lives = (self, *others)
        return Live(left_compiled=any(each.is_or_was_compiled for each in lives))

    @property
    def is_or_was_compiled(self) -> bool:
        """Whether the model is compiled, or this is a part of a compiled one."""
        return self.left_compiled or bool(getattr(self.model, "compiled", False))

    @functools.cached_property
    def class_remark(self) -> str | None:
        """A remark on the class of a model that is built from an edited graph, if any."""
        from ramet.building.model_class import remark_on_class

        return remark_on_class(self.model)

    def remarks(self, graph: Graph) -> tuple[str, ...]:
        """List what building an edited graph changes beyond its edits."""
        from ramet.editing.remarks import remarks

        return tuple(remarks(graph))

    def current(self, layer: Layer) -> Any:
        """Return a live layer as it will be built: the origin, or a re-created one with changes."""
        from ramet.building.reconfigure import current
        from ramet.building.weights.stages import as_edited

        stage = None if layer.earlier is None else as_edited(layer, {}, sites=False)
        if stage is not None:
            return stage.layer
        live = current(layer)
        if live is not layer.origin and layer.changes is None:
            # Only a flag differs, so that inputs and outputs are those of the origin.
            internals.lend_calls(layer.origin, live)
        return live

    def hides_masks(self, graph: Graph) -> bool:
        """Whether tensors carry masks at run time that the graph does not record."""
        from ramet.masking.flow import Flow

        flow = Flow()
        flow.follow(graph)
        return any(
            carried.mask is not None
            and not prefix
            and graph.calls[ref.call].outputs[ref.index].mask is None
            for (prefix, ref), carried in flow.carries.items()
        )

    def settled(self, graph: Graph) -> Graph:
        """Return a graph as it is traced after it was built."""
        from ramet.tracing.settled import built_aside
        from ramet.tracing.trace import trace

        return trace(built_aside(graph))

    def stages(self, graph: Graph, n: int, by: str, shapes: Any) -> tuple[Graph, ...]:
        """Cut a graph into stages that cost about the same; see `Graph.stages`."""
        from ramet.profiling.stages import stages_of

        return stages_of(graph, n, by, shapes)

    def is_layer(self, value: Any) -> bool:
        """Whether a value is a live layer or operation."""
        return isinstance(value, keras.Operation)

    def is_instance(self, layer: Layer, classes: tuple[type, ...]) -> bool:
        """Whether a layer is an instance of one of some classes."""
        return isinstance(layer.origin, classes)

    def is_of_tensors(self, function: Any) -> bool:
        """Whether a function is one of Keras's own functions of tensors: `keras.ops.relu`."""
        return is_of_keras(function)

    def traced(self, function: TensorFunction, inner: Graph, args: Tree, kwargs: Tree) -> Graph:
        """Return a function as a graph, traced on some tensors of another graph."""
        from ramet.editing.tensor_functions import traced

        return traced(function, inner, args, kwargs)

    def is_used(self, layer: Layer) -> bool:
        """Whether the live layer of a record has been called, in any model."""
        return bool(internals.calls_of(layer.origin))

    def layer(self, live: Any, where: str) -> Layer:
        """Return the record of a new live layer; `where` names it in an error."""
        from ramet.tracing.record import record_layer

        return record_layer(live, where)

    def input(self, tensor: Any, spec: Spec, options: Mapping[str, Any]) -> tuple[Layer, Call]:
        """Return the records of a symbolic input; without one, of a new one like a spec."""
        from ramet.tracing.record import record_input

        return record_input(make_input(spec, options) if tensor is None else tensor)

    def tie(self, first: Layer, second: Layer) -> Tie:
        """Return the differences of two layers that are to be tied."""
        from ramet.editing.ties import tie

        return tie(first, second)

    def conversion(self, spec: Spec, wanted: Spec) -> list[tuple[Layer, Call]]:
        """Return the operations by which a model converts a tensor to the spec of an input."""
        from ramet.tracing.trace import trace_between

        tensor = start = keras.Input(batch_shape=spec.shape, dtype=spec.dtype)
        if spec.dtype != wanted.dtype:
            tensor = keras.ops.cast(tensor, wanted.dtype)
        if len(spec.shape) == len(wanted.shape) + 1:
            tensor = keras.ops.squeeze(tensor, axis=-1)
        elif len(spec.shape) == len(wanted.shape) - 1:
            tensor = keras.ops.expand_dims(tensor, axis=-1)
        graph = trace_between([start], tensor)
        calls = [call for call in graph.calls.values() if call.refs]
        return [(graph.layers[call.layer or ""], call) for call in calls]

    def accepts(self, layer: Layer, argument: str) -> bool:
        """Whether a layer's `call` accepts a keyword argument."""
        return internals.accepts(layer.origin, argument)

    def check_changes(self, layer: Layer, changes: Mapping[str, Any]) -> None:
        """Check that a layer can be re-created with other constructor arguments."""
        from ramet.building.reconfigure import check_changes

        check_changes(layer, changes)

    def promise_of_passing(self, layer: Layer, spec: Spec, inner: Graph) -> Promise:
        """Return what adding or removing a layer behind a tensor of a graph promises."""
        from ramet.editing.promises import promise_of_passing

        return promise_of_passing(layer, spec, inner)

    def promise_of_changes(self, layer: Layer, changes: Mapping[str, Any]) -> Promise:
        """Return what other constructor arguments of a layer promise, its weights kept."""
        from ramet.editing.promises import promise_of_changes

        return promise_of_changes(layer, changes)

    def promise_of_copies(self, layer: Layer) -> Promise:
        """Return what copies of a layer promise, one for each of its calls."""
        from ramet.editing.promises import promise_of_copies

        return promise_of_copies(layer)

    def promise_of_sharing(self, first: Layer, others: list[Layer]) -> Promise:
        """Return what one layer in the place of several with the same arguments promises."""
        from ramet.editing.promises import promise_of_sharing

        return promise_of_sharing(first, others)

    def promise_of_order(self, graph: Graph) -> Promise:
        """Return what making the calls of a graph in another order promises."""
        from ramet.editing.order import promise_of_order

        return promise_of_order(graph)

    def has_own_call(self, graph: Graph) -> bool:
        """Whether the class of a model in a graph overrides what a call does with the graph."""
        return any(internals.has_own_call(live_of(visit.graph).model) for visit in graph.walk())

    def trains_otherwise(self, layer: Layer) -> bool:
        """Whether a call of a layer in training may differ from one in inference."""
        from ramet.editing.order import marks_of

        return bool(marks_of(layer))

    def keeps_state(self, graph: Graph) -> bool:
        """Whether a call of a layer may change what its next call returns, also in inference."""
        from ramet.editing.order import keeps_state

        return keeps_state(graph)


def live_of(graph: Graph) -> Live:
    """Return the live objects that a graph was traced from.

    Raises:
        GraphError: If it was written by hand, or unpickled.
    """
    return cast("Live", graph.live_origin())


def traced_model(graph: Graph) -> Any:
    """Return the model that a graph was traced from; `None` if it is not a whole model.

    Raises:
        GraphError: If the model has another graph since, or there are no live objects.
    """
    live = live_of(graph)
    if live.model is not None and internals.functional_of(live.model) is not live.function:
        message = f"model '{graph.name}' was rebuilt after it had been traced; trace it again"
        raise GraphError(message)
    return live.model


def is_edited(graph: Graph) -> bool:
    """Whether a graph differs from the one that was traced, in more than its name."""
    traced = live_of(graph).graph
    if traced is None or traced is graph:
        return traced is None
    return not (
        traced.inputs is graph.inputs
        and traced.outputs is graph.outputs
        and len(traced.calls) == len(graph.calls)
        and all(map(_is_same_record, traced.layers.values(), graph.layers.values()))
        and all(map(operator.is_, traced.calls.values(), graph.calls.values()))
    )


def _is_same_record(traced: Layer, layer: Layer) -> bool:
    """Whether a record agrees with the one that was traced; it may be of an unshared copy."""
    return traced is layer or (
        layer.edit is None
        and traced.origin is layer.origin
        and traced.name == layer.name
        and traced.trainable == layer.trainable
        and (layer.graph is None or not is_edited(layer.graph))
    )
