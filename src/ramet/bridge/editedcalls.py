"""The calls of one edited graph: which are replayed as recorded, and which are made anew."""

from typing import TYPE_CHECKING, Any, cast

import keras

from ramet.bridge import internals
from ramet.bridge.invoke import invoke
from ramet.bridge.live import is_edited
from ramet.errors import GraphError
from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.names import counted
from ramet.graph.reach import after_mask_makers, mask_makers, written_calls
from ramet.graph.tree import leaves, paired_leaves

if TYPE_CHECKING:
    from ramet.bridge.edited import EditedBuilder


def _is_changed(record: Layer, node: Any) -> bool:
    """Tells whether a layer is another than the one that a node was made with."""
    other = record.changes is not None or record.origin is not node.operation
    return other or (record.graph is not None and is_edited(record.graph))


class EditedCalls:
    """Makes the calls of one edited graph."""

    def __init__(self, builder: "EditedBuilder", graph: Graph) -> None:
        """Starts with no call made."""
        self._builder = builder
        self._graph = graph
        self._memo = builder.copier.memo
        self._tensors: dict[Ref, Any] = {}
        self._unmasked: dict[Ref, Any] = {}
        self._mask_makers = mask_makers(graph)
        self._used: set[int] = set()
        self._passed: set[str] = set()
        # An input brings its mask by another input, not on the tensor that is passed in.
        self._masks_come_in = any(
            isinstance(spec.mask, Ref) and not call.args
            for call in graph.calls.values()
            for spec in call.outputs
        )

    def make(self) -> dict[Ref, Any]:
        """Makes the calls and returns the symbolic tensors."""
        written = {call.name for call in written_calls(self._graph)}
        for call in after_mask_makers(self._graph, self._mask_makers):
            self._attach_masks(call.refs)
            standing = self._standing(call)
            if standing is not None:
                self._replay(call, clean=standing)
            elif call.name in written:
                self._call(call, written)
            self._passed.add(call.name)
        self._attach_masks([*self._unmasked])
        for ref in self._unmasked:
            message = (
                f"the mask of '{ref.call}' in '{self._graph.name}' is computed from what an "
                "edit changed; edit the layer that makes the mask instead"
            )
            raise GraphError(message)
        return self._tensors

    def _standing(self, call: Call) -> bool | None:
        """Tells whether a call is as recorded: `True`, only alike: `False`, or neither."""
        if call.origin is None or call.layer is None:
            return None if call.origin is None else True
        record, node = self._graph.layers[call.layer], call.origin.node
        if _is_changed(record, node) or self._builder.is_resized(record):
            return None
        pairs = paired_leaves(
            (call.args, call.kwargs), (node.arguments.args, node.arguments.kwargs)
        )
        if pairs is None or not all(self._is_alike(new, old) for new, old in pairs):
            return None
        first = id(node) not in self._used and record.apart == self._builder.home
        clean = (
            first
            and self._masks_stand(call)
            and all(
                self._tensors[new] is self._copy_of(old)
                for new, old in pairs
                if isinstance(new, Ref)
            )
        )
        return clean if clean or self._passes_masks_on(call) else None

    def _masks_stand(self, call: Call) -> bool:
        """Whether the masks that a call's outputs had are there, as far as they come before it."""
        if not call.refs:
            return True  # An input brings its mask by another input.
        for source, spec in zip(call.origin.tensors, call.outputs, strict=True):
            if isinstance(spec.mask, Ref) and spec.mask.call in self._passed:
                copy = self._copy_of(internals.get_keras_mask(source))
                if copy is None or self._tensors.get(spec.mask) is not copy:
                    return False
        return True

    def _passes_masks_on(self, call: Call) -> bool:
        """Whether the masks of a call's outputs are those of its inputs, or there are none.

        A layer computes any other mask from its inputs or its weights, so with others it has
        to compute it again.
        """
        carried = [self._graph.calls[ref.call].outputs[ref.index].mask for ref in call.refs]
        return all(
            spec.mask is None or (spec.mask in carried and spec.mask in self._tensors)
            for spec in call.outputs
        )

    def _copy_of(self, tensor: Any) -> Any:
        return self._memo.get(id(internals.original(tensor)))

    def _is_alike(self, new: Any, old: Any) -> bool:
        """Tells whether a layer could not tell an argument from the recorded one."""
        if not isinstance(new, Ref):
            return new is old
        tensor = self._tensors.get(new)
        if tensor is None or not isinstance(old, keras.KerasTensor):
            return False
        if tensor is self._copy_of(old):
            return True
        mask, before = (internals.get_keras_mask(each) for each in (tensor, old))
        same = before is None if mask is None else mask is self._copy_of(before)
        return same and internals.same_spec(tensor, old)

    def _replay(self, call: Call, *, clean: bool) -> None:
        if call.layer is not None:
            self._builder.note_call(self._graph.layers[call.layer])
        sources = call.origin.tensors
        if clean and all(id(source) in self._memo for source in sources):
            made = [self._memo[id(source)] for source in sources]
        else:
            made = self._builder.replay(self._graph, call, self._tensors)
            self._builder.count(made[0])
        if clean:
            for source, copy in zip(sources, made, strict=True):
                self._memo[id(source)] = copy
            self._used.add(id(call.origin.node))
        for index, (tensor, spec) in enumerate(zip(made, call.outputs, strict=True)):
            ref = Ref(call.name, index)
            self._tensors[ref] = tensor
            if spec.mask is not None:
                self._unmasked[ref] = spec.mask

    def _attach_masks(self, refs: Any) -> None:
        """Attaches masks to replayed tensors, as soon as they are made."""
        for ref in refs:
            mask = self._unmasked.get(ref)
            if mask is not None and (not isinstance(mask, Ref) or mask in self._tensors):
                del self._unmasked[ref]
                call = self._graph.calls[ref.call]
                value = self._builder.arguments(self._graph, call, mask, self._tensors)
                internals.set_keras_mask(self._tensors[ref], value)

    def _call(self, call: Call, written: set[str]) -> None:
        record = self._graph.layers[cast("str", call.layer)]
        record = self._builder.resized(self._graph, call, record, self._tensors)
        layer = self._builder.callable_layer(record)
        kwargs = {key: item for key, item in call.kwargs.items() if key not in call.derived}
        args, kwargs = self._builder.arguments(
            self._graph, call, (call.args, kwargs), self._tensors
        )
        layer = self._builder.fitted(record, layer, args)
        if self._masks_come_in:
            kwargs |= internals.implied_masks(layer, args, kwargs)
        outputs = invoke(
            self._graph, call, layer, args, kwargs, lambda: self._builder.path_of(record)
        )
        self._check_count(call, len(outputs))
        self._builder.count(outputs[0])
        for index, (tensor, spec) in enumerate(zip(outputs, call.outputs, strict=False)):
            self._tensors[Ref(call.name, index)] = tensor
            if isinstance(spec.mask, Ref):
                self._follow_mask(call, spec.mask, internals.get_keras_mask(tensor), written)

    def _follow_mask(self, call: Call, before: Ref, mask: Any, written: set[str]) -> None:
        """Lets whoever reads the mask that a layer made before read the one that it makes now."""
        if mask is None:
            self._check_mask_unused(call, before, written)
        elif self._mask_makers.get(before) == call.name and isinstance(mask, keras.KerasTensor):
            self._tensors[before] = mask

    def _check_count(self, call: Call, given: int) -> None:
        """Checks that a call gave every output that is used, and no more than the graph knows."""
        known = len(call.outputs)
        if given == known:
            return
        used = {ref: f"'{c.name}'" for c in self._graph.calls.values() for ref in c.written_refs}
        used |= dict.fromkeys(leaves(self._graph.outputs), "the model's outputs")
        missing = [i for i in range(given, known) if Ref(call.name, i) in used]
        if missing or given > known:
            who = used.get(Ref(call.name, missing[0])) if missing else None
            why = f"its output {missing[0]} is used by {who}" if missing else f"{known} is expected"
            message = (
                f"layer '{call.name}' of '{self._graph.name}' now gives "
                f"{counted(given, 'output')}, but {why}; let it give {known}"
            )
            raise GraphError(message)

    def _check_mask_unused(self, call: Call, mask: Ref, written: set[str]) -> None:
        """Checks that the author does not pass on a mask that its layer no longer makes."""
        for other in self._graph.calls.values():
            if other.name in written and mask in other.written_refs:
                message = (
                    f"layer '{call.name}' of '{self._graph.name}' no longer makes the mask that "
                    f"is passed to '{other.name}'; keep its masking, or rewire that argument of "
                    f"'{other.name}' first"
                )
                raise GraphError(message)
