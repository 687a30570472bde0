"""How much each channel of a group matters, by the values of its variables."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ramet.backends.values import to_numpy
from ramet.building.weights.roles import roles_of
from ramet.compress.channels.follow import Channels
from ramet.results.groups import Group, Member
from ramet.tracing.failures import check_alive

Array = np.ndarray[Any, Any]

_ADDED = frozenset({"bias", "beta"})
"""Variables that are added: they say little of how much a channel matters."""
_STATE = frozenset({"moving_mean", "moving_variance", "mean", "variance", "moving_stddev"})
"""Statistics, which are not trained."""


class Values:
    """The values of the variables that channels run along."""

    def __init__(self, channels: Channels) -> None:
        """Read nothing yet."""
        self._live = {flow.path: flow.live for flow in channels.flows.values()}
        self._roles: dict[str, dict[str, Any]] = {}

    def variable(self, member: Member) -> Any:
        """Return the variable of a member."""
        if member.layer not in self._roles:
            roles = roles_of(self._live[member.layer])
            self._roles[member.layer] = {".".join(role): v for role, v in roles.items()}
        return self._roles[member.layer][member.variable]

    def array(self, member: Member) -> Array:
        """Return the values of the variable of a member."""
        variable = self.variable(member)
        check_alive(variable)
        return np.asarray(to_numpy(variable), np.float64)


def name_of(member: Member) -> str:
    """Return the name of a variable without the attributes that lead to it."""
    return member.variable.rpartition(".")[2]


def weighed(group: Group) -> list[Member]:
    """List the members that say how much a channel matters: what multiplies it."""
    skipped = _ADDED | _STATE
    return [member for member in group.members if name_of(member) not in skipped]


def per_channel(member: Member, values: Array) -> Array:
    """Return the sum of some values for each channel of a member."""
    along = np.moveaxis(values, member.axis, 0).reshape(values.shape[member.axis], -1).sum(1)
    if len({*map(len, member.indices)}) == 1:
        return along[np.array(member.indices, np.int64)].sum(1)
    return np.array([along[[*indices]].sum() for indices in member.indices])


def by_members(group: Group, values: Values, weigh: Callable[[Array], Array]) -> Array | None:
    """Return the mean of a score over the members of a group; `None` if it has none."""
    scores = [per_channel(each, weigh(values.array(each))) for each in weighed(group)]
    return np.mean(scores, axis=0) if scores else None


def _l1(group: Group, values: Values) -> Array | None:
    return by_members(group, values, np.abs)


def _l2(group: Group, values: Values) -> Array | None:
    return by_members(group, values, np.square)


def _bn(group: Group, values: Values) -> Array | None:
    """Return the mean scale of the normalizations of each channel."""
    scales = [m for m in group.members if name_of(m) in ("gamma", "scale") and m.kind == "carried"]
    scores = [per_channel(member, np.abs(values.array(member))) for member in scales]
    return np.mean(scores, axis=0) if scores else None


def _lamp(group: Group, values: Values) -> Array | None:
    """Return squares, each divided by the sum of all that are not smaller."""
    squares = _l2(group, values)
    if squares is None:
        return None
    order = np.argsort(-squares, kind="stable")
    scores = np.empty_like(squares)
    scores[order] = squares[order] / np.maximum(np.cumsum(squares[order]), 1e-30)
    return scores


def _fpgm(group: Group, values: Values) -> Array | None:
    """Return how far each filter is from all others: the one in the middle can be replaced."""
    made = [member for member in weighed(group) if member.kind == "made"]
    scores: list[Array] = []
    for member in made or weighed(group):
        along = np.moveaxis(values.array(member), member.axis, 0)
        flat = along.reshape(len(along), -1)
        width = max(map(len, member.indices), default=0) * flat.shape[1]
        rows = np.zeros((group.size, width))
        for number, indices in enumerate(member.indices):
            row = flat[[*indices]].ravel()
            rows[number, : len(row)] = row
        squares = np.square(rows).sum(1)
        apart = np.maximum(squares[:, None] + squares[None, :] - 2 * rows @ rows.T, 0)
        scores.append(np.sqrt(apart).sum(1))
    return np.mean(scores, axis=0) if scores else None


STATIC: Mapping[str, Callable[[Group, Values], Array | None]] = {
    "l1": _l1,
    "l2": _l2,
    "bn": _bn,
    "lamp": _lamp,
    "fpgm": _fpgm,
}
"""Criteria that need nothing but the values of variables, by name."""
