"""Graphs with other channels: fewer, more, or in another order.

Pruning and widening are the same surgery: a list says for each new channel of a group which old
one it comes from. All variables, configs and constants that depend on the group follow.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet.backends.values import to_numpy
from ramet.compress.channels.arrange import Arrangement
from ramet.compress.channels.atoms import Labels
from ramet.compress.channels.follow import Channels, Identity
from ramet.compress.channels.grown import Growth
from ramet.compress.channels.site import Axis, Flow, Kind
from ramet.errors import GraphError, OptionError
from ramet.graph import Call, Graph, Layer
from ramet.graph.data import Edit
from ramet.graph.edits.draft import Draft
from ramet.graph.edits.nested import placed_layers, rebuilt
from ramet.graph.edits.remake import Remade, remade_layer
from ramet.graph.journal import with_entry
from ramet.graph.stages import Stage
from ramet.graph.values import Role, Value, Variable, take
from ramet.tracing.configs import raw_config


@dataclass
class Plan:
    """Which channels groups have after an edit."""

    channels: Channels
    """The channels of the graph."""
    arrangement: Arrangement
    """Its groups."""
    sources: Mapping[str, Sequence[int]]
    """For each new channel, the old one that it comes from, or -1 for zeros; by group."""
    _known: dict[int, Labels | None] = field(default_factory=dict[int, Any])

    @cached_property
    def _stays(self) -> Labels | None:
        """Whether each atom stays; `None` if channels are added or moved."""
        stays = np.ones(self.channels.atoms.count, bool)
        for name, sources in self.sources.items():
            numbers = np.array([*sources], np.int64)
            if not len(numbers) or (np.diff(numbers, prepend=-1) <= 0).any():
                return None
            atoms = self.arrangement.atoms[name]
            stays[atoms] = False
            stays[atoms[numbers]] = True
        return stays

    def indices(self, axis: Axis) -> Labels | None:
        """Return which old index each new index of an axis comes from; `None` if all stay."""
        if axis.labels is None:
            return None
        if id(axis) not in self._known:
            self._known[id(axis)] = self._indices(axis)
        return self._known[id(axis)]

    def _indices(self, axis: Axis) -> Labels | None:
        if self._stays is None:
            return self._moved_indices(axis)
        at, basics = self.channels.atoms.spread(axis.label())
        gone = at[~self._stays[basics]]
        return np.delete(np.arange(axis.size or 0), gone) if len(gone) else None

    def _moved_indices(self, axis: Axis) -> Labels | None:
        roots = self.channels.atoms.roots(axis.label()).tolist()
        places: list[dict[str, int]] = []
        for atom in roots:
            basics = self.channels.atoms.basics(atom)
            found = (self.arrangement.places[b] for b in basics if b in self.arrangement.places)
            places.append({name: number for name, number in found if name in self.sources})
        current = [*range(len(roots))]
        for name in dict.fromkeys(name for place in places for name in place):
            numbers = [places[i].get(name, -1) if i >= 0 else -1 for i in current]
            current = [current[i] if i >= 0 else -1 for i in self._moved(name, numbers)]
        if current == [*range(len(roots))]:
            return None
        return np.array(current, np.int64)

    def _moved(self, name: str, numbers: Sequence[int]) -> list[int]:
        """Return which positions of an axis stay, or are repeated, for one group.

        Args:
            name: The group.
            numbers: The channel of the group at each position, or -1.
        """
        sources = [*self.sources[name]]
        if all(a < b for a, b in zip([-1, *sources], sources, strict=False)):
            kept = {*sources}
            return [i for i, number in enumerate(numbers) if number < 0 or number in kept]
        return self._in_blocks(name, sources, numbers)

    def _in_blocks(self, name: str, sources: list[int], numbers: Sequence[int]) -> list[int]:
        """Replace each run of all channels in order by the new channels."""
        size = self.arrangement.groups[name].size
        moved: list[int] = []
        at = 0
        while at < len(numbers):
            if numbers[at] < 0:
                moved.append(at)
                at += 1
                continue
            times = 1
            while at + times < len(numbers) and numbers[at + times] == numbers[at]:
                times += 1
            times = times if size > 1 else 1
            expected = np.repeat(np.arange(size), times).tolist()
            if [*numbers[at : at + size * times]] != expected:
                message = (
                    f"the channels of group '{name}' are not in one piece everywhere, so only "
                    "some of them can be removed; they cannot be repeated or moved"
                )
                raise GraphError(message)
            for source in sources:
                start = at + source * times
                moved += [start + i if source >= 0 else -1 for i in range(times)]
            at += size * times
        return moved

    def size(self, axis: Axis) -> int:
        """Return the new size of an axis."""
        indices = self.indices(axis)
        return int(axis.size or 0) if indices is None else len(indices)

    def changes(self, axis: Axis) -> bool:
        """Whether an axis is another one after the edit."""
        return self.indices(axis) is not None


def resized(  # noqa: PLR0913 each is another part of the edit
    channels: Channels,
    arrangement: Arrangement,
    sources: Mapping[str, Sequence[int]],
    edit: Edit,
    *,
    growth: Growth | None = None,
    stage: Stage | None = None,
) -> Graph:
    """Return a graph in which groups have other channels, with an entry in its journal.

    Args:
        channels: The channels of the graph.
        arrangement: Its groups.
        sources: For each new channel, the old one that it comes from, or -1 for zeros; by the
            names of groups. Other groups stay.
        edit: The edit.
        growth: How new channels start, so that the function stays the same; by default with
            zeros.
        stage: What the graph was before the edit; by default the graph.

    Raises:
        GraphError: If the channels of a group cannot be repeated or moved.
    """
    plan = Plan(channels, arrangement, sources)
    graph = channels.graph
    records = placed_layers(graph)
    remade: dict[Identity, Remade] = {}
    for identity, flow in channels.flows.items():
        one = _remade(plan, records[identity], flow, growth)
        if one is not None:
            remade[identity] = one
    constants = _new_constants(plan, grows=growth is not None)

    def renewed(layer: Layer) -> Layer:
        new = remade.get(layer.identity)
        return layer if new is None else remade_layer(records[layer.identity], new, edit)

    def changed(inner: Graph) -> Graph:
        calls = {name: call for name, call in inner.calls.items() if id(call) in constants}
        if not calls:
            return inner
        draft = Draft(inner, edit)
        for name, call in calls.items():
            draft.change_call(name, **_with_constants(inner, call, constants[id(call)]))
        return draft.done()

    return with_entry(rebuilt(graph, edit, renewed, changed), edit, stage)


def _remade(plan: Plan, record: Layer, flow: Flow, growth: Growth | None) -> Remade | None:
    """Return what becomes of one layer; `None` if it stays as it is."""
    recipe: dict[Role, Value] = {}
    for role, weight in flow.weights.items():
        moved: list[tuple[Labels | None, Kind]] = [(plan.indices(a), k) for a, k in weight.axes]
        if all(indices is None for indices, _ in moved):
            continue
        value: Value = Variable(record, role)
        if growth is not None:
            place = record.identity, role
            recipe[role] = growth.grown(value, place, flow.shapes[role], moved)
            continue
        for number, (indices, _) in enumerate(moved):
            if indices is None:
                continue
            if not len(indices):
                message = (
                    f"nothing would be left of axis {number} of the {'.'.join(role)} of "
                    f"'{flow.path}'; leave at least one of its channels"
                )
                raise OptionError(message)
            value = take(value, indices, number)
        recipe[role] = value
    changes = _changes(plan, flow)
    if growth is not None:
        changes |= growth.changes.get(record.identity, {})
    reads = plan.channels.reads.get(record.identity, ())
    is_layer = isinstance(flow.live, keras.Layer)
    if recipe or changes or (is_layer and any(map(plan.changes, reads))):
        return Remade(changes, recipe)
    return None


def _changes(plan: Plan, flow: Flow) -> dict[str, Any]:
    """Return the constructor arguments of a layer that follow from new sizes."""
    if not any(map(plan.changes, flow.sizes.values())):
        return {}
    sizes = {slot: plan.size(axis) for slot, axis in flow.sizes.items() if axis.size is not None}
    changes: dict[str, Any] = {}
    for steps, function in flow.configs.items():
        new = dict(function(sizes))
        if not steps:
            changes |= new
            continue
        first = steps[0]
        if first not in changes:
            changes[first] = _without_sizes(copy.deepcopy(raw_config(flow.live)[first]))
        node = changes[first]
        for step in steps[1:]:
            node = _config_in(node)[step]
        _config_in(node).update(new)
    return changes


def _config_in(node: Any) -> Any:
    """Return the config in a serialized object."""
    if isinstance(node, dict) and "config" in node and "class_name" in node:
        return cast("dict[str, Any]", node)["config"]
    return node


def _without_sizes(config: Any) -> Any:
    """Return a config without the sizes that the layers in it were built for."""
    if isinstance(config, dict):
        items = cast("dict[str, Any]", config).items()
        return {key: _without_sizes(item) for key, item in items if key != "build_config"}
    if isinstance(config, (list, tuple)):
        return [_without_sizes(item) for item in cast("list[Any]", config)]
    return config


# --- constants of calls ---


def _new_constants(plan: Plan, *, grows: bool) -> dict[int, dict[str, Any]]:
    """Return the new slices and arrays in the arguments of calls, by the ids of the calls.

    Args:
        plan: Which channels there are.
        grows: Whether new channels get something else than zeros, which nothing can be divided
            by or learned from: the average of all where constants are added, or else the first.
    """
    constants: dict[int, dict[str, Any]] = {}
    for visit in plan.channels.graph.walk():
        for name, call in visit.graph.calls.items():
            notes = plan.channels.slices.get((visit.identity, name), {})
            for argument, pieces in notes.items():
                if argument == "key":
                    new = tuple(_step(plan, piece) for piece in pieces)
                elif any(map(plan.changes, pieces)):
                    live = visit.graph.layers[call.layer or ""].origin
                    new = partial(_cut, plan, pieces, _filling(live) if grows else None)
                else:
                    continue
                constants.setdefault(id(call), {})[argument] = new
    return constants


def _filling(live: Any) -> Callable[[Any, int], Any]:
    """Return what gives new channels a constant: the average for a sum, or else the first one."""
    if type(live).__name__ in ("Add", "Subtract"):
        return lambda values, axis: values.mean(axis)
    return lambda values, axis: values.take(0, axis)


def _cut(plan: Plan, axes: Sequence[Axis], fill: Any, array: Any) -> Any:
    """Return a constant array with the channels that there are now."""
    values = to_numpy(array)
    for number, axis in enumerate(axes):
        indices = plan.indices(axis)
        if indices is not None:
            start = 0 if fill is None else fill(values, number)
            values = values.take(indices, number)
            np.moveaxis(values, number, 0)[indices < 0] = start
    return values if isinstance(array, np.ndarray) else keras.ops.convert_to_tensor(values)


def _step(plan: Plan, piece: Any) -> Any:
    if not isinstance(piece, tuple):
        return piece
    before, inside = cast("tuple[Axis, Axis | None]", piece)
    start = plan.size(before)
    return start if inside is None else slice(start, start + plan.size(inside), None)


def _with_constants(graph: Graph, call: Call, constants: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call with other constants."""
    args, kwargs = [*call.args], dict(call.kwargs)
    names = [*internals.call_signature(graph.layers[call.layer or ""].origin).parameters]
    for name, new in constants.items():
        holder: Any = kwargs if name in kwargs else args
        at: Any = name if name in kwargs else names.index(name)
        holder[at] = new(holder[at]) if callable(new) else new
    return {"args": tuple(args), "kwargs": kwargs}
