"""The way from graphs to live objects and back: where graphs come from, what edits bring in."""

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import keras

from ramet.bridge import internals
from ramet.errors import GraphError, OptionError
from ramet.graph import Call, Graph, Layer, Spec
from ramet.graph.freeze import without_flags
from ramet.graph.given import TensorFunction
from ramet.graph.names import did_you_mean
from ramet.graph.sharing import Tie
from ramet.graph.transfer import TransferReport
from ramet.graph.tree import Tree


@dataclass(frozen=True, slots=True, eq=False)
class LiveCall:
    """The live objects that a call was read from."""

    node: Any
    """The Keras node; `None` for a bare tensor."""
    tensors: tuple[Any, ...]
    """The symbolic outputs."""


@dataclass(eq=False)
class Live:
    """The live objects that a graph was read from, and the way back to some."""

    model: Any = None
    """The model that was traced; `None` for a graph that is not one whole model."""
    function: Any = None
    """The `keras.Function` that holds the model's graph."""
    graph: Graph | None = None
    """The graph as it was read."""
    left_compiled: bool = False
    """Whether this is a part of a model that was compiled."""

    def build(self, graph: Graph, *, weights: str, seed: int | None, name: str | None) -> Any:
        """Makes a model of the graph; see `Graph.build`."""
        from ramet.bridge.build import build

        return build(graph, weights=weights, seed=seed, name=name)

    def transfer_report(self, graph: Graph, weights: str) -> TransferReport:
        """Tells what becomes of every variable; see `Graph.transfer_report`."""
        from ramet.bridge.checks import check_options
        from ramet.bridge.transfer_report import transfer_report

        check_options(weights, None, None)
        return transfer_report(graph, weights)

    def part(self, *others: Any) -> "Live":
        """Returns the origin of a graph that is a part of this one, or several at once."""
        lives = (self, *others)
        return Live(left_compiled=any(each.is_or_was_compiled for each in lives))

    @property
    def is_or_was_compiled(self) -> bool:
        """Whether the model is compiled, or the one that this is a part of."""
        return self.left_compiled or bool(getattr(self.model, "compiled", False))

    @functools.cached_property
    def class_remark(self) -> str | None:
        """What becomes of the model's class once its edited graph is built, if anything."""
        from ramet.bridge.model_class import remark_on_class

        return remark_on_class(self.model)

    def remarks(self, graph: Graph) -> tuple[str, ...]:
        """List what building an edited graph changes besides what its edits say."""
        from ramet.bridge.remarks import remarks

        return tuple(remarks(graph))

    def current(self, layer: Layer) -> Any:
        """Returns a live layer as it will be: the origin, or one made with the changes."""
        from ramet.bridge.reconfigure import current
        from ramet.bridge.stages import as_edited

        stage = None if layer.earlier is None else as_edited(layer, {}, sites=False)
        if stage is not None:
            return stage.layer
        seen = current(layer)
        if seen is not layer.origin and layer.changes is None:
            # Only a flag is another: what it reads and returns is as it was.
            internals.lend_calls(layer.origin, seen)
        return seen

    def hides_masks(self, graph: Graph) -> bool:
        """Tells whether tensors carry masks that the graph does not show."""
        from ramet.bridge.masking.flow import Flow

        flow = Flow()
        flow.follow(graph)
        return any(
            carried.mask is not None
            and not prefix
            and graph.calls[ref.call].outputs[ref.index].mask is None
            for (prefix, ref), carried in flow.carries.items()
        )

    def settled(self, graph: Graph) -> Graph:
        """Return a graph as it is once it was built, on the same weights where that is possible.

        Variables that are shared with the source train or do not train in both.
        """
        from ramet.bridge.trace import trace

        is_plain = without_flags(graph) is graph
        return trace(graph.build(weights="share" if is_plain else "copy"))

    def is_layer(self, given: Any) -> bool:
        """Tells whether something is a live layer."""
        return isinstance(given, keras.Operation)

    def is_of_tensors(self, given: Any) -> bool:
        """Whether a function is one of Keras's own, of tensors: `keras.ops.relu`."""
        return str(getattr(given, "__module__", "")).startswith("keras.")

    def traced(self, function: TensorFunction, inner: Graph, args: Tree, kwargs: Tree) -> Graph:
        """Return the calls that a function makes of some tensors of a graph."""
        from ramet.bridge.tensor_functions import traced

        return traced(function, inner, args, kwargs)

    def is_used(self, layer: Layer) -> bool:
        """Tells whether a live layer that an edit brings in is used elsewhere."""
        return bool(internals.calls_of(layer.origin))

    def layer(self, given: Any, where: str) -> Layer:
        """Records a live layer that an edit brings in."""
        return record_layer(given, where)

    def input(self, given: Any, spec: Spec, options: Mapping[str, Any]) -> tuple[Layer, Call]:
        """Records a symbolic input, or makes one like a spec but for some options."""
        return record_input(make_input(spec, options) if given is None else given)

    def tie(self, first: Layer, second: Layer) -> Tie:
        """Tells what two layers that are to be one differ in."""
        from ramet.bridge.ties import tie

        return tie(first, second)

    def conversion(self, given: Spec, wanted: Spec) -> list[tuple[Layer, Call]]:
        """Returns the operations by which a model adjusts a tensor to one of its inputs."""
        from ramet.bridge.trace import trace_between

        tensor = start = keras.Input(batch_shape=given.shape, dtype=given.dtype)
        if given.dtype != wanted.dtype:
            tensor = keras.ops.cast(tensor, wanted.dtype)
        if len(given.shape) == len(wanted.shape) + 1:
            tensor = keras.ops.squeeze(tensor, axis=-1)
        elif len(given.shape) == len(wanted.shape) - 1:
            tensor = keras.ops.expand_dims(tensor, axis=-1)
        graph = trace_between([start], tensor)
        calls = [call for call in graph.calls.values() if call.refs]
        return [(graph.layers[call.layer or ""], call) for call in calls]

    def accepts(self, layer: Layer, argument: str) -> bool:
        """Tells whether a layer can be called with a keyword argument."""
        return internals.accepts(layer.origin, argument)

    def check_changes(self, layer: Layer, changes: Mapping[str, Any]) -> None:
        """Checks that a layer can be made again with other constructor arguments."""
        from ramet.bridge.reconfigure import check_changes

        check_changes(layer, changes)


