"""Groups of channels, arranged from atoms that are tied."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ramet import keras_internals as internals
from ramet.compress.channels.atoms import Labels
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
    atoms: dict[str, Labels]
    """The basic atoms of each group, by name, in the order of its channels."""


def arrange(channels: Channels) -> Arrangement:
    """Arrange the atoms of a graph in groups."""
    with internals.paused_collector():  # There is a tuple for each channel of each variable.
        return _arranged(channels)


def _arranged(channels: Channels) -> Arrangement:
    atoms_of = _grouped(channels)
    names = [*atoms_of]
    group_of, number_of = _numbered(atoms_of, channels.atoms.count)
    pairs = ((name, number) for name, atoms in atoms_of.items() for number in range(len(atoms)))
    flat = (atom for atoms in atoms_of.values() for atom in atoms.tolist())
    places = dict(zip(flat, pairs, strict=True))
    members = _members(channels, atoms_of, group_of, number_of)
    crosses = _crosses(channels, places)
    reasons = _reasons(channels, group_of, number_of)
    groups = tuple(
        Group(
            name,
            len(atoms_of[name]),
            tuple(members.get(name, ())),
            tuple(dict.fromkeys(reasons.get(number, ([], []))[1])),
            tuple(dict.fromkeys(reasons.get(number, ([], []))[0])),
            tuple(sorted(crosses.get(name, ()))),
        )
        for number, name in enumerate(names)
    )
    made: dict[str, Axis] = {}
    for flow in channels.flows.values():
        for slot, axis in flow.made.items():
            last = slot.rpartition(".")[2]
            made.setdefault(f"{flow.path}:{last}" if last else flow.path, axis)
    return Arrangement(Groups(channels.graph.name, groups), places, made, atoms_of)


def _grouped(channels: Channels) -> dict[str, Labels]:
    """Return the basic atoms of each group by name, in order.

    Atoms that were created together are in one group, and so are those tied to them; those
    that always stay are in groups of their own.
    """
    atoms = channels.atoms
    every, families = atoms.families()
    if not len(every):
        return {}
    roots, first = np.unique(every, return_index=True)
    order = np.argsort(first)
    roots, first = roots[order], first[order]
    locked = np.isin(every, atoms.noted()[0])
    keys = 2 * families + locked  # of each atom; those of the first of each root stand for it
    firsts = np.zeros(atoms.count, np.int64)
    firsts[roots] = keys[first]
    tops = _tops(firsts[every], keys)
    own = tops[keys[first]]
    groups: dict[str, Labels] = {}
    taken: set[str] = set()
    _, starts = np.unique(own, return_index=True)
    for key in own[np.sort(starts)].tolist():
        members, family = roots[own == key], key // 2
        title = atoms.titles[family]
        # A layer's own name stands for its own channels, of which a group may have others.
        whole = len(members) == atoms.size_of(family)
        groups[_unique(title if whole else f"{title}:group", taken)] = members
    return groups


def _tops(first: Labels, second: Labels) -> Labels:
    """Return the smallest of all keys that pairs connect, for each key."""
    tops = np.arange(max(int(first.max()), int(second.max())) + 1)
    differ = first != second
    pairs = np.unique(np.stack([first[differ], second[differ]], axis=1), axis=0).tolist()

    def top(key: int) -> int:
        while tops[key] != key:
            key = int(tops[key])
        return key

    for one, other in pairs:
        low, high = sorted((top(one), top(other)))
        tops[high] = low
    return np.array([top(key) for key in range(len(tops))])


def _numbered(atoms_of: dict[str, Labels], count: int) -> tuple[Labels, Labels]:
    """Return the number of the group of each atom, or -1, and its number there."""
    group_of, number_of = np.full(count, -1), np.full(count, -1)
    for number, atoms in enumerate(atoms_of.values()):
        group_of[atoms] = number
        number_of[atoms] = np.arange(len(atoms))
    return group_of, number_of


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
    channels: Channels, atoms_of: dict[str, Labels], group_of: Labels, number_of: Labels
) -> dict[str, list[Member]]:
    names = [*atoms_of]
    members: dict[str, list[Member]] = {}
    for identity, role, axis_number, axis, kind in _axes(channels):
        at, basics = channels.atoms.spread(axis.label())
        groups = group_of[basics]
        path = channels.flows[identity].path
        for group in _in_order(groups[groups >= 0]):
            is_here = groups == group
            size = len(atoms_of[names[group]])
            indices = _by_channel(at[is_here], number_of[basics[is_here]], size)
            member = Member(path, ".".join(role), axis_number, kind, indices)
            members.setdefault(names[group], []).append(member)
    return members


def _in_order(numbers: Labels) -> list[int]:
    """List numbers in the order in which they come first."""
    found, first = np.unique(numbers, return_index=True)
    return found[np.argsort(first)].tolist()


def _by_channel(at: Labels, numbers: Labels, size: int) -> tuple[tuple[int, ...], ...]:
    """Return the indices of each channel of a group."""
    counts = np.bincount(numbers, minlength=size)
    ordered = at[np.argsort(numbers, kind="stable")]
    if counts.min() == counts.max():
        return tuple(map(tuple, ordered.reshape(size, -1).tolist()))
    ends = np.cumsum(counts).tolist()
    values = ordered.tolist()
    return tuple(tuple(values[a:b]) for a, b in pairwise([0, *ends]))


def _crosses(channels: Channels, places: dict[int, tuple[str, int]]) -> dict[str, set[str]]:
    """Return which groups share indices of axes, by name."""
    crosses: dict[str, set[str]] = {}
    for *_, axis, _ in _axes(channels):
        for atom in channels.atoms.products(axis.label()):
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
    channels: Channels, group_of: Labels, number_of: Labels
) -> dict[int, tuple[list[str], list[str]]]:
    """Return why channels always stay, and why removing them is lossy, by number of the group."""
    reasons: dict[int, tuple[list[str], list[str]]] = {}
    noted = np.unique(np.concatenate(channels.atoms.noted()))
    for atom in noted[np.argsort(number_of[noted], kind="stable")].tolist():
        locks, losses = reasons.setdefault(int(group_of[atom]), ([], []))
        locks += channels.atoms.locks(atom)
        losses += channels.atoms.losses(atom)
    return reasons
