"""How masks flow through a graph, call by call, as they do when the model runs.

Most of it is recorded: the graph has the mask of every tensor. Two things happen only
when a model runs, and are followed here: masks go into and come out of nested models, and
Keras fills in the mask arguments of the calls inside.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras

from ramet.graph import Call, Graph, Ref, Spec
from ramet.graph.interpret import CallLoop
from ramet.graph.reach import written_calls
from ramet.graph.tree import leaves
from ramet.masking import behavior
from ramet.masking.data import Carry, Event, LostMask, Mask, Shape, fits, merged, sources_of
from ramet.masking.numbering import Numbers, Place, nested_inputs
from ramet.tracing.mask_slots import Slot, mask_slots


@dataclass
class Flow:
    """Follows the masks of a graph, and records what happens to them."""

    numbers: Numbers = field(default_factory=Numbers)
    """Identifies masks: those that are computed alike have one number."""
    carries: dict[Place, Carry] = field(default_factory=dict[Place, Carry])
    """What each tensor carries."""
    specs: dict[Place, Spec] = field(default_factory=dict[Place, Spec])
    """The outputs of explicit calls (not of those that Keras added for masks), in order."""
    layers: dict[str, Any] = field(default_factory=dict[str, Any])
    """The live layer of every call, by path."""
    graphs: dict[str, Graph] = field(default_factory=dict[str, Graph])
    """The graphs, by prefix."""
    users: dict[Place, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Calls that use the mask of a tensor."""
    droppers: dict[Place, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Calls that lose the mask of a tensor."""
    passed_to: dict[Place, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Calls that get a tensor as an explicit mask argument."""
    read: set[int] = field(default_factory=set[int])
    """Numbers of the tensors that are explicit arguments of calls."""
    used: set[str] = field(default_factory=set[str])
    """Sources of masks that are used."""
    masks: dict[int, Mask] = field(default_factory=dict[int, Mask])
    """Masks by number."""
    events: list[Event] = field(default_factory=list[Event])
    """What `lint` judges."""

    def follow(self, graph: Graph) -> None:
        """Follow the masks from the inputs of a graph to its outputs."""
        self.numbers.read(graph, "", {})
        self._graph(graph, "", {})
        for ref in leaves(graph.outputs):
            self.use(self.carry("", ref).mask)
        for number in self.read & self.masks.keys():
            self.use(self.masks[number])

    def carry(self, prefix: str, ref: Any) -> Carry:
        """Return what a tensor carries; nothing for a constant."""
        return self.carries.get((prefix, ref), Carry()) if isinstance(ref, Ref) else Carry()

    def use(self, mask: Mask | None) -> None:
        """Note that a mask is used, if there is one."""
        if mask is not None:
            self.used.update(mask.sources)

    def _graph(self, graph: Graph, prefix: str, inputs: dict[Ref, Carry]) -> None:
        self.graphs[prefix] = graph
        _GraphFlow(self, graph, prefix, inputs).make_calls(written_calls(graph))

    def nested(self, graph: Graph, prefix: str, inputs: dict[Ref, Carry]) -> list[Carry]:
        """Follow the masks through a nested graph, and return what its outputs carry."""
        self._graph(graph, prefix, inputs)
        return [self.carry(prefix, ref) for ref in keras.tree.flatten(graph.outputs)]

    def used_inside(self, prefix: str, mask: Mask) -> bool:
        """Whether a call in a nested graph uses a mask."""
        return any(
            users and place[0].startswith(prefix) and self.carries[place].mask == mask
            for place, users in self.users.items()
        )


class _GraphFlow(CallLoop):
    """Follows the masks of one graph at one place; values are what tensors carry."""

    def __init__(self, flow: Flow, graph: Graph, prefix: str, inputs: dict[Ref, Carry]) -> None:
        super().__init__(graph)
        self._flow, self._prefix, self._inputs = flow, prefix, inputs

    def step(self, call: Call) -> None:
        """Follow the masks through one call."""
        flow = _CallFlow(self._flow, self.graph, self._prefix, call)
        self._flow.layers[flow.path] = flow.layer
        self.keep(call, flow.carries(self._inputs))

    def keep(self, call: Call, outputs: Iterable[Carry]) -> None:
        """Keep what the outputs of a call carry, for the graphs around this one too."""
        carries = [*outputs]
        super().keep(call, carries)
        for index, carry in enumerate(carries):
            place = self._prefix, Ref(call.name, index)
            self._flow.carries[place], self._flow.specs[place] = carry, call.outputs[index]
            if carry.mask is not None and carry.mask.number is not None:
                self._flow.masks.setdefault(carry.mask.number, carry.mask)


@dataclass
class _CallFlow:
    """What happens to masks at one call, in one place of the graph."""

    flow: Flow
    graph: Graph
    prefix: str
    call: Call

    def __post_init__(self) -> None:
        self.path = f"{self.prefix}{self.call.name}"
        key = self.call.layer
        self.layer = None if key is None else self.graph.layers[key].origin

    def carries(self, inputs: dict[Ref, Carry]) -> Sequence[Carry]:
        """Return what each output carries, and record what happens to masks on the way."""
        call, count = self.call, len(self.call.outputs)
        if call.layer is None or self.graph.layers[call.layer].is_input:
            start = Ref(call.name)
            return [inputs.get(start) or Carry(self._recorded(0, []))]
        self.flow.read.update(self.flow.numbers.places[self.prefix, r] for r in call.written_refs)
        slots = mask_slots(self.layer, call.args, call.written)
        for slot in slots:
            self._check_slot(slot)
        inner = self.graph.layers[call.layer].graph
        if inner is not None:
            return self._through(inner)
        masks = self._masks(slots)
        for index, mask in enumerate(masks):
            self._check_attached(index, mask)
        return [
            Carry(masks[index], tuple(self._lost(index, masks[index]))) for index in range(count)
        ]

    # --- mask arguments ---

    def _check_slot(self, slot: Slot) -> None:
        """Record which masks a mask argument gets: passed explicitly, filled in, or none."""
        for ref, argument in slot.pairs():
            carry = self.flow.carry(self.prefix, ref)
            if argument is not None:
                passed = self._passed(argument)
                self._note("passed", ref, passed, slot.name, hidden=carry.mask)
                self.flow.use(passed)
                if carry.mask is not None and carry.mask.number == passed.number:
                    _append(self.flow.users[self.prefix, ref], self.path)
                if isinstance(argument, Ref):
                    _append(self.flow.passed_to[self.prefix, argument], self.path)
            elif slot.filled and not self._is_nested():
                self._fill(slot, ref, carry)
            elif carry.mask is not None and behavior.is_recurrent(self.layer):
                self._note("unfilled", ref, carry.mask, slot.name)

    def _fill(self, slot: Slot, ref: Ref, carry: Carry) -> None:
        """Record what Keras fills in, or would fill in if the mask had not been lost above."""
        if carry.mask is None:
            for loss in carry.lost:
                if self._uses(ref, loss.mask):
                    self._note("wanted", ref, loss.mask, slot.name, at=loss.at)
        elif self._uses(ref, carry.mask):
            _append(self.flow.users[self.prefix, ref], self.path)
            self.flow.use(carry.mask)

    def _uses(self, ref: Ref, mask: Mask) -> bool:
        return behavior.uses_mask(self.layer, len(self._shape(ref)), len(mask.shape))

    def _is_nested(self) -> bool:
        return self.call.layer is not None and self.graph.layers[self.call.layer].graph is not None

    def _shape(self, ref: Any) -> Shape:
        if isinstance(ref, Ref):
            return self.graph.calls[ref.call].outputs[ref.index].shape
        return tuple(getattr(ref, "shape", ()))

    def _passed(self, argument: Any) -> Mask:
        """Return a mask that is passed explicitly, as that of the layer that made it, if any."""
        if not isinstance(argument, Ref):
            return Mask((self.path,), None, self._shape(argument))
        number = self.flow.numbers.places[self.prefix, argument]
        known = self.flow.masks.get(number)
        return known or Mask((f"{self.prefix}{argument.call}",), number, self._shape(argument))

    def _note(self, kind: str, ref: Any, mask: Mask, argument: str | None, **more: Any) -> None:
        shape = self._shape(ref)
        self.flow.events.append(
            Event(
                kind, self.path, self.prefix, self.call, self.layer, argument, shape, mask, **more
            )
        )

    def _check_attached(self, index: int, mask: Mask | None) -> None:
        """Record a mask that does not fit its tensor, at the first tensor where it does not."""
        shape = self.call.outputs[index].shape
        if mask is None or fits(mask.shape, shape) or behavior.broadcasts_mask(self.layer):
            return
        if not any(c.mask == mask and not fits(mask.shape, s) for c, s in self._first()):
            self._note("mismatched", Ref(self.call.name, index), mask, None)

    # --- outputs ---

    def _data(self) -> dict[str, Any]:
        return behavior.data_arguments(self.layer, self.call)

    def _first(self) -> list[tuple[Carry, Shape]]:
        """List what the tensors of the first argument carry, with their shapes."""
        first = next(iter(self._data().values()), ())
        return [(self.flow.carry(self.prefix, r), self._shape(r)) for r in leaves(first)]

    def _through(self, inner: Graph) -> Sequence[Carry]:
        """Follow the masks through a nested model, and return what its outputs carry."""
        path = f"{self.path}/"
        passed = [
            self._passed(leaf) if leaf is not None else None
            for leaf in leaves(self.call.written.get("mask", ()))
        ]
        pairs = nested_inputs(self.call, inner)
        passed += [None] * (len(pairs) - len(passed))
        starts = {
            ours: Carry(mask) if mask else self.flow.carry(self.prefix, ref)
            for (ours, ref), mask in zip(pairs, passed, strict=False)
        }
        outputs = self.flow.nested(inner, path, starts)
        for _, ref in pairs:
            mask = self.flow.carry(self.prefix, ref).mask
            if mask is not None and self.flow.used_inside(path, mask):
                _append(self.flow.users[self.prefix, ref], self.path)
        return outputs

    def _masks(self, slots: list[Slot]) -> list[Mask | None]:
        """List the mask that each output carries."""
        before = self._previous(slots)
        indices = range(len(self.call.outputs))
        if behavior.masks_when_run(self.layer, self.call):
            return [Mask((self.path,), None, self.call.outputs[0].shape[:-1])]
        if self._as_recorded() or behavior.makes_mask(self.layer):
            return [self._recorded(index, before) for index in indices]
        if behavior.drops_mask(self.layer):
            return [None for _ in indices]
        by_output = behavior.passed_on(self.layer, before, len(indices))
        return [merged(masks, known=not behavior.computes_mask(self.layer)) for masks in by_output]

    def _previous(self, slots: list[Slot]) -> list[Mask | None]:
        """List the masks that Keras passes to `compute_mask`."""
        carried = [carry.mask for carry, _ in self._first()]
        for slot in slots:
            if slot.name == "mask" and slot.given is not None:
                return [None if m is None else self._passed(m) for m in leaves(slot.given)]
        return carried

    def _as_recorded(self) -> bool:
        """Whether the masks of the inputs are those that were recorded with the graph."""
        for ref in self.call.written_refs:
            mask = self.flow.carry(self.prefix, ref).mask
            spec = self.graph.calls[ref.call].outputs[ref.index]
            recorded = None if spec.mask is None else self._number(spec.mask)
            if (mask is None) != (spec.mask is None) or (mask and mask.number != recorded):
                return False
        return True

    def _number(self, mask: Any) -> int | None:
        return self.flow.numbers.places[self.prefix, mask] if isinstance(mask, Ref) else None

    def _recorded(self, index: int, before: Sequence[Mask | None]) -> Mask | None:
        """Return the recorded mask of an output, as that of an input if it is the same."""
        mask = self.call.outputs[index].mask
        if mask is None:
            return None
        number, shape = self._number(mask), self._shape(mask)
        incoming = [m for m in before if m is not None]
        for other in incoming:
            if number is not None and other.number == number:
                return other
        if not incoming or behavior.makes_mask(self.layer):
            return Mask((self.path,), number, shape)
        return Mask(sources_of(incoming), number, shape)

    def _lost(self, index: int, mask: Mask | None) -> Iterator[LostMask]:
        """Yield the masks that an output would carry if none had been lost."""
        if mask is not None or behavior.makes_mask(self.layer):
            return
        after = self.call.outputs[index].shape
        lost: dict[LostMask, None] = {}
        for ref, carry in self._sources_of_loss(index):
            new = [LostMask(carry.mask, self.path)] if carry.mask is not None else list(carry.lost)
            if carry.mask is not None:
                _append(self.flow.droppers[self.prefix, ref], self.path)
            if behavior.keeps_time(self.layer, self.call, ref, self._shape(ref), after):
                lost.update(dict.fromkeys(new))
        yield from lost

    def _sources_of_loss(self, index: int) -> Iterator[tuple[Ref, Carry]]:
        """Yield the tensors whose masks, or lost masks, would have reached an output."""
        data = self._data()
        if behavior.drops_mask(self.layer):
            refs = [leaf for leaf in leaves(data) if isinstance(leaf, Ref)]
            for ref in dict.fromkeys(refs):
                yield ref, self.flow.carry(self.prefix, ref)
                if behavior.may_use_mask(self.layer):
                    self.flow.use(self.flow.carry(self.prefix, ref).mask)
            return
        first = [leaf for leaf in leaves(next(iter(data.values()), ())) if isinstance(leaf, Ref)]
        carries = {ref: self.flow.carry(self.prefix, ref) for ref in first}
        lost_above = any(carry.lost for carry in carries.values())
        if behavior.is_merge(self.layer):
            for ref, carry in carries.items():
                if carry.mask is None or not lost_above:
                    yield ref, carry
            return
        ghosts = [ref if carries[ref].lost else None for ref in first]
        for ref in behavior.passed_on(self.layer, ghosts, len(self.call.outputs))[index]:
            yield ref, Carry(None, carries[ref].lost)


def _append(paths: list[str], path: str) -> None:
    if path not in paths:
        paths.append(path)
