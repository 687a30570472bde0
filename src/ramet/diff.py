"""`diff`: what changed between two models, each change once, where it began."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import keras
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ramet.bridge.differences import Entry, differences
from ramet.bridge.trace import is_edited, trace
from ramet.graph import Graph
from ramet.graph.names import counted


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

    def __rich__(self) -> Table | Text:
        """Returns the changes as a table for rich."""
        if not self.entries:
            return Text(f"{self.first} and {self.second}: no difference")
        counts = Counter(entry.kind for entry in self.entries)
        shown = ", ".join(f"{number} {kind}" for kind, number in counts.items())
        table = Table(title=Text(f"{self.first} and {self.second}: {shown}"), title_justify="left")
        for column in ("change", "where", "what"):
            table.add_column(column)
        for entry in self.entries:
            table.add_row(entry.kind, Text(entry.where), Text(entry.text))
        return table

    def __str__(self) -> str:
        """Returns the changes as a table of plain text."""
        console = Console(width=100, color_system=None)
        with console.capture() as capture:
            console.print(self)
        return capture.get().rstrip()

    def __repr__(self) -> str:
        """Returns the number of changes."""
        return f"<Diff of '{self.first}' and '{self.second}': {counted(len(self), 'change')}>"


def diff(first: Any, second: Any, *, weights: bool = True) -> Diff:
    """Finds what changed between two models.

    Layers are paired by structure, not by name alone, so that a renamed layer is a
    rename. A change is told where it begins: what lies below a layer of another shape is
    not listed again. Neither model is called or changed. Costs O(calls), and reads every
    weight once.

    Args:
        first: A model that can be traced, a Graph, or a path to a `.keras` file.
        second: Another one.
        weights: Whether to compare the values of variables.

    Returns:
        The changes: `len(found)`, `found.entries`, `print(found)`.

    Raises:
        ModelError: If one of them is not a model, or has no graph.
    """
    graphs = [_settled(each) for each in (first, second)]
    found = tuple(differences(*graphs, weights=weights))
    return Diff(graphs[0].name, graphs[1].name, found)


def _settled(model: Any) -> Graph:
    """Returns the graph of a model, or of what an edited graph builds."""
    if isinstance(model, (str, Path)):
        model = keras.saving.load_model(model)
    graph = trace(model)
    return trace(graph.build()) if is_edited(graph) else graph
