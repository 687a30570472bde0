"""What `Profile.against` returns: two profiles side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ramet._arguments import check_count, check_flag
from ramet.graph.names import counted
from ramet.results.base import Result, Table
from ramet.text.console import as_text
from ramet.text.figures import amount, size_text

if TYPE_CHECKING:
    from ramet.results.profile import CallCost, Profile

_DEEPEST = 1000
"""How many levels of nested models a table can unfold."""


@dataclass(frozen=True, repr=False)
class ProfileComparison(Result):
    """Two profiles side by side, with calls paired by path.

    Examples:
        >>> graph = ramet.trace(model).remove("drop").configure("head", units=6, weights="fresh")
        >>> comparison = ramet.profile(model).against(ramet.profile(graph))
        >>> [row[0] for row in comparison.table().rows]
        ['head']
    """

    first: "Profile"
    """The profile before."""
    second: "Profile"
    """The profile after."""

    @property
    def macs_ratio(self) -> float | None:
        """MACs after, divided by those before; `None` if there are none before."""
        return _ratio(self.first.macs, self.second.macs)

    @property
    def params_ratio(self) -> float | None:
        """Weights after, divided by those before; `None` if there are none before."""
        return _ratio(self.first.params, self.second.params)

    @property
    def ok(self) -> bool:
        """Whether the multiply-accumulates of every call of both are known."""
        return self.first.ok and self.second.ok

    @property
    def title(self) -> str:
        """How the totals changed, in one line."""
        names = dict.fromkeys(f"'{profile.name}'" for profile in (self.first, self.second))
        macs = _change(self.first.macs, self.second.macs)
        params = _change(self.first.params, self.second.params)
        return f"{' → '.join(names)}: MACs {macs}, params {params}"

    def text(self, *, depth: int = 0, every: bool = False) -> str:
        """Return the comparison as a table of plain text; see `table`."""
        return as_text(self.table(depth=depth, every=every))

    def table(self, *, depth: int = 0, every: bool = False) -> Table:
        """Return one row per call whose MACs or weights differ, and the totals below.

        Args:
            depth: How many levels of nested models to unfold.
            every: Whether to return rows for all other calls too.
        """
        check_count(depth, "depth must be a number of levels", _DEEPEST)
        check_flag(every, "every")
        pairs = [pair for pair in self._pairs(depth) if every or _differ(*pair)]
        rows = [_row(*pair) for pair in pairs]
        columns = ("call", "MACs before", "after", "%", "params before", "after", "%")
        numbers = frozenset(columns[1:])
        return Table(self.title, columns, rows, self._notes(), numbers)

    def to_dict(self) -> dict[str, Any]:
        """Return both profiles and the ratios as plain data, for JSON."""
        return {
            "ok": self.ok,
            "macs_ratio": self.macs_ratio,
            "params_ratio": self.params_ratio,
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
        }

    def _pairs(self, depth: int) -> "list[tuple[CallCost | None, CallCost | None]]":
        """Pair the calls by path, in the order of the second profile; others follow theirs."""
        first = {cost.path: cost for cost in unfolded(self.first.calls, depth)}
        second = {cost.path: cost for cost in unfolded(self.second.calls, depth)}
        pairs: list[tuple[CallCost | None, CallCost | None]] = []
        gone = {path: cost for path, cost in first.items() if path not in second}
        last: str | None = None
        followers: dict[str | None, list[CallCost]] = {}
        for path, cost in first.items():
            if path in gone:
                followers.setdefault(last, []).append(cost)
            else:
                last = path
        pairs += [(cost, None) for cost in followers.get(None, ())]
        for path, cost in second.items():
            pairs.append((first.get(path), cost))
            pairs += [(other, None) for other in followers.get(path, ())]
        return pairs

    def _notes(self) -> list[str]:
        one, other = self.first, self.second
        size = "for one example" if one.batch == 1 else f"for a batch of {one.batch:,}"
        total = (
            f"total {size}: {one.macs:,} → {other.macs:,} MACs, {one.params:,} → {other.params:,} "
            f"params ({size_text(one.weight_bytes)} → {size_text(other.weight_bytes)}), peak of "
            f"activations {size_text(one.peak_bytes)} → {size_text(other.peak_bytes)}"
        )
        notes = [total]
        if one.seconds is not None and other.seconds is not None:
            notes.append(f"measured: {1000 * one.seconds:.3g} → {1000 * other.seconds:.3g} ms")
        for profile in (one, other):
            if not profile.ok:
                calls = counted(len(profile.uncounted), "call")
                notes.append(f"the MACs of {calls} of '{profile.name}' are not counted")
        return notes


def unfolded(calls: "Sequence[CallCost]", depth: int) -> "Iterator[CallCost]":
    """Yield calls, those of nested models in place of the models, some levels deep."""
    waiting = [(cost, 0) for cost in reversed(calls)]
    while waiting:
        cost, level = waiting.pop()
        if cost.inside and level < depth:
            waiting += [(inner, level + 1) for inner in reversed(cost.inside)]
        else:
            yield cost


def _ratio(before: int, after: int) -> float | None:
    return after / before if before else None


def _change(before: int, after: int) -> str:
    ratio = _ratio(before, after)
    percent = "" if ratio is None else f" ({100 * ratio:.3g} %)"
    return f"{amount(before)} → {amount(after)}{percent}"


def _differ(first: "CallCost | None", second: "CallCost | None") -> bool:
    figures = [(0, 0) if cost is None else (cost.macs, cost.params) for cost in (first, second)]
    return figures[0] != figures[1]


def _row(first: "CallCost | None", second: "CallCost | None") -> tuple[str, ...]:
    cost = second or first
    path = "" if cost is None else cost.path
    macs = [None if cost is None else cost.macs for cost in (first, second)]
    params = [None if cost is None else cost.params for cost in (first, second)]
    return path, *_cells(*macs), *_cells(*params)


def _cells(before: int | None, after: int | None) -> tuple[str, str, str]:
    """Return what was before, what is after, and the share that is left."""
    share = f"{100 * (after or 0) / before:.0f}" if before and after != before else ""
    return _cell(before), _cell(after), share


def _cell(value: int | None) -> str:
    """Return a figure; nothing for zero, and `none` for a call that a model does not have."""
    if value is None:
        return "none"
    return amount(value) if value else ""
