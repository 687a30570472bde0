"""How much is left of a model without some channels, and which ratio leaves so much."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ramet.compress.channels.arrange import Arrangement
from ramet.compress.channels.follow import Channels
from ramet.compress.channels.site import Axis
from ramet.errors import OptionError
from ramet.graph import Graph
from ramet.profiling.profile import profile_of
from ramet.results.profile import CallCost
from ramet.tracing.settled import settled

Array = np.ndarray[Any, Any]
Removed = Mapping[str, list[int]]

_ROUNDS = 17
"""Steps of a bisection, by which the ratio is known to a hundred-thousandth."""


class Sizes:
    """The sizes of variables without some channels, by arithmetic."""

    def __init__(self, channels: Channels, arrangement: Arrangement) -> None:
        """Number the channels of all groups."""
        self._starts: dict[str, int] = {}
        total = 0
        for group in arrangement.groups:
            self._starts[group.name] = total
            total += group.size
        self._total = total
        self._channels = channels
        self._numbers = np.full(channels.atoms.count, total)
        for name, atoms in arrangement.atoms.items():
            self._numbers[atoms] = self._starts[name] + np.arange(len(atoms))
        self._tables: dict[int, Array] = {}
        self._shapes = {
            flow.path: [weight.axes for weight in flow.weights.values()]
            for flow in channels.flows.values()
        }
        self._paths = [*self._shapes]

    def factors(self, removed: Removed) -> dict[str, list[tuple[int, int]]]:
        """Return the elements of each labelled variable before and after, by layer."""
        kept = np.ones(self._total + 1, bool)
        for name, numbers in removed.items():
            kept[[self._starts[name] + number for number in numbers]] = False
        factors: dict[str, list[tuple[int, int]]] = {}
        for path, variables in self._shapes.items():
            for axes in variables:
                before = after = 1
                for axis, _ in axes:
                    before *= int(axis.size or 0)
                    after *= self._size(axis, kept)
                factors.setdefault(path, []).append((before, after))
        return factors

    def _size(self, axis: Axis, kept: Array) -> int:
        if axis.labels is None:
            return int(axis.size or 0)
        if id(axis) not in self._tables:
            self._tables[id(axis)] = self._table(axis)
        return int(kept[self._tables[id(axis)]].all(axis=1).sum())

    def _table(self, axis: Axis) -> Array:
        """Return the numbers of the channels that each index belongs to."""
        at, basics = self._channels.atoms.spread(axis.label())
        counts = np.bincount(at, minlength=axis.size or 0)
        table = np.full((len(counts), max(int(counts.max(initial=0)), 1)), self._total)
        order = np.argsort(at, kind="stable")
        starts = np.cumsum(counts) - counts
        table[at[order], np.arange(len(at)) - np.repeat(starts, counts)] = self._numbers[
            basics[order]
        ]
        return table


class Budget:
    """How many parameters or multiply-accumulates a model has without some channels."""

    def __init__(self, channels: Channels, arrangement: Arrangement, what: str) -> None:
        """Count what the model has.

        Args:
            channels: The channels of its graph.
            arrangement: Their groups.
            what: `params` or `macs`.
        """
        self._sizes = Sizes(channels, arrangement)
        self.what = what
        """`params` or `macs`."""
        self.name = channels.graph.name
        """The name of the graph."""
        profile = profile_of(channels.seen)
        self.total: int = getattr(profile, what)
        """How much of it there is."""
        self._macs: dict[str, int] = {}
        for cost in _leaves(profile.calls):
            path = "/".join(step.partition("#")[0] for step in cost.path.split("/"))
            self._macs[path] = self._macs.get(path, 0) + cost.macs

    def left(self, removed: Removed) -> int:
        """Return what is left without some channels; of MACs, an estimate.

        The MACs of a layer are taken to shrink as its largest variable does.
        """
        factors = self._sizes.factors(removed)
        if self.what == "params":
            saved = sum(before - after for each in factors.values() for before, after in each)
            return self.total - saved
        saved = 0.0
        for path, pairs in factors.items():
            before, after = max(pairs)
            saved += self._macs.get(path, 0) * (1 - after / max(before, 1))
        return round(self.total - saved)


def counted(graph: Graph, what: str) -> int:
    """Return what an edited graph has once it is built."""
    return getattr(profile_of(settled(graph)), what)


def _leaves(calls: tuple[CallCost, ...]) -> list[CallCost]:
    costs = [cost for call in calls for cost in call.walk()]
    return [cost for cost in costs if not cost.inside]


def least_removed(
    budget: Budget, limit: float, part: float, removed_at: Callable[..., Removed]
) -> Removed:
    """Return the least to remove that leaves at most so much.

    Args:
        budget: Counts what is left.
        limit: How much may be left.
        part: The same as a part of the model, for messages.
        removed_at: Returns what to remove for a ratio.

    Raises:
        OptionError: If even the largest ratio leaves more.
    """
    what, removed = budget.what, removed_at(ratio=1.0)
    least = budget.left(removed)
    if least > limit:
        message = (
            f"{what}={part:.3g} cannot be met: without all channels that may be removed, "
            f"'{budget.name}' still has {least:,} of {budget.total:,} {what} "
            f"({least / max(budget.total, 1):.1%}); allow more, raise max_ratio, or lower round_to"
        )
        raise OptionError(message)
    low, high = 0.0, 1.0
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        candidate = removed_at(ratio=middle)
        if budget.left(candidate) > limit:
            low = middle
        else:
            high, removed = middle, candidate
    return removed
