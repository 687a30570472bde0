"""Specs and live layers of an edited graph as they will be once it is built, on demand."""

from typing import Any

from ramet import keras_internals as internals
from ramet.building.reconfigure import current
from ramet.graph import Graph, Layer, Ref, Spec
from ramet.graph.edits.freeze import without_flags
from ramet.graph.locate import calls_of_layer
from ramet.graph.reach import pruned, written_calls
from ramet.tracing.origin import is_edited, live_of
from ramet.tracing.specs import spec_of


class Inferred:
    """Specs and live layers of one graph, also while replacements are put into it.

    Specs that a graph was traced with hold until an edit. After that, what lies above the
    tensors in question is built once, on the same weights, and is kept as long as no
    replacement changes a shape or dtype.
    """

    def __init__(self, graph: Graph) -> None:
        """Start with what was traced, if the graph is as it was traced."""
        self._stale = is_edited(graph)
        self._tensors: dict[Ref, Any] = {}
        self._specs: dict[Ref, Spec] = {}

    def specs(self, graph: Graph, refs: list[Ref]) -> list[Spec]:
        """Return the specs of some tensors of the graph as it is now."""
        if self._stale:
            self._infer(graph, refs)
        return [self._specs.get(ref) or _recorded(graph, ref) for ref in refs]

    def all_specs(self, graph: Graph) -> list[Spec]:
        """Return the specs of all tensors that the outputs depend on."""
        return self.specs(graph, _written_refs(graph))

    def layer(self, graph: Graph, key: str) -> Any:
        """Return a live layer as it will be, built."""
        record = graph.layers[key]
        if _is_complete(record):
            return current(record)
        ref = Ref(calls_of_layer(graph, key)[0].name)
        if ref not in self._tensors:
            self._infer(graph, [ref])
        source = internals.producer(self._tensors[ref])
        return current(record) if source is None else source[0].operation

    def replaced(self, before: Graph, after: Graph, mapping: dict[Ref, Ref]) -> None:
        """Note that tensors of a graph were replaced by others, whose specs are known."""
        for old, new in mapping.items():
            was, now = self._specs.get(old) or _recorded(before, old), _recorded(after, new)
            self._specs[new] = now
            if (was.shape, was.dtype, was.known) != (now.shape, now.dtype, True):
                self._stale = True

    def _infer(self, graph: Graph, refs: list[Ref]) -> None:
        wanted = _written_refs(graph)
        try:
            tensors = _built(graph, wanted)
        except Exception:  # noqa: BLE001 an error further down need not matter here
            wanted, tensors = refs, _built(graph, refs)
        self._tensors = dict(zip(wanted, tensors, strict=True))
        self._specs = {ref: spec_of(tensor) for ref, tensor in self._tensors.items()}
        # If the rest cannot be built, only the requested specs are known.
        self._stale = wanted is refs


def _is_complete(record: Layer) -> bool:
    """Whether a live layer is final, without being called in its graph."""
    edited = record.changes is not None or (record.graph is not None and is_edited(record.graph))
    return not edited and getattr(record.origin, "built", True)


def _recorded(graph: Graph, ref: Ref) -> Spec:
    return graph.calls[ref.call].outputs[ref.index]


def _written_refs(graph: Graph) -> list[Ref]:
    return [Ref(c.name, i) for c in written_calls(graph) for i in range(len(c.outputs))]


def _built(graph: Graph, refs: list[Ref]) -> list[Any]:
    """Build what some tensors depend on, on the same weights, and return the new tensors."""
    part = pruned(without_flags(graph).changed(outputs=[*refs], origin=live_of(graph).part()))
    with internals.untouched_names(), internals.untouched_randomness():
        try:
            return part.build(weights="share").outputs
        except Exception as error:
            error.add_note(f"while inferring the shapes of graph '{graph.name}' for a rewrite")
            raise
