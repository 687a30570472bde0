"""What the calls of a graph cost, one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import keras

from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.interpret import CallLoop
from ramet.graph.paths import call_labels
from ramet.graph.reach import written_calls
from ramet.masking.numbering import nested_inputs
from ramet.profiling.formulas import macs_of
from ramet.profiling.memory import Buffer, Holders, Memory
from ramet.profiling.registry import Called, UncountedError, counts
from ramet.profiling.shapes import output_tensors
from ramet.profiling.tensors import Tensor, nbytes
from ramet.results.profile import CallCost
from ramet.tracing.trace import has_graph, trace

VIEWS = frozenset(
    {
        *("ActivityRegularization", "AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise"),
        *("SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "Identity", "StopGradient"),
        *("ConvertToTensor", "ExpandDims", "Flatten", "Ravel", "Reshape", "Squeeze", "View"),
    }
)
"""Classes of Keras whose output is a view of the input, or in inference the input itself."""


@dataclass(eq=False)
class Counter:
    """Counts the calls of a graph and of those nested in it."""

    memory: Memory = field(default_factory=Memory)
    """What is alive on the way."""
    counted: set[int] = field(default_factory=set[int])
    """Weights that were counted, by id."""

    def count(self, graph: Graph, inputs: Mapping[Ref, Tensor], prefix: str = "") -> "_GraphCount":
        """Count the calls of a graph.

        Args:
            graph: A graph without unsettled calls.
            inputs: The sizes of its inputs.
            prefix: The path to it.
        """
        level = _GraphCount(self, graph, prefix)
        for ref, tensor in inputs.items():
            level.start(ref, tensor, Buffer(tensor.nbytes))
        level.make_calls(written_calls(graph))
        return level

    def weights(self, layer: Layer) -> tuple[int, int, int, int]:
        """Return number and bytes of the weights of a layer, and those not counted yet."""
        sizes = [0, 0, 0, 0]
        for variable in getattr(layer.origin, "weights", ()):
            count = Tensor(tuple(variable.shape), "").size
            size = nbytes(count, str(variable.dtype))
            sizes[0] += count
            sizes[2] += size
            if id(variable) not in self.counted:
                sizes[1] += count
                sizes[3] += size
                self.counted.add(id(variable))
        return sizes[0], sizes[1], sizes[2], sizes[3]


class _GraphCount(CallLoop):
    """Counts the calls of one graph at one place. Values are tensors without values."""

    def __init__(self, counter: Counter, graph: Graph, prefix: str) -> None:
        super().__init__(graph)
        self.costs: list[CallCost] = []
        self._counter = counter
        self._prefix = prefix
        self._labels = call_labels(graph)
        self.holders = Holders(graph, counter.memory)

    def start(self, ref: Ref, tensor: Tensor, buffer: Buffer) -> None:
        """Set the value of an input."""
        self.values[ref] = tensor
        self.holders.hold(ref, buffer)

    def outputs(self) -> list[Ref]:
        """Return the outputs of the graph, in Keras's flat order."""
        return keras.tree.flatten(self.graph.outputs)

    def step(self, call: Call) -> None:
        """Count one call."""
        if call.layer is None or self.graph.layers[call.layer].is_input:
            # An optional input that nothing was passed for, or a bare tensor.
            self.keep(call, [Tensor(spec.shape, spec.dtype) for spec in call.outputs])
            self.holders.hold(Ref(call.name), Buffer(0))
            return
        layer = self.graph.layers[call.layer]
        args, kwargs = self.filled(call.args), self.filled(call.written)
        if layer.graph is not None:
            self._nested(call, layer, layer.graph)
            return
        specs = [self.graph.calls[ref.call].outputs[ref.index] for ref in call.written_refs]
        tensors = output_tensors(layer, call, specs, args, kwargs)
        self.keep(call, tensors)
        size = self._hold(call, layer, tensors)
        uncounted, macs = None, 0
        try:
            macs = macs_of(Called(layer.origin, args, kwargs, tensors))
        except UncountedError as error:
            uncounted = str(error)
        self._add(call, layer, tensors, (macs, uncounted, size), ())
        self._done(call)

    def _hold(self, call: Call, layer: Layer, tensors: Sequence[Tensor]) -> int:
        """Hold the buffers of the outputs, and return how many bytes are new."""
        source = call.written_refs[0] if call.written_refs else None
        if source is not None and layer.kind in VIEWS and len(tensors) == 1:
            self.holders.hold(Ref(call.name), self.holders.buffer(source))
            return 0
        buffers = [Buffer(tensor.nbytes if tensor.is_known else 0) for tensor in tensors]
        for index, buffer in enumerate(buffers):
            self.holders.hold(Ref(call.name, index), buffer)
        return sum(buffer.nbytes for buffer in buffers)

    def _nested(self, call: Call, layer: Layer, inner: Graph) -> None:
        """Count a call of a nested model."""
        label = self._labels[call.name]
        level = _GraphCount(self._counter, inner, f"{self._prefix}{label}/")
        met = {*self._counter.counted}
        for ours, ref in nested_inputs(call, inner):
            level.start(ours, self.values[ref], self.holders.buffer(ref))
        level.make_calls(written_calls(inner))
        tensors = [level.values[ref] for ref in level.outputs()]
        self.keep(call, tensors)
        for index, ref in enumerate(level.outputs()):
            self.holders.hold(Ref(call.name, index), level.holders.buffer(ref))
        level.holders.used(level.outputs())
        inside = tuple(level.costs)
        uncounted = next((f"not all of '{c.path}'" for c in inside if c.uncounted), None)
        macs = sum(cost.macs for cost in inside)
        size = sum(cost.activation_bytes for cost in inside)
        all_counted, self._counter.counted = self._counter.counted, met
        self._add(call, layer, tensors, (macs, uncounted, size), inside)
        self._counter.counted |= all_counted
        self._done(call)

    def _add(
        self,
        call: Call,
        layer: Layer,
        tensors: Sequence[Tensor],
        cost: tuple[int, str | None, int],
        inside: tuple[CallCost, ...],
    ) -> None:
        params, new_params, weight_bytes, new_weight_bytes = self._counter.weights(layer)
        macs, uncounted, size = cost
        alive = max((each.live_bytes for each in inside), default=0)
        self.costs.append(
            CallCost(
                path=f"{self._prefix}{self._labels[call.name]}",
                kind=layer.kind,
                macs=macs,
                uncounted=uncounted,
                params=params,
                new_params=new_params,
                weight_bytes=weight_bytes,
                new_weight_bytes=new_weight_bytes,
                outputs=tuple(tensor.shape for tensor in tensors),
                activation_bytes=size,
                live_bytes=max(alive, self._counter.memory.alive),
                inside=inside,
            )
        )

    def _done(self, call: Call) -> None:
        """Release what no later call needs."""
        self.holders.used(call.written_refs)
        self.holders.drop_unused(Ref(call.name, index) for index in range(len(call.outputs)))


@counts(keras.Model)
def macs_of_model(called: Called) -> int:
    """Count a model inside of a layer, such as in TimeDistributed."""
    if not has_graph(called.layer):
        raise UncountedError("it has no graph")
    graph = trace(called.layer)
    inputs = dict(zip(keras.tree.flatten(graph.inputs), called.inputs, strict=True))
    level = Counter().count(graph, inputs)
    for cost in level.costs:
        if cost.uncounted:
            raise UncountedError(f"'{cost.path}' in it is not counted")
    return sum(cost.macs for cost in level.costs)
