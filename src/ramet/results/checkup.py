"""What `doctor` returns."""

from dataclasses import dataclass
from typing import Any

from ramet.graph.names import counted
from ramet.results.base import Table, Verdict


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing about an installation.

    Examples:
        >>> ramet.results.Fact("Python", "3.12.1").value
        '3.12.1'
    """

    name: str
    """What it is about, such as `keras`."""
    value: str
    """What was found, such as a version."""
    problem: str = ""
    """What is wrong with it and the remedy; empty if nothing is."""


@dataclass(frozen=True, slots=True, repr=False)
class Checkup(Verdict):
    """An installation of ramet: true in a condition if it has no problem.

    Examples:
        >>> from ramet._doctor import doctor  # `ramet doctor` on the command line
        >>> "Keras" in str(doctor())
        True
    """

    facts: tuple[Fact, ...]
    """Versions, the backend, the core, the files that can be read."""

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not any(fact.problem for fact in self.facts)

    @property
    def title(self) -> str:
        """The number of problems."""
        problems = sum(bool(fact.problem) for fact in self.facts)
        return f"{counted(problems, 'problem')} with this installation of ramet"

    def table(self) -> Table:
        """Return the facts as a table, with the problems below."""
        return Table(
            self.title,
            ("what", "found"),
            [(fact.name, fact.value) for fact in self.facts],
            notes=[f"{fact.name}: {fact.problem}" for fact in self.facts if fact.problem],
            styles=["red" if fact.problem else "" for fact in self.facts],
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain data, for JSON."""
        return {
            "ok": self.ok,
            "facts": [
                {"name": fact.name, "value": fact.value, "problem": fact.problem or None}
                for fact in self.facts
            ],
        }
