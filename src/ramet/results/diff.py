"""What `diff` returns."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from ramet._arguments import check_word
from ramet.graph.names import brief
from ramet.results.base import Listing, Table

KINDS = (
    *("added", "removed", "replaced", "renamed", "class", "config", "shape", "weights"),
    *("arguments", "sharing", "masks", "inputs", "outputs", "inlined", "wrapped"),
)
"""The kinds of changes."""


@dataclass(frozen=True, slots=True, repr=False)
class Entry:
    """One change.

    Examples:
        >>> (entry,) = ramet.diff(model, ramet.trace(model).remove("drop"))
        >>> entry.kind
        'removed'
    """

    kind: str
    """`added`, `removed`, `replaced`, `renamed`, `class`, `config`, `shape`, `weights`,
    `arguments`, `sharing`, `masks`, `inputs` or `outputs`; `inlined` for a nested model whose
    layers are in the model itself now, and `wrapped` for the opposite."""
    where: str
    """Path of the layer or call, in the first model if it is there."""
    text: str
    """What changed, in words."""

    def __repr__(self) -> str:
        """Return one line."""
        return brief("Entry", f"{self.kind} '{self.where}': {self.text}")


@dataclass(frozen=True, repr=False)
class Diff(Listing[Entry]):
    """What changed between two models: a list of changes, true in a condition if there are any.

    Examples:
        >>> changes = ramet.diff(model, ramet.trace(model).remove("drop"))
        >>> [entry.kind for entry in changes]
        ['removed']
    """

    first: str
    """Name of the first model."""
    second: str
    """Name of the second model."""
    entries: tuple[Entry, ...]
    """One entry per change."""
    notes: tuple[str, ...] = ()
    """What could not be compared, such as classes of which only a file is there."""

    @property
    def ok(self) -> bool:
        """Whether nothing changed."""
        return not self.entries

    def of(self, kind: str) -> list[Entry]:
        """List the changes of one kind.

        Raises:
            OptionError: If there is no such kind.
        """
        check_word(kind, "kind", KINDS)
        return [entry for entry in self.entries if entry.kind == kind]

    def to_dict(self) -> dict[str, Any]:
        """Return the changes as plain data, for JSON."""
        return {
            "first": self.first,
            "second": self.second,
            "ok": self.ok,
            "entries": [asdict(entry) for entry in self.entries],
            "notes": [*self.notes],
        }

    @property
    def title(self) -> str:
        """How many changes of each kind there are, in words."""
        counts = Counter(entry.kind for entry in self.entries)
        shown = ", ".join(f"{number} {kind}" for kind, number in counts.items())
        return f"{self.first} and {self.second}: {shown or 'no difference'}"

    def table(self) -> Table:
        """Return one row per change."""
        rows = [(entry.kind, entry.where, entry.text) for entry in self.entries]
        return Table(self.title, ("change", "where", "what"), rows, self.notes)

    def _items(self) -> tuple[Entry, ...]:
        return self.entries
