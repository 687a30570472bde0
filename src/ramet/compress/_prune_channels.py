"""`prune_channels`: remove channels that are named one by one."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np

from ramet._arguments import check_mapping, did_you_mean, shown
from ramet.compress.channels.arrange import Arrangement, arrange
from ramet.compress.channels.follow import Channels, follow
from ramet.compress.pruning.removal import remove
from ramet.errors import OptionError
from ramet.graph import Graph


def prune_channels(model: Any, channels: Mapping[str, Iterable[int]]) -> Graph:
    """Remove channels, from every layer that computes or uses them.

    Nothing is executed before the graph is built. Optimizer slots are cut in the same way.

    Args:
        model: A model that can be traced, or a Graph.
        channels: Indices of the channels to be removed, by the path of the layer that makes
            them, or by the name of a group: `{"conv3": [0, 5, 7], "attention:heads": [1]}`.

    Returns:
        A graph with smaller layers, to edit further or to build.

    Raises:
        OptionError: If a name is not that of a layer that makes channels, or of a group; if an
            index is out of range; if a channel always stays; if nothing would be left.
        ModelError: If the argument is not a model, or has no graph.

    Examples:
        >>> smaller = ramet.compress.prune_channels(model, {"conv": [0, 3]}).build()
        >>> smaller.get_layer("conv").filters
        2
    """
    check_mapping(channels, "channels", "lists of indices by layer or group")
    followed = follow(model)
    arrangement = arrange(followed)
    removed: dict[str, set[int]] = {}
    for name, indices in channels.items():
        for group, numbers in _found(followed, arrangement, name, indices).items():
            removed.setdefault(group, set()).update(numbers)
    return remove(followed, arrangement, removed)


def _found(
    channels: Channels, arrangement: Arrangement, name: str, indices: Any
) -> dict[str, set[int]]:
    """Return the channels that some indices of a layer or group are, by group."""
    axis = arrangement.made.get(name)
    groups = {group.name: group for group in arrangement.groups}
    if axis is None and name not in groups:
        raise OptionError(_unknown(channels, arrangement, name))
    size = int((axis.size if axis is not None else groups[name].size) or 0)
    numbers = _numbers(name, indices, size)
    found = {name: numbers} if axis is None else _along(channels, arrangement, name, numbers)
    for group in found:
        if groups[group].locked:
            message = (
                f"channels of '{name}' cannot be removed: {groups[group].locked[0]}; "
                "ramet.compress.groups lists those that can"
            )
            raise OptionError(message)
    return found


def _along(
    channels: Channels, arrangement: Arrangement, name: str, numbers: set[int]
) -> dict[str, set[int]]:
    """Return the channels whose indices are all on an axis that a layer makes."""
    everywhere: dict[tuple[str, int], set[int]] = {}
    for index, atom in enumerate(arrangement.made[name].label().tolist()):
        for basic in channels.atoms.basics(atom):
            if basic in arrangement.places:
                everywhere.setdefault(arrangement.places[basic], set()).add(index)
    whole = {place: indices for place, indices in everywhere.items() if indices <= numbers}
    left = numbers - {index for indices in whole.values() for index in indices}
    if left:
        index = min(left)
        parts = {group: at for (group, _), at in everywhere.items() if index in at}
        shown = " or ".join(f"{sorted(at)} ('{group}')" for group, at in parts.items())
        message = (
            f"channel {index} of '{name}' can only be removed with others: {shown}; name all of "
            "them, or name the group"
        )
        raise OptionError(message)
    found = dict[str, set[int]]()
    for group, number in whole:
        found.setdefault(group, set()).add(number)
    return found


def _numbers(name: str, indices: Any, size: int) -> set[int]:
    if not isinstance(indices, (list, tuple, set, frozenset, range, np.ndarray)):
        raise OptionError(f"channels['{name}'] must be a list of indices, got {shown(indices)}")
    numbers: set[int] = set()
    for index in cast("Iterable[Any]", indices):
        if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            message = f"channels['{name}'] must be a list of indices, but has {shown(index)}"
            raise OptionError(message)
        if not 0 <= int(index) < size:
            message = f"'{name}' has no channel {shown(int(index))}; it has {size}, from 0"
            raise OptionError(message)
        numbers.add(int(index))
    return numbers


def _unknown(channels: Channels, arrangement: Arrangement, name: str) -> str:
    known = [*arrangement.made, *(group.name for group in arrangement.groups)]
    inner = [f"'{other}'" for other in known if other.startswith(f"{name}:")]
    if inner:
        return f"layer '{name}' makes several kinds of channels; name one: {', '.join(inner)}"
    carrying = [
        group.name
        for group in arrangement.groups
        if any(member.layer == name for member in group.members)
    ]
    if carrying:
        return (
            f"layer '{name}' makes no channels of its own; name the layer or group that makes "
            f"them: '{carrying[0]}'"
        )
    graph = channels.graph
    hint = did_you_mean(name, known) or "; ramet.compress.groups lists the groups"
    return f"no layer '{name}' of graph '{graph.name}' makes channels{hint}"
