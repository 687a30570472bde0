"""`prune`: remove the channels that matter least."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ramet._arguments import check_word, shown
from ramet.compress.channels.arrange import Arrangement, arrange
from ramet.compress.channels.follow import Channels, follow
from ramet.compress.pruning.budget import Budget, Removed, least_removed
from ramet.compress.pruning.budget import counted as counted_in
from ramet.compress.pruning.choosing import Limits, check_scored, chosen, removed_by
from ramet.compress.pruning.removal import remove
from ramet.compress.pruning.scoring import CRITERIA, Scoring, check_data_for
from ramet.errors import OptionError
from ramet.graph import Graph
from ramet.graph.journal import with_one_entry
from ramet.graph.names import counted

Criterion = Literal[
    "l1", "l2", "bn", "lamp", "fpgm", "random", "activation", "taylor", "hessian", "obd"
]
Scope = Literal["local", "global", "isomorphic"]

_CORRECTIONS = 4
"""How often an estimate of MACs is corrected, to use as much of a budget as there is."""
_STEP = 0.97
"""How much less is aimed at if corrections do not lead below the limit."""
_CLOSE = 0.97
"""Which part of a budget is to be used at least, if that is possible."""


def prune(  # noqa: PLR0913 each is an option of its own
    model: Any,
    *,
    ratio: float | None = None,
    macs: float | None = None,
    params: float | None = None,
    by: Criterion = "l2",
    scope: Scope = "local",
    keep: Sequence[str] | str = (),
    only: Sequence[str] | str = (),
    round_to: int = 1,
    max_ratio: float = 1.0,
    data: Any = None,
    loss: Any = None,
    steps: int = 1,
    seed: int = 0,
) -> Graph:
    """Remove the channels that matter least, from every layer that computes or uses them.

    Inputs and outputs of the model stay as they are. Where two groups overlap, such as attention
    heads and their width, the width is pruned, unless `only` names the heads. A criterion leaves
    alone the groups that it cannot score, such as those without batch norms for `bn`.

    Args:
        model: A model that can be traced, or a Graph.
        ratio: The fraction of the channels to remove.
        macs: The fraction of the multiply-accumulates to keep at most.
        params: The fraction of the weights to keep at most.
        by: How much a channel matters: the sum of magnitudes (`l1`) or squares (`l2`) of its
            weights; the scale of its batch norm (`bn`); squares relative to all larger ones
            (`lamp`); its distance to the other channels (`fpgm`); nothing (`random`); the mean
            magnitude of what it computes (`activation`); how much the loss would change to first
            order (`taylor`) or second order (`hessian`, also called `obd`).
        scope: Whether each group loses the same fraction (`local`), or all of them together
            (`global`), or those of one shape together (`isomorphic`).
        keep: Names of layers or groups, or globs, that stay as they are.
        only: Names of layers or groups, or globs; all others stay as they are.
        round_to: Every group keeps a multiple of this many channels.
        max_ratio: The largest fraction that a single group may lose.
        data: Inputs for `activation`; `(inputs, targets)` for `taylor`, `hessian` and `obd`.
        loss: The loss for these three, as for `compile`; by default that of the compiled model.
        steps: In how many steps to remove the channels; the rest is scored again after each.
        seed: The seed for `random`.

    Returns:
        A graph with smaller layers, to edit further or to build.

    Raises:
        OptionError: If an option has a wrong value, a name is in no group, a criterion lacks
            its data, nothing can be removed, or a budget cannot be met.
        ModelError: If the argument is not a model, or has no graph.

    Examples:
        >>> graph = ramet.compress.prune(model, ratio=0.5)
        >>> print(graph.journal)
        1. prune 'conv': 4 → 2 channels [changed]
        >>> graph.build().get_layer("conv").filters
        2
    """
    what, wanted = _target(ratio, macs, params)
    check_word(by, "by", CRITERIA)
    check_word(scope, "scope", ("local", "global", "isomorphic"))
    _check_part(max_ratio, "max_ratio", zero=False)
    _check_count(round_to, "round_to", 1, 2**20)
    _check_count(steps, "steps", 1, 1000)
    _check_count(seed, "seed", 0, 2**31)
    check_data_for(by, data)
    before = channels = follow(model)
    arrangement = arrange(channels)
    sizes = {group.name: group.size for group in arrangement.groups}
    limits = Limits(int(round_to), float(max_ratio), sizes)
    numbers = np.random.default_rng(seed)
    goal = _Goal(what, wanted, _total(channels, arrangement, what))
    pruned = channels.graph
    for step in range(1, steps + 1):
        if step > 1:
            channels = follow(pruned)
            arrangement = arrange(channels)
        groups = chosen(arrangement.groups, keep, only)
        scores = Scoring(channels, arrangement, by, data, loss, numbers).of(groups)
        check_scored(groups, scores, by)
        removed_at = partial(removed_by, groups, scores, scope=scope, limits=limits)
        removed = goal.removed(channels, arrangement, removed_at, step / steps)
        pruned = remove(channels, arrangement, removed)
    return with_one_entry(before.graph, pruned, f"prune by {by} in {counted(steps, 'step')}")


@dataclass(frozen=True)
class _Goal:
    """How much is to be removed, or left."""

    what: str
    """`ratio`, `macs` or `params`."""
    value: float
    """The part of it."""
    total: int
    """How much of it there was before."""

    def removed(
        self,
        channels: Channels,
        arrangement: Arrangement,
        removed_at: Callable[..., Removed],
        share: float,
    ) -> Removed:
        """Return what to remove in one step.

        MACs are estimated, so the result is counted, and the estimate corrected if it is wrong.

        Args:
            channels: The channels of the graph.
            arrangement: Their groups.
            removed_at: Returns what to remove for a ratio.
            share: Which part of the way to the goal is reached after the step.
        """
        if self.what == "ratio":
            return removed_at(ratio=self.value * share)
        part = 1 - (1 - self.value) * share
        budget, limit = Budget(channels, arrangement, self.what), part * self.total
        aim, best, most = limit, dict[str, list[int]](), -1
        for number in itertools.count():  # the aim falls until it cannot be met
            removed = least_removed(budget, aim, part, removed_at)
            left = budget.left(removed)
            if self.what == "macs":
                left = counted_in(remove(channels, arrangement, removed), self.what)
            if most < left <= limit:
                best, most = removed, left
            is_close = self.what == "params" or most > _CLOSE * limit
            if most >= 0 and (is_close or number >= _CORRECTIONS):
                break
            factor = limit / max(left, 1)
            aim *= factor if number < _CORRECTIONS else min(factor, _STEP)
        return best


def _total(channels: Channels, arrangement: Arrangement, what: str) -> int:
    return 0 if what == "ratio" else Budget(channels, arrangement, what).total


def _target(ratio: Any, macs: Any, params: Any) -> tuple[str, float]:
    """Return which of three goals was given, and its value.

    Raises:
        OptionError: If none or several were given, or it is not between 0 and 1.
    """
    given = {"ratio": ratio, "macs": macs, "params": params}
    goals = {name: value for name, value in given.items() if value is not None}
    if len(goals) != 1:
        named = ", ".join(f"{name}={shown(value)}" for name, value in goals.items()) or "none"
        message = f"pass one of ratio=, macs= and params=, got {named}; for example ratio=0.5"
        raise OptionError(message)
    ((name, value),) = goals.items()
    _check_part(value, name, zero=name == "ratio")
    return name, float(value)


def _check_part(value: Any, name: str, *, zero: bool) -> None:
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    if isinstance(value, bool) or not is_number or not 0 <= value <= 1 or (not zero and not value):
        message = f"{name} must be a number between 0 and 1, got {shown(value)}"
        raise OptionError(message)
    if name == "ratio" and value == 1:
        message = "ratio=1 would remove all channels; pass less, such as 0.5"
        raise OptionError(message)


def _check_count(value: Any, name: str, least: int, most: int) -> None:
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        message = f"{name} must be an integer from {least} to {most:,}, got {shown(value)}"
        raise OptionError(message)
