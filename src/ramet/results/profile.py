"""What `profile` returns."""

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ramet._arguments import check_count, check_flag, check_text, check_word, did_you_mean, shown
from ramet.errors import OptionError
from ramet.graph.names import brief, counted, listed
from ramet.results.base import Result, Table
from ramet.results.profile_comparison import ProfileComparison, unfolded
from ramet.text.console import as_text
from ramet.text.figures import amount, size_text

MEASURES = ("macs", "params", "memory", "time")
"""What calls can be ordered by."""

_CONVENTION = (
    "MACs are those of convolutions, dense and recurrent layers, matrix products and attention"
)
_DEEPEST = 1000
"""How many levels of nested models a table can unfold."""


@dataclass(frozen=True, slots=True, repr=False)
class CallCost:
    """What one call costs.

    Examples:
        >>> cost = ramet.profile(model).call("conv")
        >>> cost.macs, cost.params, cost.outputs
        (6912, 112, ((1, 8, 8, 4),))
    """

    path: str
    """Path of the call: `encoder/conv` in a nested model, `conv#2` for a second call."""
    kind: str
    """Class of the layer."""
    macs: int = 0
    """Multiply-accumulates, as far as they are known."""
    uncounted: str | None = None
    """Why not all multiply-accumulates are known; `None` if they are."""
    params: int = 0
    """Number of weights of the layer."""
    new_params: int = 0
    """Those of them that no earlier call has counted."""
    weight_bytes: int = 0
    """Bytes of the weights of the layer."""
    new_weight_bytes: int = 0
    """Those of them that no earlier call has counted."""
    outputs: tuple[tuple[int | None, ...], ...] = ()
    """Shapes of the outputs."""
    activation_bytes: int = 0
    """Bytes of the outputs; 0 for a view of the inputs."""
    live_bytes: int = 0
    """Bytes of all tensors that are alive while the call is made."""
    seconds: float | None = None
    """Measured time; `None` if it was not measured."""
    inside: "tuple[CallCost, ...]" = field(default=(), repr=False)
    """The calls of a nested model."""

    @property
    def flops(self) -> int:
        """Two for each multiply-accumulate: a multiplication and an addition."""
        return 2 * self.macs

    def walk(self) -> "Iterator[CallCost]":
        """Yield this call and all calls inside it, outer ones first."""
        waiting: list[CallCost] = [self]
        while waiting:
            cost = waiting.pop()
            yield cost
            waiting += reversed(cost.inside)

    def to_dict(self) -> dict[str, Any]:
        """Return the call as plain data, without the calls inside it."""
        return {
            "path": self.path,
            "kind": self.kind,
            "macs": self.macs,
            "uncounted": self.uncounted,
            "params": self.params,
            "new_params": self.new_params,
            "weight_bytes": self.weight_bytes,
            "outputs": [[*shape] for shape in self.outputs],
            "activation_bytes": self.activation_bytes,
            "live_bytes": self.live_bytes,
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        """Return the call with its cost, on one line."""
        return brief("CallCost", f"'{self.path}': {_macs(self)}, {self.params:,} params")


@dataclass(frozen=True, repr=False)
class Profile(Result):
    """What a model costs, per call and in total.

    Examples:
        >>> profile = ramet.profile(model, batch=2)
        >>> profile.macs, profile.params, profile.weight_bytes
        (13848, 143, 572)
        >>> print(profile.table(by="params").rows[0][0])
        conv
    """

    name: str
    """Name of the model."""
    batch: int
    """How many examples are computed at once."""
    calls: tuple[CallCost, ...]
    """The calls of the model that its author wrote, in order; nested models are one call."""
    peak_bytes: int
    """The most bytes of tensors that are alive at once in inference, without weights."""
    other_params: int = 0
    """Number of weights of the model that no call of its graph has."""
    other_weight_bytes: int = 0
    """Bytes of those."""
    notes: tuple[str, ...] = ()
    """What else there is to know."""

    @property
    def macs(self) -> int:
        """Multiply-accumulates of convolutions, dense layers, matrix products and attention."""
        return sum(call.macs for call in self.calls)

    @property
    def flops(self) -> int:
        """Two for each multiply-accumulate."""
        return 2 * self.macs

    @property
    def params(self) -> int:
        """Number of weights; those of a shared layer count once."""
        return self.other_params + sum(call.new_params for call in self.calls)

    @property
    def weight_bytes(self) -> int:
        """Bytes of the weights; those of a shared layer count once."""
        return self.other_weight_bytes + sum(call.new_weight_bytes for call in self.calls)

    @property
    def activation_bytes(self) -> int:
        """Bytes of all tensors that the calls return, inside nested models too."""
        return sum(c.activation_bytes for call in self.calls for c in call.walk() if not c.inside)

    @property
    def seconds(self) -> float | None:
        """Measured time of all calls; `None` if it was not measured."""
        times = [call.seconds for call in self.calls]
        return None if None in times else sum(time for time in times if time is not None)

    @property
    def uncounted(self) -> tuple[CallCost, ...]:
        """The calls whose multiply-accumulates are not known, also in nested models."""
        return tuple(cost for cost in self.walk() if cost.uncounted and not cost.inside)

    @property
    def ok(self) -> bool:
        """Whether the multiply-accumulates of every call are known."""
        return not self.uncounted

    @property
    def title(self) -> str:
        """The totals in one line, with the convention."""
        least = "" if self.ok else "at least "
        size = f", batch {self.batch}" if self.batch > 1 else ""
        return f"'{self.name}'{size}: {least}{amount(self.macs)} MACs, {amount(self.params)} params"

    def walk(self) -> Iterator[CallCost]:
        """Yield every call, also those of nested models, outer ones first."""
        for call in self.calls:
            yield from call.walk()

    def call(self, path: str) -> CallCost:
        """Return the call of a path.

        Raises:
            OptionError: If there is none.
        """
        check_text(path, "path")
        by_path = {cost.path: cost for cost in self.walk()}
        if path not in by_path:
            message = f"no call '{path}' in the profile of '{self.name}'"
            raise OptionError(f"{message}{did_you_mean(path, by_path)}")
        return by_path[path]

    def top(self, n: int = 10, *, by: str = "macs") -> tuple[CallCost, ...]:
        """Return the most expensive calls in descending order. Nested models are unfolded.

        Args:
            n: How many.
            by: `"macs"`, `"params"`, `"memory"` (bytes of the outputs) or `"time"`.

        Raises:
            OptionError: If `by` is something else, or `"time"` was not measured.
        """
        check_count(n, "n must be a number of calls", 10**9)
        key = _measure(self, by)
        innermost = [cost for cost in self.walk() if not cost.inside]
        return tuple(sorted(innermost, key=key, reverse=True)[:n])

    def text(self, *, depth: int = 0, by: str | None = None, every: bool = False) -> str:
        """Return the profile as a table of plain text; see `table`."""
        return as_text(self.table(depth=depth, by=by, every=every))

    def table(self, *, depth: int = 0, by: str | None = None, every: bool = False) -> Table:
        """Return one row per call that has weights or computes, and the totals below.

        Args:
            depth: How many levels of nested models to unfold.
            by: Order of the rows: `"macs"`, `"params"`, `"memory"` or `"time"`, the most
                expensive first; by default that of the model.
            every: Whether to return rows for all other calls too.
        """
        check_depth(depth)
        check_flag(every, "every")
        costs = [*unfolded(self.calls, depth)]
        if by is not None:
            costs.sort(key=_measure(self, by), reverse=True)
        shown = [cost for cost in costs if every or cost.macs or cost.params or cost.uncounted]
        timed = self.seconds is not None
        rows = [_row(cost, self, timed=timed) for cost in shown]
        columns = ("call", "kind", "output", "MACs", "%", "params", "bytes out")
        columns = (*columns, "ms") if timed else columns
        numbers = frozenset({"MACs", "%", "params", "bytes out", "ms"})
        notes = self._notes(len(costs) - len(shown))
        narrow = Table(self.title, *_narrow(columns, rows), notes, numbers)
        return Table(self.title, columns, rows, notes, numbers, narrow=narrow)

    def against(self, other: "Profile") -> ProfileComparison:
        """Compare this profile with a later one, such as that of an edited model.

        Args:
            other: The other profile, for the same batch size.

        Raises:
            OptionError: If it is not a profile, or is one for another batch size.

        Examples:
            >>> graph = ramet.trace(model).configure("conv", kernel_size=1, weights="fresh")
            >>> comparison = ramet.profile(model).against(ramet.profile(graph))
            >>> comparison.title
            "'classifier': MACs 6.92 k → 780 (11.3 %), params 143 → 47 (32.9 %)"
        """
        if not isinstance(other, Profile):  # pyright: ignore[reportUnnecessaryIsInstance] users pass anything
            raise OptionError(f"other must be a Profile, got {shown(other)}; pass ramet.profile(x)")
        if other.batch != self.batch:
            message = f"the profiles are of batch {self.batch:,} and {other.batch:,}"
            raise OptionError(f"{message}; profile both with the same batch")
        return ProfileComparison(self, other)

    def to_dict(self) -> dict[str, Any]:
        """Return totals and calls as plain data, for JSON."""
        return {
            "name": self.name,
            "ok": self.ok,
            "batch": self.batch,
            "macs": self.macs,
            "flops": self.flops,
            "params": self.params,
            "weight_bytes": self.weight_bytes,
            "activation_bytes": self.activation_bytes,
            "peak_bytes": self.peak_bytes,
            "seconds": self.seconds,
            "uncounted": [cost.path for cost in self.uncounted],
            "notes": [*self.notes],
            "calls": [cost.to_dict() for cost in self.walk()],
        }

    def _notes(self, hidden: int) -> list[str]:
        size = "for one example" if self.batch == 1 else f"for a batch of {self.batch:,}"
        total = (
            f"total {size}: {self.macs:,} MACs ({self.flops:,} FLOPs), {self.params:,} params "
            f"({size_text(self.weight_bytes)}), peak of activations {size_text(self.peak_bytes)}"
        )
        lines = [total, _CONVENTION]
        if self.seconds is not None:
            lines.append(f"measured: {1000 * self.seconds:.3g} ms in all calls")
        if self.uncounted:
            lines.append(f"at least, because these are not counted: {_reasons(self.uncounted)}")
        if hidden:
            lines.append(f"not shown: {counted(hidden, 'call')} without weights and MACs")
        return [*lines, *self.notes]


def check_depth(depth: object) -> None:
    """Check how many levels of nested models are to be unfolded.

    Raises:
        OptionError: If it is no number of levels.
    """
    check_count(depth, "depth must be a number of levels", _DEEPEST)


def _measure(profile: Profile, by: str) -> Callable[[CallCost], Any]:
    check_word(by, "by", MEASURES)
    if by == "time":
        _check_timed(profile)
    names = {"params": "new_params", "memory": "activation_bytes", "time": "seconds"}
    return operator.attrgetter(names.get(by, by))


def _check_timed(profile: Profile) -> None:
    if profile.seconds is None:
        message = f"no times were measured for '{profile.name}'; profile it with time=True"
        raise OptionError(message)


def _macs(cost: CallCost) -> str:
    if cost.uncounted is None:
        return f"{cost.macs:,} MACs"
    return f"at least {cost.macs:,} MACs" if cost.macs else "unknown MACs"


def _reasons(costs: tuple[CallCost, ...]) -> str:
    """Return which calls are not counted, and why, with calls of one reason together."""
    by_reason: dict[str, list[str]] = {}
    for cost in costs:
        by_reason.setdefault(f"{cost.kind}, {cost.uncounted}", []).append(cost.path)
    return "; ".join(f"{listed(paths)} ({reason})" for reason, paths in by_reason.items())


def _row(cost: CallCost, profile: Profile, *, timed: bool) -> tuple[str, ...]:
    share = 100 * cost.macs / profile.macs if profile.macs else 0.0
    again = bool(cost.params) and not cost.new_params
    row = (
        cost.path,
        f"{cost.kind} ({counted(len(cost.inside), 'call')})" if cost.inside else cost.kind,
        ", ".join(f"[{', '.join('?' if n is None else str(n) for n in s)}]" for s in cost.outputs),
        "?" if cost.uncounted and not cost.macs else amount(cost.macs) if cost.macs else "",
        f"{share:.1f}" if cost.macs else "",
        "shared" if again else amount(cost.params) if cost.params else "",
        size_text(cost.activation_bytes) if cost.activation_bytes else "",
    )
    return (*row, _milliseconds(cost.seconds)) if timed else row


def _milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1000 * seconds:.2g}"


def _narrow(
    columns: tuple[str, ...], rows: list[tuple[str, ...]]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return columns and rows without classes and shapes."""
    return (columns[0], *columns[3:]), [(row[0], *row[3:]) for row in rows]
