"""`diff`: what changed between two models, each change once, where it began."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from ramet.bridge import internals
from ramet.bridge.differences import Entry, differences
from ramet.bridge.live import is_edited
from ramet.bridge.trace import trace
from ramet.files import load
from ramet.graph import Graph
from ramet.graph.console import as_text
from ramet.graph.html import html_table
from ramet.graph.names import counted

_COLUMNS = ("change", "where", "what")


@dataclass(frozen=True)
class Diff:
    """What changed between two models. Empty, and false in a condition, if nothing did."""

    first: str
    """Name of the first model."""
    second: str
    """Name of the second model."""
    entries: tuple[Entry, ...]
    """One entry per change."""

    def __bool__(self) -> bool:
        """Tells whether anything changed."""
        return bool(self.entries)

    def __len__(self) -> int:
        """Returns the number of changes."""
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        """Yields the changes."""
        return iter(self.entries)

    def of(self, kind: str) -> list[Entry]:
        """Lists the changes of one kind."""
        return [entry for entry in self.entries if entry.kind == kind]

    def to_dict(self) -> dict[str, Any]:
        """Returns the changes as plain data."""
        return {
            "first": self.first,
            "second": self.second,
            "entries": [asdict(entry) for entry in self.entries],
        }

    @property
    def title(self) -> str:
        """How many changes of each kind there are, in words."""
        counts = Counter(entry.kind for entry in self.entries)
        shown = ", ".join(f"{number} {kind}" for kind, number in counts.items())
        return f"{self.first} and {self.second}: {shown or 'no difference'}"

    def _repr_html_(self) -> str:
        """Returns the changes as a table, which notebooks show."""
        rows = [(entry.kind, entry.where, entry.text) for entry in self.entries]
        return html_table(self.title, _COLUMNS, rows)

    def __rich__(self) -> Table | Text:
        """Returns the changes as a table for rich."""
        if not self.entries:
            return Text(self.title)
        table = Table(title=Text(self.title), title_justify="left")
        for column in _COLUMNS:
            table.add_column(column)
        for entry in self.entries:
            table.add_row(entry.kind, Text(entry.where), Text(entry.text))
        return table

    def __str__(self) -> str:
        """Returns the changes as a table of plain text."""
        return as_text(self)

    def __repr__(self) -> str:
        """Returns the number of changes."""
        return f"<Diff of '{self.first}' and '{self.second}': {counted(len(self), 'change')}>"


def diff(first: Any, second: Any, *, weights: bool = True) -> Diff:
    """Finds what changed between two models.

    Layers are paired by structure, not by name alone, so that a renamed layer is a
    rename. Numbers that Keras counts (`dense_3`) are no names that somebody chose: two
    models of the same code do not differ in them. A change is told where it begins: what
    lies below a layer of another shape is not listed again. Neither model is called or
    changed. Costs O(calls), and reads every weight once.

    Args:
        first: A model that can be traced, a Graph, or a path to a `.keras` file.
        second: Another one.
        weights: Whether to compare the values of variables.

    Returns:
        The changes: `len(found)`, `found.entries`, `print(found)`.

    Raises:
        ModelError: If one of them is not a model, or has no graph.
        FileError: If a file holds no model that can be loaded safely.
    """
    graphs = [_settled(each) for each in (first, second)]
    with internals.room_for(*graphs):
        found = tuple(differences(*graphs, weights=weights))
    return Diff(graphs[0].name, graphs[1].name, found)


def _settled(model: Any) -> Graph:
    """Returns the graph of a model, or of what an edited graph builds."""
    if isinstance(model, (str, Path)):
        model = load(model)
    graph = trace(model)
    return trace(graph.build()) if is_edited(graph) else graph
