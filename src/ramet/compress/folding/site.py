"""One graph while layers of it are folded: what reads each tensor now, and what is gone."""

from collections import Counter
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.compress.folding.affine import Place, in_training
from ramet.errors import GraphError
from ramet.graph import Call, Graph, Layer, Ref, Spec
from ramet.graph.edits.remove import check_mask_unused
from ramet.graph.names import listed
from ramet.graph.reach import unsettled_calls, written_calls
from ramet.graph.tree import leaves
from ramet.graph.walk import Visit

BUILD_FIRST = "build the graph and trace the model first"
"""What helps if an edit left something open."""


class Kept(Exception):  # noqa: N818 it is no error: the layer stays as it is
    """A layer is not folded; the text is the reason."""


class Uses:
    """How often layers are used, in all graphs of a model."""

    def __init__(self, graph: Graph) -> None:
        """Count the calls of each layer, and the layers that hold each variable."""
        self._calls: Counter[tuple[int, int]] = Counter()
        self._inside: set[int] = set()
        self._owners: Counter[int] = Counter()
        origins: dict[int, Any] = {}
        self._trained: set[tuple[int, int]] = set()
        for visit in graph.walk():  # a model comes after all those that call it
            layers = visit.graph.layers
            inside = self.is_trained(visit.layer)
            for call in visit.graph.calls.values():
                if call.layer is not None:
                    layer = layers[call.layer]
                    self._calls[layer.identity] += 1
                    if layer.graph is not None and (inside or in_training(call)):
                        self._trained.add(layer.identity)
            records = (layer for layer in layers.values() if layer.graph is None)
            origins |= {id(each.origin): each.origin for each in records}
        for origin in origins.values():
            if isinstance(origin, keras.Layer):
                self._owners.update({*map(id, internals.held_variables(origin))})
                inside = internals.all_layers(origin)[1:] if internals.sublayers_of(origin) else ()
                self._inside.update(map(id, inside))
                for part in inside:
                    self._owners.update({*map(id, internals.held_variables(part))})

    def is_trained(self, model: Layer | None) -> bool:
        """Whether a nested model, or one around it, is called with `training=True`."""
        return model is not None and model.identity in self._trained

    def calls(self, layer: Layer) -> int:
        """Return how many calls a layer has."""
        return self._calls[layer.identity]

    def why_shared(self, layer: Layer) -> str | None:
        """Return why other parts of the model would change with a layer, if any would."""
        if self.calls(layer) > 1:
            return f"'{layer.name}' is called {self.calls(layer)} times"
        return self.why_held(layer)

    def why_held(self, layer: Layer) -> str | None:
        """Return why a part of the model that is not a call of a layer would change with it."""
        if id(layer.origin) in self._inside:
            return f"'{layer.name}' is also part of another layer"
        if any(self._owners[id(each)] > 1 for each in internals.held_variables(layer.origin)):
            return f"'{layer.name}' shares its weights with another layer"
        return None


