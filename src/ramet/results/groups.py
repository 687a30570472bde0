"""What `ramet.compress.groups` returns."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from ramet._arguments import check_text, did_you_mean, shown
from ramet.errors import OptionError
from ramet.graph.names import brief, counted, listed
from ramet.results.base import Listing, Table

Kind: TypeAlias = Literal["made", "carried", "read"]


@dataclass(frozen=True, slots=True, repr=False)
class Member:
    """One axis of one variable that channels of a group run along.

    Examples:
        >>> [member.kind for member in ramet.compress.groups(model)["conv"].members[:2]]
        ['made', 'made']
    """

    layer: str
    """Path of the layer."""
    variable: str
    """The variable in its layer: `kernel`, `cell.recurrent_kernel`."""
    axis: int
    """The axis."""
    kind: Kind
    """`made`: the variable creates the channels. `carried`: it has a value for each of them.
    `read`: it mixes them into other channels."""
    indices: tuple[tuple[int, ...], ...]
    """For each channel of the group, the indices of the axis that belong to it."""

    def __repr__(self) -> str:
        """Return the variable and what it does with the channels, on one line."""
        return brief("Member", f"'{self.layer}' {self.variable}, axis {self.axis}: {self.kind}")


@dataclass(frozen=True, slots=True, repr=False)
class Group:
    """Channels that can be removed one by one, each from all layers that have it.

    To *mask* a channel is to set to zero what belongs to it in all variables that make or
    carry it. If the group is `exact`, removing the channel is the same as masking it.

    Examples:
        >>> ramet.compress.groups(model)["conv"].layers
        ('conv', 'norm', 'head')
    """

    name: str
    """The first layer that makes its channels: `conv3`, or `attention:heads` for one that makes
    several."""
    size: int
    """How many channels it has."""
    members: tuple[Member, ...]
    """All axes of variables that its channels run along."""
    lossy: tuple[str, ...] = ()
    """Why removing a channel differs from masking it."""
    locked: tuple[str, ...] = ()
    """Why its channels always stay."""
    crosses: tuple[str, ...] = ()
    """Names of groups that it shares indices with, as heads share them with the width of heads."""

    @property
    def exact(self) -> bool:
        """Whether removing a channel is the same as masking it, up to rounding."""
        return not self.lossy

    @property
    def free(self) -> bool:
        """Whether its channels can be removed."""
        return not self.locked

    @property
    def layers(self) -> tuple[str, ...]:
        """Paths of the layers that have its channels, each once."""
        return tuple(dict.fromkeys(member.layer for member in self.members))

    def __repr__(self) -> str:
        """Return name, size and state, on one line."""
        return brief("Group", f"'{self.name}': {counted(self.size, 'channel')}, {self.state}")

    @property
    def state(self) -> str:
        """`exact`, `lossy` or `locked`."""
        return "locked" if self.locked else "lossy" if self.lossy else "exact"


@dataclass(frozen=True, slots=True, repr=False)
class Groups(Listing[Group]):
    """The groups of channels of a model, those that always stay included.

    Examples:
        >>> [(group.name, group.size, group.state) for group in ramet.compress.groups(model)]
        [('conv', 4, 'exact'), ('head', 3, 'locked')]
    """

    name: str
    """Name of the model."""
    groups: tuple[Group, ...]
    """All groups, in the order of the model."""

    @property
    def ok(self) -> bool:
        """Whether a channel can be removed anywhere."""
        return bool(self.free)

    @property
    def free(self) -> tuple[Group, ...]:
        """The groups whose channels can be removed."""
        return tuple(group for group in self.groups if group.free)

    @property
    def title(self) -> str:
        """How many groups there are, in words."""
        exact = sum(group.free and group.exact for group in self.groups)
        count = counted(len(self.groups), "group")
        return f"channels of '{self.name}': {count}, {len(self.free)} free, {exact} of them exact"

    def __getitem__(self, name: str) -> Group:
        """Return the group of that name.

        Raises:
            OptionError: If there is none.
        """
        for group in self.groups:
            if group.name == name:
                return group
        check_text(name, "the name of a group")
        hint = did_you_mean(name, [group.name for group in self.groups])
        raise OptionError(f"'{self.name}' has no group of channels {shown(name)}{hint}")

    def table(self) -> Table:
        """Return one row per group, and below why some are lossy or locked."""
        rows = [
            (group.name, str(group.size), group.state, str(len(group.layers)), _first(group))
            for group in self.groups
        ]
        columns = ("group", "channels", "state", "layers", "why")
        return Table(self.title, columns, rows, numbers=frozenset({"channels", "layers"}))

    def to_dict(self) -> dict[str, Any]:
        """Return all groups as plain data, for JSON."""
        groups = [{**asdict(group), "state": group.state} for group in self.groups]
        return {"name": self.name, "ok": self.ok, "groups": groups}

    def _items(self) -> tuple[Group, ...]:
        return self.groups


def _first(group: Group) -> str:
    reasons = group.locked or group.lossy
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{listed(reasons[:1])}{more}"
