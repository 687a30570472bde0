"""Where the weights of layers that edits added or changed come from."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import keras

from ramet import keras_internals as internals
from ramet.building.growth.reader import Reader
from ramet.building.growth.site import Site
from ramet.building.weights.computed import Stage, compute
from ramet.building.weights.slots import Heir
from ramet.building.weights.stages import as_edited, staged
from ramet.building.weights.transfer import Moves, Taken, as_kept, chained, take_over
from ramet.errors import StateError
from ramet.graph import Layer
from ramet.results.transfer import Transfer
from ramet.tracing.origin import live_of

if TYPE_CHECKING:
    from ramet.building.builder import EditedBuilder


class Inheritance:
    """What the new layers of one build take over from the old ones."""

    def __init__(self, builder: "EditedBuilder") -> None:
        """Start with nothing taken over."""
        self._builder = builder
        self.taken: dict[int, Taken] = {}
        self._readers = Reader(id), Reader(self._root)
        self._roots: dict[int, int] | None = None
        self._read: dict[int, list[Any]] | None = None
        self._remembered: tuple[dict[int, Any], set[int]] | None = None

    def settle(self) -> None:
        """Set the weights of layers that edits added or changed."""
        done: set[int] = set()
        for record in self._builder.records:
            if isinstance(record.origin, keras.Layer):
                layer = self._builder.layer(record)
                if id(layer) not in done:
                    done.add(id(layer))
                    self._settle(record, layer)
        for source, layer in self._builder.refitted:
            self._note(take_over(source, layer, "fit"), same_layer=True)

    def _settle(self, record: Layer, layer: Any) -> None:
        origin = record.origin
        if self._builder.weights == "fresh":
            if record.changes is not None and internals.is_adapted(origin):
                self._note(take_over(origin, layer, "fit"), same_layer=True)
            return
        if record.brought and record.changes is None and origin.built:
            taken = (Taken(variable, "brought") for variable in layer.variables)
            self.taken |= {id(each.variable): each for each in taken}
        if record.recipe is not None:
            self._note(compute(record, layer, self._stage), same_layer=record.changes is not None)
            self._mark_brought(record, layer)
        elif record.earlier is not None and record.weights != "fresh":
            self._settle_again(record, layer)
        elif record.changes is not None:
            sites = lambda: (self._old_site(origin), self.site(layer))  # noqa: E731 asked late
            self._note(take_over(origin, layer, record.weights, sites), same_layer=True)
            self._mark_brought(record, layer)
        elif record.inherits is not None and not record.is_complete:
            before = record.inherits
            sites = lambda: (self._old_site(before), self.site(layer))  # noqa: E731 asked late
            self._note(take_over(before, layer, record.weights, sites), same_layer=False)
        elif not origin.built:
            self._note([Taken(variable, "fresh") for variable in layer.variables], same_layer=True)

    def _stage(self, record: Layer) -> Stage | None:
        """Return a changed layer as it was right after its last edit."""
        return as_edited(record, self._builder.stages, sites=record.weights != "fit")

    def _settle_again(self, record: Layer, layer: Any) -> None:
        """Set the weights of a layer that was edited twice, as if built in between."""
        stage = staged(record, self._builder.stages)
        if stage is None:
            _check_not_computed(record)
            root, policy = _merged(record)
            sites = lambda: (self._old_site(root), self.site(layer))  # noqa: E731 asked late
            self._note(take_over(root, layer, policy, sites), same_layer=record.inherits is None)
            return
        sites = lambda: (stage.site or self._old_site(record.origin), self.site(layer))  # noqa: E731 asked late
        transfers = take_over(stage.layer, layer, record.weights, sites)
        if record.changes is not None:
            transfers = as_kept(transfers)
        self._note([_composed(stage, each) for each in transfers], same_layer=False)

    def _note(self, transfers: list[Taken], *, same_layer: bool) -> None:
        transfers = as_kept(transfers) if same_layer else transfers
        self.taken |= {id(each.variable): each for each in transfers}

    def _mark_brought(self, record: Layer, layer: Any) -> None:
        if record.brought:
            for variable in layer.variables:
                taken = self.taken.get(id(variable))
                if taken is not None and taken.status == "kept":
                    self.taken[id(variable)] = Taken(variable, "brought")

    # --- layers in their places ---

    def site(self, layer: Any) -> Site:
        """Return a new layer in its place."""
        return self._readers[1].site(layer, internals.calls_of(layer))

    def _old_site(self, layer: Any) -> Site:
        """Return an old layer in its place, in the calls that were traced."""
        if self._read is None:
            self._read = {}
            for graph in self._builder.graphs:
                read = live_of(graph).graph or graph  # Of a part, some calls are as recorded.
                for call in read.calls.values():
                    if call.origin is not None and call.origin.node is not None:
                        nodes = self._read.setdefault(id(call.origin.node.operation), [])
                        nodes.append(call.origin.node)
        nodes = self._read.get(id(layer)) or internals.calls_of(layer)
        return self._readers[0].site(layer, nodes)

    def _root(self, layer: Any) -> int:
        """Return the id of the old layer that a new one was copied from, or replaced."""
        if self._roots is None:
            self._roots = {id(new): id(old) for old, new in self._builder.pairs()}
            for record in self._builder.records:
                root = record.origin if record.inherits is None else record.inherits
                self._roots[id(self._builder.layer(record))] = id(root)
        return self._roots.get(id(layer), id(layer))

    # --- the report ---

    def transfers(self, model: Any) -> Iterator[Transfer]:
        """Yield what became of each variable, the new model's first, then those dropped."""
        originals = self._originals()
        renewed = self._builder.weights == "fresh"
        adapted = self._adapted() if renewed else set[int]()
        used: set[int] = set()
        for variable in model.variables:
            taken = self.taken.get(id(variable))
            if taken is None and renewed and id(variable) not in adapted:
                taken = Taken(variable, "fresh")
            source = originals.get(id(variable)) if taken is None else taken.source
            used.add(id(originals.get(id(variable)) if renewed else source))
            used |= {id(each) for each in (() if taken is None else taken.more)}
            path = None if source is None or source.path == variable.path else source.path
            status, note = ("kept", None) if taken is None else (taken.status, taken.note)
            if status not in ("kept", "brought", "fresh") and source is not None:
                path = source.path
            yield Transfer(variable.path, tuple(variable.shape), status, path, note)
        # With fresh weights no value is carried over: dropped are variables without a successor.
        here = {variable.path for variable in model.variables} if renewed else set[str]()
        for variable in self._sources():
            if id(variable) not in used and variable.path not in here:
                used.add(id(variable))
                yield Transfer(variable.path, tuple(variable.shape), "dropped")

    def heirs(self, model: Any) -> dict[int, Heir]:
        """Return the new variables with elements of an old one, by the ids of the old."""
        originals = self._originals()
        heirs: dict[int, Heir] = {}
        for variable in model.variables:
            taken = self.taken.get(id(variable))
            source = originals.get(id(variable)) if taken is None else taken.source
            whole = taken is None or taken.status in ("kept", "fitted")
            if source is not None and (whole or (taken is not None and taken.moves is not None)):
                moves = None if taken is None else taken.moves
                heirs.setdefault(id(source), Heir(variable, moves))
        return heirs

    def original(self, variable: Any) -> Any:
        """Return the old variable that a kept one was copied from, or is."""
        return self._originals().get(id(variable))

    def remember(self) -> None:
        """Pair the variables with those that they were copied from, before layers get others."""
        self._remembered = self._originals(), self._adapted()

    def note_new(self, variables: list[Any]) -> None:
        """Note that an edit brought variables, with their values."""
        self.taken |= {id(each): Taken(each, "brought") for each in variables}

    def _originals(self) -> dict[int, Any]:
        if self._remembered is not None:
            return self._remembered[0]
        originals: dict[int, Any] = {}
        for old, new in self._builder.pairs():
            both = (internals.layer_state(layer) for layer in (old, new))
            for before, now in zip(*both, strict=True):
                originals[id(now)] = before
        return originals

    def _adapted(self) -> set[int]:
        """Return the ids of new variables whose values were adapted to data, not initialized."""
        if self._remembered is not None:
            return self._remembered[1]
        pairs = (new for old, new in self._builder.pairs() if internals.is_adapted(old))
        return {id(variable) for new in pairs for variable in new.variables}

    def _sources(self) -> list[Any]:
        """List the variables of the old model; of a part, those of its layers."""
        model: Any = live_of(self._builder.graph).model
        if model is not None:
            return list(model.variables)
        variables: list[Any] = []
        for record in self._builder.records:
            layers: list[Any] = [record.inherits, *([] if record.brought else [record.origin])]
            for layer in layers:
                variables += layer.variables if isinstance(layer, keras.Layer) else ()
        return variables


