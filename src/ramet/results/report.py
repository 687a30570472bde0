"""What `verify` returns."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from ramet._arguments import check_word
from ramet.errors import DifferenceError
from ramet.graph.names import brief, counted, listed
from ramet.results.base import Table, Verdict
from ramet.results.divergence import Divergence

_SHOWN = 3
"""How many differences of a kind the table shows; `Check.differences` has all."""


@dataclass(frozen=True, slots=True, repr=False)
class Check:
    """One aspect in which two models were compared.

    Examples:
        >>> check = ramet.verify(model, ramet.clone(model)).check("outputs")
        >>> check.ok, check.differences
        (True, ())
    """

    name: str
    """The aspect: structure, sharing, state, outputs or training."""
    differences: tuple[str, ...]
    """How the models differ, in words; empty if they do not."""
    scope: str
    """What was compared, or why it was not."""
    done: bool = True
    """Whether the comparison could be made."""
    expected: tuple[str, ...] = ()
    """How they differ because a Graph was edited, in words; not counted as differences."""
    not_compared: tuple[str, ...] = ()
    """Parts of the models that could not be compared, in words."""

    @property
    def complete(self) -> bool:
        """Whether everything in this aspect could be compared."""
        return self.done and not self.not_compared

    def __repr__(self) -> str:
        """Return one line."""
        return brief(
            "Check", f"{self.name}: {self.verdict}, {listed(self.differences) or self.scope}"
        )

    @property
    def ok(self) -> bool:
        """Whether all of it was compared, and there are no differences except expected ones."""
        return self.complete and not self.differences

    @property
    def verdict(self) -> str:
        """`same`, `different`, `expected`, `not checked` or `not all checked`."""
        if not self.done:
            return "not checked"
        if self.differences:
            return "different"
        if self.not_compared:
            return "not all checked"
        return "expected" if self.expected else "same"


@dataclass(frozen=True, slots=True, repr=False)
class Report(Verdict):
    """What `verify` found. True in a condition if the models are the same, like `ok`.

    Examples:
        >>> report = ramet.verify(model, ramet.clone(model))
        >>> bool(report), report.check("state").verdict
        (True, 'same')
    """

    first: str
    """Name of the first model."""
    second: str
    """Name of the second model."""
    checks: tuple[Check, ...]
    """The aspects in which they were compared."""
    first_divergence: Divergence | None = None
    """The first call, in data order, whose inputs agree and whose outputs do not."""

    @property
    def ok(self) -> bool:
        """Whether the models are the same, and everything that was asked for was compared."""
        return self.complete and not self.different

    @property
    def different(self) -> bool:
        """Whether any difference was found that is not expected."""
        return any(check.differences for check in self.checks)

    @property
    def complete(self) -> bool:
        """Whether everything in every aspect could be compared."""
        return all(check.complete for check in self.checks)

    def check(self, name: str) -> Check:
        """Return the check of one aspect.

        Raises:
            OptionError: If the models were not compared in it.
        """
        check_word(name, "aspect", [check.name for check in self.checks])
        return next(check for check in self.checks if check.name == name)

    def raise_if_different(self) -> None:
        """Raise an error that names the first difference of each kind.

        Raises:
            DifferenceError: If the models differ, or could not be compared in every aspect.
        """
        if self.ok:
            return
        if self.different:
            first = [f"{c.name}: {c.differences[0]}" for c in self.checks if c.differences]
            description = f"differ in {'; '.join(first)}; print the report to see more"
        else:
            first = [
                f"{c.name}: {', '.join(c.not_compared) or c.scope}"
                for c in self.checks
                if not c.complete
            ]
            description = f"were not compared in {'; '.join(first)}"
        message = f"models '{self.first}' and '{self.second}' {description}"
        raise DifferenceError(message)

    @property
    def title(self) -> str:
        """Which models were compared, and the verdict."""
        same = "the same" if self.complete else "the same in what was checked"
        if any(check.expected for check in self.checks):
            same = f"{same} but for the edits"
        return f"{self.first} and {self.second}: {'different' if self.different else same}"

    def table(self) -> Table:
        """Return one row per aspect, with the first few differences."""
        rows = [(check.name, check.verdict, "\n".join(_lines(check))) for check in self.checks]
        if self.first_divergence is not None:
            rows.append(("divergence", "first at", str(self.first_divergence)))
        return Table(self.title, ("aspect", "verdict", "found"), rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the checks and the first divergence as plain data, for JSON."""
        divergence = self.first_divergence
        return {
            "first": self.first,
            "second": self.second,
            "ok": self.ok,
            "complete": self.complete,
            "checks": [{**asdict(check), "verdict": check.verdict} for check in self.checks],
            "first_divergence": None if divergence is None else asdict(divergence),
        }


def _lines(check: Check) -> Iterator[str]:
    lines = check.differences or check.expected
    if not lines:
        yield check.scope
    yield from lines[:_SHOWN]
    if len(lines) > _SHOWN:
        yield f"and {counted(len(lines) - _SHOWN, 'more difference')}"
    yield from (f"not compared: {text}" for text in check.not_compared)
