"""Decide which channels of which groups are removed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ramet.errors import OptionError
from ramet.graph.names import counted, listed
from ramet.results.groups import Group, Groups

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Limits:
    """How many channels a group keeps at least."""

    round_to: int = 1
    """Sizes are multiples of it, unless a group is smaller."""
    max_ratio: float = 1.0
    """The largest part of a group that may be removed."""

    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many channels groups had before the first step, by name."""

    def size(self, group: Group) -> int:
        """Return how many channels a group had before the first step."""
        return self.sizes.get(group.name, group.size)

    def kept(self, group: Group, ratio: float) -> int:
        """Return how many channels a group keeps if a part of it is to be removed."""
        size, step = self.size(group), self.round_to
        wanted = size * (1 - min(ratio, self.max_ratio))
        rounded = int(np.floor(wanted / step + 0.5)) * step
        return min(group.size, max(self._least(size), rounded))

    def _least(self, size: int) -> int:
        """Return the smallest size that a group may have."""
        step = min(self.round_to, size)
        least = int(np.ceil(size * (1 - self.max_ratio) - 1e-9))
        return min(size, max(step, -(-least // step) * step))


def chosen(groups: Groups, keep: Any, only: Any) -> list[Group]:
    """Return the groups that may be pruned.

    Of groups that cross each other, as heads and their width, the last one is pruned, unless
    `only` names others.

    Raises:
        OptionError: If a name is in no group, or nothing is left.
    """
    kept, named = _patterns(keep, "keep"), _patterns(only, "only")
    for pattern in (*kept, *named):
        if not any(_matches(group, pattern) for group in groups):
            message = (
                f"'{pattern}' is in no group of '{groups.name}'; ramet.compress.groups lists the "
                "groups and their layers"
            )
            raise OptionError(message)
    free = [group for group in groups.free if group.size > 1]
    free = [group for group in free if not any(_matches(group, each) for each in kept)]
    if named:
        chosen = [group for group in free if any(_matches(group, each) for each in named)]
        exact = [g for g in chosen if any(g.name == each for each in named)]
        chosen = [g for g in chosen if g in exact or not _is_block(g, chosen)]
    else:
        chosen = [group for group in free if not _is_block(group, free)]
    if not chosen:
        raise OptionError(_nothing(groups, named))
    return chosen


def _is_block(group: Group, groups: Sequence[Group]) -> bool:
    """Whether a later group crosses this one."""
    later = groups[groups.index(group) + 1 :]
    return any(other.name in group.crosses for other in later)


def _matches(group: Group, pattern: str) -> bool:
    makers = {member.layer for member in group.members if member.kind == "made"}
    return any(fnmatchcase(name, pattern) for name in (group.name, *makers))


def _patterns(value: Any, what: str) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple, set, frozenset)) or not all(
        isinstance(name, str) for name in names
    ):
        raise OptionError(f"{what} must be names of layers or groups, in a list")
    return [*names]


def _nothing(groups: Groups, named: Sequence[str]) -> str:
    reasons = [reason for group in groups for reason in group.locked]
    if named:
        reasons = [
            reason
            for group in groups
            if any(_matches(group, each) for each in named)
            for reason in group.locked
        ]
    why = f": {reasons[0]}" if reasons else ""
    return (
        f"no channels of '{groups.name}' can be removed{why}; ramet.compress.groups lists the "
        "groups"
    )


def removed_by(
    groups: Sequence[Group], scores: Mapping[str, Array], ratio: float, scope: str, limits: Limits
) -> dict[str, list[int]]:
    """Return the channels with the lowest scores, by group.

    Args:
        groups: The groups that may be pruned.
        scores: How much each channel matters, by group.
        ratio: The part of the channels to be removed, of those before the first step.
        scope: Whether each group loses that part (`local`), or all of them together (`global`),
            or those of one shape together (`isomorphic`).
        limits: How many channels a group keeps at least.
    """
    scored = [group for group in groups if group.name in scores]
    if scope == "local":
        return {
            group.name: _lowest(group, scores[group.name], limits.kept(group, ratio))
            for group in scored
        }
    rivals: dict[Any, list[Group]] = {}
    for group in scored:
        rivals.setdefault(None if scope == "global" else _shape(group), []).append(group)
    removed: dict[str, list[int]] = {}
    for together in rivals.values():
        removed |= _together(together, scores, ratio, limits)
    return removed


def _shape(group: Group) -> tuple[Any, ...]:
    """Return what groups that are alike have in common."""
    members = sorted((m.variable, m.axis, m.kind) for m in group.members)
    return group.size, *members


def _together(
    groups: Sequence[Group], scores: Mapping[str, Array], ratio: float, limits: Limits
) -> dict[str, list[int]]:
    """Remove the lowest of all scores, each relative to the mean of its group."""
    relative = {g.name: scores[g.name] / max(float(scores[g.name].mean()), 1e-30) for g in groups}
    pairs = sorted(
        (score, group.name, number)
        for group in groups
        for number, score in enumerate(relative[group.name].tolist())
    )
    before = sum(map(limits.size, groups))
    counts = {group.name: limits.size(group) - group.size for group in groups}
    for _, name, _ in pairs[: max(0, round(before * ratio) - sum(counts.values()))]:
        counts[name] += 1
    return {
        group.name: _lowest(
            group, scores[group.name], limits.kept(group, counts[group.name] / limits.size(group))
        )
        for group in groups
    }


def _lowest(group: Group, scores: Array, kept: int) -> list[int]:
    """Return the channels with the lowest scores, but not all of those that a layer has."""
    order = np.argsort(scores, kind="stable").tolist()
    removed = {*order[: len(order) - kept]}
    partial = [member.indices for member in group.members if not all(member.indices)]
    parts = {frozenset(i for i, each in enumerate(indices) if each) for indices in partial}
    for part in parts:
        if part and part <= removed:
            removed.remove(max(part, key=lambda number: scores[number]))
    return sorted(removed)


def check_scored(groups: Sequence[Group], scores: Mapping[str, Array], by: str) -> None:
    """Check that a criterion knows any group.

    Raises:
        OptionError: If it knows none.
    """
    if not any(group.name in scores for group in groups):
        names = listed([f"'{group.name}'" for group in groups[:3]])
        message = (
            f"by='{by}' cannot score any of {counted(len(groups), 'group')} ({names}); use "
            "by='l2', or name other layers"
        )
        raise OptionError(message)