def _check_not_computed(record: Layer) -> None:
    """Check that no earlier edit of a layer computed weights, which would be lost.

    Raises:
        StateError: If one did.
    """
    earlier = record.earlier
    while earlier is not None:
        if earlier.recipe is not None:
            message = (
                f"the weights of '{record.name}' ({record.kind}) were computed by an edit "
                f"({earlier.edit}), and the graph cannot be built there; build it and trace the "
                "model before you edit that layer again"
            )
            raise StateError(message)
        earlier = earlier.earlier


def _merged(record: Layer) -> tuple[Any, str]:
    """Return the first source of a layer's weights, and the widest policy of all its edits."""
    policies: list[str] = []
    last: Layer | None = record
    root = record
    while last is not None:
        policies.append(last.weights)
        root = last
        last = last.earlier
    order = ("fresh", "tile", "grow", "fit")
    policy = next(word for word in order if word in policies)
    source = root.origin if root.changes is not None or root.inherits is None else root.inherits
    return source, policy


def _composed(stage: Stage, taken: Taken) -> Taken:
    """Return what became of a variable over two edits."""
    if taken.source is None:
        return taken
    before = stage.taken.get(id(taken.source))
    if before is None:
        original = stage.original(taken.source)
        source = taken.source if original is None else original
        return Taken(taken.variable, taken.status, source, moves=taken.moves)
    if before.status in ("fresh", "brought"):
        return Taken(taken.variable, before.status, note=before.note)
    same = taken.status in ("kept", "fitted")
    status = before.status if same and before.status != "kept" else taken.status
    if before.status == "computed":
        return Taken(taken.variable, "computed", before.source, taken.note, more=before.more)
    moves = _chained(before.moves, taken.moves)
    return Taken(taken.variable, status, before.source, taken.note, moves)


def _chained(first: Moves | None, second: Moves | None) -> Moves | None:
    if first is None or second is None:
        return first or second
    return chained(first, second)
