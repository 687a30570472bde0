"""Follow the labels of channels through a graph, call by call."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.building.weights.roles import roles_of
from ramet.compress.channels import rules as rules  # noqa: PLC0414 registers the rules
from ramet.compress.channels.atoms import Atoms
from ramet.compress.channels.site import Axis, Flow, Site, Tensor, fixed, outputs_of
from ramet.errors import GraphError
from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.edits.inline import flat, given_tensors
from ramet.graph.interpret import CallLoop
from ramet.graph.reach import written_calls
from ramet.graph.tree import leaves, map_tree
from ramet.tracing.origin import is_edited
from ramet.tracing.settled import settled
from ramet.tracing.trace import trace

Identity = tuple[int, int]


@dataclass(frozen=True)
class Channels:
    """What is known of the channels of a graph."""

    graph: Graph
    """The graph."""
    seen: Graph
    """The same, with the live layers and shapes after its edits."""
    atoms: Atoms = field(default_factory=Atoms)
    """All atoms."""
    flows: dict[Identity, Flow] = field(default_factory=dict[Identity, Flow])
    """What is known of each layer, by its identity in the graph."""
    slices: dict[tuple[Identity | None, str], dict[str, Any]] = field(
        default_factory=dict[Any, Any]
    )
    """How constant arguments of calls change, by the identity of the model and the call."""
    reads: dict[Identity, list[Axis]] = field(default_factory=dict[Identity, list[Axis]])
    """The labelled axes of all tensors that each layer is called on."""
    steps: list[tuple[Site, Sequence[Tensor]]] = field(
        default_factory=list[tuple[Site, Sequence[Tensor]]]
    )
    """All calls in order, with their outputs. Each tensor is an object of its own."""
    reasons: list[str] = field(default_factory=lambda: [""])
    """Why tensors are not zero when their channels are masked, by number."""


def follow(model: Any) -> Channels:
    """Follow the channels of a model or graph. Nothing is executed.

    Costs O(calls), where the calls of a nested model count once per use. An edited graph is
    built first, on the weights of its model, because its shapes are not known before.

    Raises:
        ModelError: If the argument is not a model, or has no graph.
    """
    graph = trace(model)
    with internals.room_for(graph), internals.paused_collector():
        seen = settled(graph) if is_edited(graph) else graph
        channels = Channels(graph, seen)
        loop = _Loop(channels, graph, seen, (), None)
        loop.make_calls()
        loop.lock_outputs()
    return channels


class _Loop(CallLoop):
    """Makes the calls of one graph, with labels for values."""

    def __init__(
        self,
        channels: Channels,
        graph: Graph,
        seen: Graph,
        path: tuple[str, ...],
        model: Identity | None,
    ) -> None:
        """Start without labels.

        Args:
            channels: Where to note what is found.
            graph: The graph.
            seen: The same, with the live layers and shapes after its edits.
            path: The keys of the nested models on the way to it.
            model: The identity of the nested model; `None` for the outermost one.
        """
        super().__init__(seen)
        self._channels = channels
        self._graph = graph
        self._path = path
        self._model = model
        self._written = {call.name for call in written_calls(seen)}

    def step(self, call: Call) -> None:
        """Follow one call."""
        shapes = [spec.shape for spec in call.outputs]
        if call.layer is None or call.name not in self._written:
            self.keep(call, map(fixed, shapes))
            return
        layer = self._record(call.layer)
        self._note_reads(call, layer)
        inner = self.graph.layers[call.layer].graph
        if inner is not None and layer.graph is not None:
            outputs = self._nested(call, layer, layer.graph, inner)
        else:
            site = self._site(call, layer)
            outputs = [tuple([*tensor]) for tensor in outputs_of(site)]  # noqa: C409 another object
            site.flow.outputs.setdefault(id(call), outputs)
            self._channels.steps.append((site, outputs))
        self.keep(call, outputs)

    def _record(self, key: str) -> Layer:
        if key not in self._graph.layers:
            message = (
                f"graph '{self._graph.name}' is edited, and layer '{key}' of the model that it "
                "builds is not in it; build the graph and pass the model"
            )
            raise GraphError(message)
        return self._graph.layers[key]

    def _note_reads(self, call: Call, layer: Layer) -> None:
        axes = [axis for ref in call.written_refs for axis in self.values[ref]]
        labelled = [axis for axis in axes if axis.labels is not None]
        self._channels.reads.setdefault(layer.identity, []).extend(labelled)

    def _nested(self, call: Call, layer: Layer, graph: Graph, seen: Graph) -> Sequence[Tensor]:
        """Follow the calls of a nested model, for one call of it."""
        path = (*self._path, call.layer or "")
        loop = _Loop(self._channels, graph, seen, path, layer.identity)
        passed, starts = given_tensors(self.graph, call, seen), flat(seen.inputs)
        for ref, start in zip(passed, starts, strict=True):
            tensor, shape = self.values[ref], seen.calls[start.call].outputs[start.index].shape
            if len(tensor) != len(shape):
                for axis in tensor:
                    self._lock(axis, f"nested model '{call.layer}' changes its rank")
                tensor = fixed(shape)
            loop.values[start] = tensor
        loop.make_calls()
        return [loop.values[ref] for ref in leaves(seen.outputs)]

    def _lock(self, axis: Axis, reason: str) -> None:
        if axis.labels is not None:
            self._channels.atoms.lock(axis.labels, reason)

    def lock_outputs(self) -> None:
        """Lock what leaves the model."""
        for ref in leaves(self.graph.outputs):
            for axis in self.values[ref] if isinstance(ref, Ref) else ():
                self._lock(axis, f"it reaches the output '{ref.call}' of the model")

    def _site(self, call: Call, layer: Layer) -> Site:
        live = self.graph.layers[call.layer or ""].origin
        channels = self._channels
        flow = channels.flows.get(layer.identity)
        path = "/".join((*self._path, call.layer or ""))
        if flow is None:
            shapes = _shapes(live)
            flow = channels.flows[layer.identity] = Flow(path, live, shapes)
        named = internals.named_arguments(live, call.args, call.written)
        reads: dict[str, Any] = {}
        constants: dict[str, Any] = {}
        for name, value in named.items():
            if any(isinstance(leaf, Ref) for leaf in leaves(value)):
                flow_of = map_tree(self._value, value)
                if name not in ("mask", "attention_mask", "query_mask", "value_mask", "key_mask"):
                    reads[name] = _listed(flow_of)
            else:
                constants[name] = value
        shapes = tuple(spec.shape for spec in call.outputs)
        slices = channels.slices.setdefault((self._model, call.name), {})
        return Site(
            live,
            flow.path,
            reads,
            shapes,
            constants,
            channels.atoms,
            flow,
            channels.reasons,
            slices=slices,
        )

    def _value(self, leaf: Any) -> Any:
        return _Held(self.values[leaf]) if isinstance(leaf, Ref) else _Held(None)


@dataclass(frozen=True)
class _Held:
    """A tensor that `map_tree` does not look into."""

    tensor: Tensor | None


def _listed(tree: Any) -> Any:
    """Return the tensors of an argument: one, or a list."""
    if isinstance(tree, _Held):
        return tree.tensor
    held = [leaf.tensor for leaf in leaves(tree) if isinstance(leaf, _Held)]
    return [tensor for tensor in held if tensor is not None]


def _shapes(live: Any) -> dict[tuple[str, ...], tuple[int, ...]]:
    if not isinstance(live, keras.Layer):
        return {}
    return {role: tuple(map(int, v.shape)) for role, v in roles_of(live).items()}
