"""Removed channels, and what a graph without them is equal to: the one before, with them masked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ramet.compress.channels.arrange import Arrangement
from ramet.compress.channels.follow import Channels
from ramet.compress.channels.resize import resized
from ramet.graph import Graph
from ramet.graph.data import Edit
from ramet.graph.stages import Zeros
from ramet.results.groups import Group


@dataclass(frozen=True, eq=False, repr=False)
class RemovedChannels:
    """Channels that one edit removed. It is kept beside the journal, for `prove`."""

    channels: Channels
    """The channels of the graph before."""
    arrangement: Arrangement
    """Its groups."""
    kept: Mapping[str, Sequence[int]]
    """The channels that are left of each group that gets smaller, by name."""

    @property
    def graph(self) -> Graph:
        """The graph that had them."""
        return self.channels.graph

    @property
    def exact(self) -> tuple[int, int]:
        """How many channels, of how many groups, are removed exactly."""
        return self._counts(exact=True)

    @property
    def lossy(self) -> tuple[int, int]:
        """How many channels, of how many groups, are not."""
        return self._counts(exact=False)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why they are not, by group."""
        lossy = (group for group in self._groups() if not group.exact)
        return tuple(f"'{group.name}': {group.lossy[0]}" for group in lossy)

    def zeros(self, *, exact: bool) -> list[Zeros]:
        """List what is zero when the channels are masked: all, or those removed exactly.

        That is what belongs to them in all variables that make or carry them.
        """
        zeros: list[Zeros] = []
        for group in self._groups():
            if exact and not group.exact:
                continue
            gone = sorted({*range(group.size)} - {*self.kept[group.name]})
            for member in group.members:
                indices = tuple(index for number in gone for index in member.indices[number])
                if member.kind != "read" and indices:
                    zeros.append(Zeros(member.layer, member.variable, member.axis, indices))
        return zeros

    def without_exact(self) -> Graph:
        """Return the graph without the channels that are removed exactly, and no others."""
        kept = {group.name: self.kept[group.name] for group in self._groups() if group.exact}
        edit = Edit("prune the groups that are exact")
        return resized(self.channels, self.arrangement, kept, edit)

    def _groups(self) -> list[Group]:
        return [self.arrangement.groups[name] for name in self.kept]

    def _counts(self, *, exact: bool) -> tuple[int, int]:
        groups = [group for group in self._groups() if group.exact == exact]
        return sum(group.size - len(self.kept[group.name]) for group in groups), len(groups)
