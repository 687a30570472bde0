"""The calls of one edited graph: some are replayed as recorded, the others call layers."""

from typing import TYPE_CHECKING, Any, Literal, cast

import keras

from ramet import keras_internals as internals
from ramet.building.invoke import invoke
from ramet.building.layer_group import LayerGroup
from ramet.building.replay import copied_arguments, replay
from ramet.errors import GraphError
from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.interpret import CallLoop
from ramet.graph.names import counted
from ramet.graph.reach import after_mask_makers, mask_makers, written_calls
from ramet.graph.tree import leaves, paired_leaves
from ramet.tracing.mask_slots import implied_masks
from ramet.tracing.origin import is_edited

if TYPE_CHECKING:
    from ramet.building.builder import EditedBuilder


def _is_changed(record: Layer, node: Any) -> bool:
    """Whether a layer differs from the one that a recorded call was made with."""
    differs = record.changes is not None or record.origin is not node.operation
    return differs or (record.graph is not None and is_edited(record.graph))


class EditedCalls(CallLoop):
    """Makes the calls of one edited graph; values are symbolic tensors."""

    def __init__(self, builder: "EditedBuilder", group: LayerGroup, graph: Graph) -> None:
        """Start with no call made.

        Args:
            builder: What builds the whole model; has the new layers.
            group: The group that the model of this graph belongs to.
            graph: The graph.
        """
        super().__init__(graph)
        self._builder = builder
        self._group = group
        self._memo = group.copier.memo
        self._unmasked: dict[Ref, Any] = {}
        """Replayed tensors with the masks that they are to carry, once those exist."""
        self._mask_makers = mask_makers(graph)
        self._used: set[int] = set()
        """Ids of recorded calls whose copies are in the memo: each may stand there once."""
        self._passed: set[str] = set()
        """Names of the calls that were made or passed over."""
        self._written = {call.name for call in written_calls(graph)}
        # An input brings its mask by another input, not on the tensor that is passed in.
        self._masks_come_in = any(
            isinstance(spec.mask, Ref) and not call.args
            for call in graph.calls.values()
            for spec in call.outputs
        )

    def make(self) -> dict[Ref, Any]:
        """Make the calls and return the symbolic tensors."""
        self.make_calls(after_mask_makers(self.graph, self._mask_makers))
        self._attach_masks([*self._unmasked])
        for ref in self._unmasked:
            message = (
                f"the mask of '{ref.call}' in '{self.graph.name}' is computed from what an "
                "edit changed; edit the layer that makes the mask instead"
            )
            raise GraphError(message)
        return self.values

    def is_needed(self, call: Call) -> bool:  # noqa: ARG002 all calls are
        """Return True: a value that is known already may be the mask that a layer computed."""
        return True

    def step(self, call: Call) -> None:
        """Replay a call, or call its layer if that is not possible."""
        self._attach_masks(call.refs)
        likeness = self._likeness(call)
        if likeness is not None:
            self._replay(call, exact=likeness == "exact")
        elif call.name in self._written:
            self._call(call)
        self._passed.add(call.name)

    def _likeness(self, call: Call) -> Literal["exact", "alike"] | None:
        """Return how a call resembles its record.

        Returns:
            `"exact"` if it is the recorded call, on copies of the recorded tensors; `"alike"`
            if its outputs have the recorded specs and masks; `None` if it has to be made by
            calling its layer.
        """
        if call.origin is None or call.layer is None:
            return None if call.origin is None else "exact"
        record, node = self.graph.layers[call.layer], call.origin.node
        if _is_changed(record, node) or self._builder.is_resized(record):
            return None
        pairs = paired_leaves(
            (call.args, call.kwargs), (node.arguments.args, node.arguments.kwargs)
        )
        if pairs is None or not all(self._is_alike(new, old) for new, old in pairs):
            return None
        first = id(node) not in self._used and record.apart == self._group.number
        exact = (
            first
            and self._masks_stand(call)
            and all(
                self.values[new] is self._copy_of(old) for new, old in pairs if isinstance(new, Ref)
            )
        )
        if exact:
            return "exact"
        return "alike" if self._passes_masks_on(call) else None

    def _masks_stand(self, call: Call) -> bool:
        """Whether the recorded masks of a call's outputs are there, if they are made before it."""
        if not call.refs:
            return True  # An input brings its mask by another input.
        for source, spec in zip(call.origin.tensors, call.outputs, strict=True):
            if isinstance(spec.mask, Ref) and spec.mask.call in self._passed:
                copy = self._copy_of(internals.get_keras_mask(source))
                if copy is None or self.values.get(spec.mask) is not copy:
                    return False
        return True

    def _passes_masks_on(self, call: Call) -> bool:
        """Whether the masks of a call's outputs are those of its inputs, or there are none.

        A layer computes any other mask from its inputs or its weights, so with others it has
        to compute it again.
        """
        carried = [self.graph.calls[ref.call].outputs[ref.index].mask for ref in call.refs]
        return all(
            spec.mask is None or (spec.mask in carried and spec.mask in self.values)
            for spec in call.outputs
        )

    def _copy_of(self, tensor: Any) -> Any:
        return self._memo.get(id(internals.original(tensor)))

    def _is_alike(self, new: Any, old: Any) -> bool:
        """Whether an argument is the same to a layer as the recorded one."""
        if not isinstance(new, Ref):
            return new is old
        tensor = self.values.get(new)
        if tensor is None or not isinstance(old, keras.KerasTensor):
            return False
        if tensor is self._copy_of(old):
            return True
        mask, before = (internals.get_keras_mask(each) for each in (tensor, old))
        same = before is None if mask is None else mask is self._copy_of(before)
        return same and internals.same_spec(tensor, old)

    def _replay(self, call: Call, *, exact: bool) -> None:
        """Record a call without running it, or reuse its copy; its masks are attached later."""
        if call.layer is not None:
            self._builder.note_call(self.graph.layers[call.layer])
        sources = call.origin.tensors
        if exact and all(id(source) in self._memo for source in sources):
            outputs = [self._memo[id(source)] for source in sources]
        else:
            record = None if call.layer is None else self.graph.layers[call.layer]
            layer = None if record is None else self._builder.layer(record)
            outputs = replay(self._group.copier, self.graph, call, layer, self.values)
            self._builder.order.append(outputs[0])
        if exact:
            for source, copy in zip(sources, outputs, strict=True):
                self._memo[id(source)] = copy
            self._used.add(id(call.origin.node))
        self.keep(call, outputs)
        for index, spec in enumerate(call.outputs):
            if spec.mask is not None:
                self._unmasked[Ref(call.name, index)] = spec.mask

    def _attach_masks(self, refs: Any) -> None:
        """Attach masks to replayed tensors, as soon as there are any."""
        for ref in refs:
            mask = self._unmasked.get(ref)
            if mask is not None and (not isinstance(mask, Ref) or mask in self.values):
                del self._unmasked[ref]
                call = self.graph.calls[ref.call]
                value = self._arguments(call, mask)
                internals.set_keras_mask(self.values[ref], value)

    def _arguments(self, call: Call, tree: Any) -> Any:
        return copied_arguments(self._group.copier, self.graph, call, tree, self.values)

    def _call(self, call: Call) -> None:
        record = self.graph.layers[cast("str", call.layer)]
        record = self._builder.resized(self.graph, call, record, self.values)
        layer = self._builder.callable_layer(record)
        args, kwargs = self._arguments(call, (call.args, call.written))
        layer = self._builder.fitted(record, layer, args)
        if self._masks_come_in:
            kwargs |= implied_masks(layer, args, kwargs)
        outputs = invoke(
            self.graph, call, layer, args, kwargs, lambda: self._builder.path_of(record)
        )
        self._check_count(call, len(outputs))
        self._builder.order.append(outputs[0])
        self.keep(call, outputs)
        for tensor, spec in zip(outputs, call.outputs, strict=False):
            if isinstance(spec.mask, Ref):
                self._follow_mask(call, spec.mask, internals.get_keras_mask(tensor))

    def _follow_mask(self, call: Call, before: Ref, mask: Any) -> None:
        """Pass the mask that a layer makes now to the consumers of the one that it made before."""
        if mask is None:
            self._check_mask_unused(call, before)
        elif self._mask_makers.get(before) == call.name and isinstance(mask, keras.KerasTensor):
            self.values[before] = mask

    def _check_count(self, call: Call, count: int) -> None:
        """Check that a call returned every output that is used, and no more than are recorded."""
        known = len(call.outputs)
        if count == known:
            return
        used = {ref: f"'{c.name}'" for c in self.graph.calls.values() for ref in c.written_refs}
        used |= dict.fromkeys(leaves(self.graph.outputs), "the model's outputs")
        missing = [i for i in range(count, known) if Ref(call.name, i) in used]
        if missing or count > known:
            who = used.get(Ref(call.name, missing[0])) if missing else None
            why = (
                f"its output {missing[0]} is used by {who}"
                if missing
                else f"{known} {'is' if known == 1 else 'are'} expected"
            )
            message = (
                f"layer '{call.name}' of '{self.graph.name}' now returns "
                f"{counted(count, 'output')}, but {why}; let it return {known}"
            )
            raise GraphError(message)

    def _check_mask_unused(self, call: Call, mask: Ref) -> None:
        """Check that no call is explicitly passed a mask that its layer no longer makes."""
        for other in self.graph.calls.values():
            if other.name in self._written and mask in other.written_refs:
                message = (
                    f"layer '{call.name}' of '{self.graph.name}' no longer makes the mask that "
                    f"is passed to '{other.name}'; keep its masking, or rewire that argument of "
                    f"'{other.name}' first"
                )
                raise GraphError(message)
