"""Groups of channels, arranged from atoms that are tied."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ramet.compress.channels.follow import Channels, Identity
from ramet.compress.channels.site import Axis, Kind
from ramet.graph.values import Role
from ramet.results.groups import Group, Groups, Member


@dataclass(frozen=True)
class Arrangement:
    """The groups, and where each atom is in them."""

    groups: Groups
    """The groups."""
    places: dict[int, tuple[str, int]]
    """The group and number of the channel of each basic atom."""
    made: dict[str, Axis]
    """The axes that layers make, by the path of the layer and the slot."""


def arrange(channels: Channels) -> Arrangement:
    """Arrange the atoms of a graph in groups."""
    places = _places(channels)
    sizes: dict[str, int] = {}
    for name, number in places.values():
        sizes[name] = max(sizes.get(name, 0), number + 1)
    members = _members(channels, places, sizes)
    crosses = _crosses(channels, places)
    reasons = _reasons(channels, places)
    groups = tuple(
        Group(
            name,
            size,
            tuple(members.get(name, ())),
            tuple(dict.fromkeys(reasons[name][1])),
            tuple(dict.fromkeys(reasons[name][0])),
            tuple(sorted(crosses.get(name, ()))),
        )
        for name, size in sizes.items()
    )
    made: dict[str, Axis] = {}
    for flow in channels.flows.values():
        for slot, axis in flow.made.items():
            last = slot.rpartition(".")[2]
            made.setdefault(f"{flow.path}:{last}" if last else flow.path, axis)
    return Arrangement(Groups(channels.graph.name, groups), places, made)


def _places(channels: Channels) -> dict[int, tuple[str, int]]:
    """Return the group and number of each basic atom.

    Atoms that were created together are in one group, and so are those tied to them; those
    that always stay are in groups of their own.
    """
    atoms = channels.atoms
    families = atoms.families()
    keys = {root: bool(atoms.locks(root)) for root in families}
    above: dict[tuple[int, bool], tuple[int, bool]] = {}

    def top(key: tuple[int, bool]) -> tuple[int, bool]:
        while above.setdefault(key, key) != key:
            key = above[key]
        return key

    for root, members in families.items():
        first, *others = ((family, keys[root]) for family in members)
        for other in others:
            low, high = sorted((top(first), top(other)))
            above[high] = low
    names: dict[tuple[int, bool], str] = {}
    counts: dict[str, int] = {}
    places: dict[int, tuple[str, int]] = {}
    taken: set[str] = set()
    sizes = Counter(top((members[0], keys[root])) for root, members in families.items())
    for root, members in families.items():
        key = top((members[0], keys[root]))
        if key not in names:
            title = atoms.titles[key[0]]
            # A layer's own name stands for its own channels, of which a group may have others.
            whole = sizes[key] == atoms.size_of(key[0])
            names[key] = _unique(title if whole else f"{title}:group", taken)
        name = names[key]
        places[root] = name, counts.get(name, 0)
        counts[name] = counts.get(name, 0) + 1
    return places


def _unique(title: str, taken: set[str]) -> str:
    name, number = title, 1
    while name in taken:
        number += 1
        name = f"{title}#{number}"
    taken.add(name)
    return name


def _axes(channels: Channels) -> Iterator[tuple[Identity, Role, int, Axis, Kind]]:
    for identity, flow in channels.flows.items():
        for role, weight in flow.weights.items():
            for number, (axis, kind) in enumerate(weight.axes):
                if axis.labels is not None:
                    yield identity, role, number, axis, kind


def _members(
    channels: Channels, places: dict[int, tuple[str, int]], sizes: dict[str, int]
) -> dict[str, list[Member]]:
    members: dict[str, list[Member]] = {}
    for identity, role, number, axis, kind in _axes(channels):
        maps: dict[str, list[list[int]]] = {}
        for index, atom in enumerate(channels.atoms.roots(axis.label()).tolist()):
            for basic in channels.atoms.basics(atom):
                if basic in places:
                    name, channel = places[basic]
                    if name not in maps:
                        maps[name] = [[] for _ in range(sizes[name])]
                    maps[name][channel].append(index)
        path = channels.flows[identity].path
        for name, lists in maps.items():
            indices = tuple(map(tuple, lists))
            member = Member(path, ".".join(role), number, kind, indices)
            members.setdefault(name, []).append(member)
    return members


def _crosses(channels: Channels, places: dict[int, tuple[str, int]]) -> dict[str, set[str]]:
    """Return which groups share indices of axes, by name."""
    crosses: dict[str, set[str]] = {}
    for *_, axis, _ in _axes(channels):
        for atom in np.unique(channels.atoms.roots(axis.label())).tolist():
            if atom >= 0 and channels.atoms.is_product(atom):
                names = {places[b][0] for b in channels.atoms.basics(atom) if b in places}
                for name in names:
                    crosses.setdefault(name, set()).update(names - {name})
    for flow in channels.flows.values():
        for axes in flow.crossing:
            names = {name for axis in axes if (name := _name(channels, axis, places)) is not None}
            for name in names:
                crosses.setdefault(name, set()).update(names - {name})
    return crosses


def _name(channels: Channels, axis: Axis, places: dict[int, tuple[str, int]]) -> str | None:
    for atom in channels.atoms.roots(axis.label()).tolist()[:1]:
        for basic in channels.atoms.basics(atom):
            return places[basic][0]
    return None


def _reasons(
    channels: Channels, places: dict[int, tuple[str, int]]
) -> dict[str, tuple[list[str], list[str]]]:
    """Return why the channels of each group always stay, and why removing them is lossy."""
    reasons: dict[str, tuple[list[str], list[str]]] = {}
    for basic, (name, _) in places.items():
        locks, losses = reasons.setdefault(name, ([], []))
        locks += channels.atoms.locks(basic)
        losses += channels.atoms.losses(basic)
    return reasons
