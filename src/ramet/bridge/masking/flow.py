"""How masks flow through a graph, call by call, as they do when the model runs.

Most of it is recorded: the graph has the mask of every tensor. Two things happen only
when a model runs, and are followed here: the masks that go into and come out of nested
models, and the mask that an argument of a call inside is then filled in with.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras

from ramet.bridge.masking import layers as masking
from ramet.bridge.masking.numbering import Numbers, Place, nested_inputs
from ramet.bridge.masking.parts import Carry, Event, Loss, Mask, Shape, fits, merged, sources_of
from ramet.graph import Call, Graph, Ref, Spec
from ramet.graph.reach import written_calls
from ramet.graph.tree import leaves


@dataclass
class Flow:
    """Follows the masks of a graph, and keeps what it saw."""

    numbers: Numbers = field(default_factory=Numbers)
    carries: dict[Place, Carry] = field(default_factory=dict[Place, Carry])
    specs: dict[Place, Spec] = field(default_factory=dict[Place, Spec])
    """The tensors that the author's calls make, in order."""
    layers: dict[str, Any] = field(default_factory=dict[str, Any])
    """The live layer of every call, by path."""
    graphs: dict[str, Graph] = field(default_factory=dict[str, Graph])
    """The graphs, by prefix."""
    users: dict[Place, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Calls that get the mask of a tensor, and use it."""
    droppers: dict[Place, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Calls that lose the mask of a tensor."""
    takers: dict[Place, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Calls that the author passed a tensor to as a mask."""
    read: set[int] = field(default_factory=set[int])
    """Numbers of the tensors that the author's calls take."""
    used: set[str] = field(default_factory=set[str])
    """Sources of masks that are used."""
    made: dict[int, Mask] = field(default_factory=dict[int, Mask])
    """Masks by number."""
    events: list[Event] = field(default_factory=list[Event])

    def follow(self, graph: Graph) -> None:
        """Follows the masks from the inputs of a graph to its outputs."""
        self.numbers.read(graph, "", {})
        self._graph(graph, "", {})
        for ref in leaves(graph.outputs):
            self._use(self.carry("", ref).mask)
        for number in self.read & self.made.keys():
            self._use(self.made[number])

    def carry(self, prefix: str, ref: Any) -> Carry:
        """Returns what a tensor carries; nothing for a constant."""
        return self.carries.get((prefix, ref), Carry()) if isinstance(ref, Ref) else Carry()

    def _use(self, mask: Mask | None) -> None:
        if mask is not None:
            self.used.update(mask.sources)

    def _graph(self, graph: Graph, prefix: str, inputs: dict[Ref, Carry]) -> None:
        self.graphs[prefix] = graph
        for call in written_calls(graph):
            here = _Here(self, graph, prefix, call)
            self.layers[here.path] = here.layer
            for index, carry in enumerate(here.carries(inputs)):
                place = prefix, Ref(call.name, index)
                self.carries[place], self.specs[place] = carry, call.outputs[index]
                if carry.mask is not None and carry.mask.number is not None:
                    self.made.setdefault(carry.mask.number, carry.mask)

    def nested(self, graph: Graph, prefix: str, inputs: dict[Ref, Carry]) -> list[Carry]:
        """Follows the masks through a nested graph and returns what its outputs carry."""
        self._graph(graph, prefix, inputs)
        return [self.carry(prefix, ref) for ref in keras.tree.flatten(graph.outputs)]

    def used_inside(self, prefix: str, mask: Mask) -> bool:
        """Tells whether a call in a nested graph uses a mask."""
        return any(
            users and place[0].startswith(prefix) and self.carries[place].mask == mask
            for place, users in self.users.items()
        )


@dataclass
class _Here:
    """One call, in one place of the graph."""

    flow: Flow
    graph: Graph
    prefix: str
    call: Call

    def __post_init__(self) -> None:
        self.path = f"{self.prefix}{self.call.name}"
        key = self.call.layer
        self.layer = None if key is None else self.graph.layers[key].origin

    def carries(self, inputs: dict[Ref, Carry]) -> Sequence[Carry]:
        """Says what each output carries; notes on the way what happens to masks."""
        call, count = self.call, len(self.call.outputs)
        if call.layer is None or isinstance(self.layer, keras.layers.InputLayer):
            start = Ref(call.name)
            return [inputs.get(start) or Carry(self._recorded(0, []))]
        self.flow.read.update(self.flow.numbers.places[self.prefix, r] for r in call.written_refs)
        slots = masking.slots(self.layer, call)
        for slot in slots:
            self._look_at(slot)
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

    def _look_at(self, slot: masking.Slot) -> None:
        for ref, given in slot.pairs():
            carry = self.flow.carry(self.prefix, ref)
            if given is not None:
                passed = self._passed(given)
                self._note("passed", ref, passed, slot.name, hidden=carry.mask)
                self.flow.used.update(passed.sources)
                if carry.mask is not None and carry.mask.number == passed.number:
                    _append(self.flow.users[self.prefix, ref], self.path)
                if isinstance(given, Ref):
                    _append(self.flow.takers[self.prefix, given], self.path)
            elif slot.filled and not self._is_nested():
                self._fill(slot, ref, carry)
            elif carry.mask is not None and masking.is_recurrent(self.layer):
                self._note("unfilled", ref, carry.mask, slot.name)

    def _fill(self, slot: masking.Slot, ref: Ref, carry: Carry) -> None:
        """Notes what Keras fills in, and what it would, had it not been lost above."""
        if carry.mask is None:
            for loss in carry.lost:
                if self._uses(ref, loss.mask):
                    self._note("wanted", ref, loss.mask, slot.name, at=loss.at)
        elif self._uses(ref, carry.mask):
            _append(self.flow.users[self.prefix, ref], self.path)
            self.flow.used.update(carry.mask.sources)

    def _uses(self, ref: Ref, mask: Mask) -> bool:
        return masking.uses_mask(self.layer, len(self._shape(ref)), len(mask.shape))

    def _is_nested(self) -> bool:
        return self.call.layer is not None and self.graph.layers[self.call.layer].graph is not None

    def _shape(self, ref: Any) -> Shape:
        if isinstance(ref, Ref):
            return self.graph.calls[ref.call].outputs[ref.index].shape
        return tuple(getattr(ref, "shape", ()))

    def _passed(self, given: Any) -> Mask:
        """Returns a mask that the author passed, as the one that a layer makes if it is one."""
        if not isinstance(given, Ref):
            return Mask((self.path,), None, self._shape(given))
        number = self.flow.numbers.places[self.prefix, given]
        known = self.flow.made.get(number)
        return known or Mask((f"{self.prefix}{given.call}",), number, self._shape(given))

    def _note(self, kind: str, ref: Any, mask: Mask, argument: str | None, **more: Any) -> None:
        shape = self._shape(ref)
        self.flow.events.append(
            Event(
                kind, self.path, self.prefix, self.call, self.layer, argument, shape, mask, **more
            )
        )

    def _check_attached(self, index: int, mask: Mask | None) -> None:
        """Notes a mask that does not fit, at the first tensor that carries it so."""
        shape = self.call.outputs[index].shape
        if mask is None or fits(mask.shape, shape) or masking.broadcasts_mask(self.layer):
            return
        if not any(c.mask == mask and not fits(mask.shape, s) for c, s in self._first()):
            self._note("mismatched", Ref(self.call.name, index), mask, None)

    # --- outputs ---

    def _data(self) -> dict[str, Any]:
        return masking.data_arguments(self.layer, self.call)

    def _first(self) -> list[tuple[Carry, Shape]]:
        """Lists what the tensors of the first argument carry, with their shapes."""
        first = next(iter(self._data().values()), ())
        return [(self.flow.carry(self.prefix, r), self._shape(r)) for r in leaves(first)]

    def _through(self, inner: Graph) -> Sequence[Carry]:
        path = f"{self.path}/"
        given = [
            self._passed(leaf) if leaf is not None else None
            for name in {"mask"} - self.call.derived
            for leaf in leaves(self.call.kwargs.get(name))
        ]
        pairs = nested_inputs(self.call, inner)
        given += [None] * (len(pairs) - len(given))
        starts = {
            ours: Carry(mask) if mask else self.flow.carry(self.prefix, ref)
            for (ours, ref), mask in zip(pairs, given, strict=False)
        }
        outputs = self.flow.nested(inner, path, starts)
        for _, ref in pairs:
            mask = self.flow.carry(self.prefix, ref).mask
            if mask is not None and self.flow.used_inside(path, mask):
                _append(self.flow.users[self.prefix, ref], self.path)
        return outputs

    def _masks(self, slots: list[masking.Slot]) -> list[Mask | None]:
        """Says which mask each output carries."""
        before = self._previous(slots)
        indices = range(len(self.call.outputs))
        if masking.masks_when_run(self.layer, self.call):
            return [Mask((self.path,), None, self.call.outputs[0].shape[:-1])]
        if self._as_recorded() or masking.makes_mask(self.layer):
            return [self._recorded(index, before) for index in indices]
        if masking.drops_mask(self.layer):
            return [None for _ in indices]
        handed = masking.hand_on(self.layer, before, len(indices))
        return [merged(masks, known=not masking.computes_mask(self.layer)) for masks in handed]

    def _previous(self, slots: list[masking.Slot]) -> list[Mask | None]:
        """Lists the masks that Keras gives to `compute_mask`."""
        carried = [carry.mask for carry, _ in self._first()]
        for slot in slots:
            if slot.name == "mask" and slot.given is not None:
                return [None if m is None else self._passed(m) for m in leaves(slot.given)]
        return carried

    def _as_recorded(self) -> bool:
        """Tells whether the masks that come in are those of when the graph was made."""
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
        """Returns the recorded mask of an output, as one of those that came in if it is."""
        mask = self.call.outputs[index].mask
        if mask is None:
            return None
        number, shape = self._number(mask), self._shape(mask)
        came = [m for m in before if m is not None]
        for other in came:
            if number is not None and other.number == number:
                return other
        if not came or masking.makes_mask(self.layer):
            return Mask((self.path,), number, shape)
        return Mask(sources_of(came), number, shape)

    def _lost(self, index: int, mask: Mask | None) -> Iterator[Loss]:
        """Yields the masks that an output would carry, had none been lost."""
        if mask is not None or masking.makes_mask(self.layer):
            return
        after = self.call.outputs[index].shape
        found: dict[Loss, None] = {}
        for ref, carry in self._sources_of_loss(index):
            new = [Loss(carry.mask, self.path)] if carry.mask is not None else list(carry.lost)
            if carry.mask is not None:
                _append(self.flow.droppers[self.prefix, ref], self.path)
            if masking.keeps_time(self.layer, self.call, ref, self._shape(ref), after):
                found.update(dict.fromkeys(new))
        yield from found

    def _sources_of_loss(self, index: int) -> Iterator[tuple[Ref, Carry]]:
        """Yields the tensors whose masks, or lost masks, would have gone to an output."""
        data = self._data()
        if masking.drops_mask(self.layer):
            refs = [leaf for leaf in leaves(data) if isinstance(leaf, Ref)]
            for ref in dict.fromkeys(refs):
                yield ref, self.flow.carry(self.prefix, ref)
                if masking.may_use_mask(self.layer):
                    self._use_inside(ref)
            return
        first = [leaf for leaf in leaves(next(iter(data.values()), ())) if isinstance(leaf, Ref)]
        carries = {ref: self.flow.carry(self.prefix, ref) for ref in first}
        lost_above = any(carry.lost for carry in carries.values())
        if masking.is_merge(self.layer):
            for ref, carry in carries.items():
                if carry.mask is None or not lost_above:
                    yield ref, carry
            return
        ghosts = [ref if carries[ref].lost else None for ref in first]
        for ref in masking.hand_on(self.layer, ghosts, len(self.call.outputs))[index]:
            yield ref, Carry(None, carries[ref].lost)

    def _use_inside(self, ref: Ref) -> None:
        mask = self.flow.carry(self.prefix, ref).mask
        if mask is not None:
            self.flow.used.update(mask.sources)


def _append(paths: list[str], path: str) -> None:
    if path not in paths:
        paths.append(path)