def live_of(graph: Graph) -> Live:
    """Returns the live objects that a graph was read from.

    Raises:
        GraphError: If it was written by hand.
    """
    if not isinstance(graph.origin, Live):
        message = (
            f"graph '{graph.name}' was not traced from a model, so there are no layers "
            "to build it with; make it with ramet.trace(model)"
        )
        raise GraphError(message)
    return graph.origin


def is_edited(graph: Graph) -> bool:
    """Tells whether a graph is more than another name for the one that was traced."""
    read = live_of(graph).graph
    if read is None or read is graph:
        return read is None
    return not (
        read.inputs is graph.inputs
        and read.outputs is graph.outputs
        and len(read.calls) == len(graph.calls)
        and all(map(_is_same_record, read.layers.values(), graph.layers.values()))
        and all(map(operator.is_, read.calls.values(), graph.calls.values()))
    )


def _is_same_record(read: Layer, layer: Layer) -> bool:
    """Whether a record says what was read; it may be of a copy that was taken apart."""
    return read is layer or (
        layer.edit is None
        and read.origin is layer.origin
        and read.name == layer.name
        and read.trainable == layer.trainable
        and (layer.graph is None or not is_edited(layer.graph))
    )


def record_layer(given: Any, where: str) -> Layer:
    """Records a live layer, with its graph if it is a model that has one.

    Raises:
        OptionError: If it is not a layer.
    """
    if isinstance(given, type) and issubclass(given, keras.Operation):
        message = f"{where} must be a layer, got the class {given.__name__}; pass an instance of it"
        raise OptionError(message)
    if not isinstance(given, keras.Operation) or isinstance(given, keras.layers.InputLayer):
        message = f"{where} must be a Keras layer, got {_shown(given)}"
        raise OptionError(message)
    from ramet.bridge.trace import record_operation

    return record_operation(given, {})


def make_input(spec: Spec, options: Mapping[str, Any]) -> Any:
    """Makes a symbolic input like a spec, but for some options of `keras.Input`.

    Raises:
        OptionError: If `keras.Input` does not take them.
    """
    known = ("shape", "batch_size", "dtype", "sparse", "ragged", "optional", "name")
    for name in options:
        if name not in known:
            message = f"an input has no option '{name}'{did_you_mean(name, known)}; it has: {known}"
            raise OptionError(message)
    given = options.get("shape", spec.shape[1:])
    if not isinstance(given, (tuple, list)):
        message = f"shape of an input must be a tuple of sizes without the batch, got {given!r}"
        raise OptionError(message)
    shape = tuple(cast("tuple[int | None, ...]", given))
    batch = options.get("batch_size", spec.shape[0] if spec.shape else None)
    kinds: dict[str, Any] = {"dtype": spec.dtype, "sparse": spec.sparse, "name": spec.name}
    if spec.ragged:
        kinds["ragged"] = True
    kinds |= {k: v for k, v in options.items() if k not in ("shape", "batch_size")}
    return keras.Input(batch_shape=(batch, *shape), **kinds)


def record_input(given: Any) -> tuple[Layer, Call]:
    """Records a symbolic input that belongs to no model yet.

    Raises:
        OptionError: If it is something else.
    """
    if not isinstance(given, keras.KerasTensor) or not internals.is_input(given):
        message = f"an input must be made by keras.Input(...), got {_shown(given)}"
        raise OptionError(message)
    node, _ = cast("tuple[Any, int]", internals.producer(given))
    name = node.operation.name
    origin = LiveCall(node, tuple(node.outputs))
    specs = tuple(spec_of(tensor) for tensor in node.outputs)
    from ramet.bridge.trace import record_operation

    return record_operation(node.operation, {}), Call(name, name, (), {}, specs, origin=origin)


def _shown(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def spec_of(tensor: Any) -> Spec:
    """Returns what a symbolic tensor says of itself, without its mask."""
    return Spec(
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype),
        name=tensor.name,
        sparse=bool(tensor.sparse),
        **internals.ragged_spec(tensor),
    )