class Site:
    """One graph: its calls, and who reads their outputs once some of them are gone."""

    def __init__(self, visit: Visit, uses: Uses) -> None:
        """Start with nothing gone."""
        self.graph = visit.graph
        self.prefix = visit.prefix
        self.uses = uses
        self.written = {call.name: call for call in written_calls(visit.graph)}
        self.gone: set[str] = set()
        """Names of the calls that are removed."""
        self.operands: dict[str, list[Ref]] = {}
        """The operands of sums that lost some."""
        self._in_training = uses.is_trained(visit.layer)
        self._unsettled = unsettled_calls(visit.graph)
        self._sources: dict[Ref, Ref] = {}
        self._inputs: dict[str, Ref | None] = {}
        """The only tensors that calls are called on, before anything is gone."""
        self._outputs = Counter(leaves(visit.graph.outputs))
        self._readers: dict[Ref, list[str]] = {}
        for call in visit.graph.calls.values():
            for ref in call.refs:
                self._readers.setdefault(ref, []).append(call.name)

    # --- tensors ---

    def source(self, ref: Ref) -> Ref:
        """Return the tensor that is read in place of one."""
        while ref in self._sources:
            ref = self._sources[ref]
        return ref

    def readers(self, ref: Ref) -> list[str]:
        """List the calls that read a tensor, once for each time."""
        return self._readers.get(ref, [])

    def is_output(self, ref: Ref) -> bool:
        """Whether a tensor is an output of the model."""
        return self._outputs[ref] > 0

    def spec(self, ref: Ref) -> Spec:
        """Return what is known of a tensor."""
        return self.graph.calls[ref.call].outputs[ref.index]

    def size(self, ref: Ref, axis: int) -> int:
        """Return the size of an axis of a tensor.

        Raises:
            Kept: If it is only known once the graph is built.
        """
        size = None if ref.call in self._unsettled else self.spec(ref).shape[axis]
        if size is None:
            raise Kept(f"the size of '{ref.call}' is not known; {BUILD_FIRST}")
        return size

    def input_of(self, call: Call) -> Ref | None:
        """Return the only tensor that a call is called on, apart from masks."""
        if call.name not in self._inputs:
            others = [item for key, item in call.written.items() if key != "mask"]
            refs = _refs((others, call.args))
            self._inputs[call.name] = refs[0] if len(refs) == 1 else None
        ref = self._inputs[call.name]
        return None if ref is None else self.source(ref)

    def check_only_reader(self, ref: Ref, reader: str) -> None:
        """Check that nothing but one call, once, uses a tensor.

        Raises:
            Kept: If anything else does.
        """
        if self.is_output(ref):
            raise Kept(f"'{ref.call}' is an output of the model")
        others = [*self.readers(ref)]
        if reader in others:
            others.remove(reader)
        if others:
            names = [f"'{name}'" for name in dict.fromkeys(others)]
            raise Kept(f"'{ref.call}' is also used by {listed(names)}")

    # --- layers ---

    def layer(self, call: Call) -> Layer:
        """Return the record of the layer of a call."""
        return self.graph.layers[call.layer or ""]

    def place(self, call: Call) -> Place | None:
        """Return a layer at a call; `None` if it is not called on one tensor of known shape."""
        ref = self.input_of(call)
        if ref is None or call.layer is None or len(call.outputs) != 1:
            return None
        layer = self.layer(call)
        if layer.is_input or layer.graph is not None:
            return None
        live = self.graph.live_origin().current(layer) if layer.is_changed else layer.origin
        is_settled = ref.call not in self._unsettled
        return Place(layer, call, live, self.spec(ref).shape, is_settled, self._in_training)

    def path(self, call: Call) -> str:
        """Return the path of a call."""
        name = call.layer or call.name
        return self.prefix + (call.name if self.uses.calls(self.layer(call)) > 1 else name)

    # --- removal ---

    def check_removable(self, call: Call) -> None:
        """Check that consumers of a call can read its input instead.

        Raises:
            Kept: If dtype, shape or mask would be another, or are not known.
        """
        ref = self.input_of(call)
        if ref is None:
            raise Kept("it is called on several tensors")
        before, after = self.spec(ref), call.outputs[0]
        if not before.known or not after.known:
            raise Kept(f"its shapes are not known; {BUILD_FIRST}")
        if before.dtype != after.dtype:
            raise Kept(f"it converts {before.dtype} to {after.dtype}")
        if before.shape != after.shape:
            raise Kept("it changes the shape")
        if before.mask != after.mask:
            raise Kept("it changes the mask")
        self.check_mask(call)

    def check_mask(self, call: Call) -> None:
        """Check that no layer is passed the mask of a call by hand.

        Raises:
            Kept: If one is.
        """
        try:
            check_mask_unused(self.graph, call)
        except GraphError:
            raise Kept("its mask is passed to another layer") from None

    def bypass(self, call: Call, ref: Ref) -> None:
        """Remove a call, and let its consumers read another tensor."""
        self.remove(call)
        old = Ref(call.name)
        self._sources[old] = ref
        self._readers.setdefault(ref, []).extend(self._readers.pop(old, []))
        self._outputs[ref] += self._outputs.pop(old, 0)

    def remove(self, call: Call) -> None:
        """Remove a call."""
        self.gone.add(call.name)
        for ref in {self.source(each) for each in call.refs}:
            self._readers[ref] = [name for name in self.readers(ref) if name != call.name]

    def reduce(self, call: Call, operands: list[Ref]) -> None:
        """Let a sum have other operands."""
        for ref in {self.source(each) for each in call.refs} - {*operands}:
            self._readers[ref] = [name for name in self.readers(ref) if name != call.name]
        self.operands[call.name] = operands

    def sources(self) -> dict[Ref, Ref]:
        """Return what is read in place of the outputs of calls that are gone."""
        return {ref: self.source(ref) for ref in self._sources}


def _refs(tree: Any) -> list[Ref]:
    return [leaf for leaf in leaves(tree) if isinstance(leaf, Ref)]
