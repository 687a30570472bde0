"""What was done to a graph, edit by edit."""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ramet.graph.parts import Call, Edit

if TYPE_CHECKING:
    from ramet.graph.core import Graph


class Journal(tuple[Edit, ...]):  # noqa: SLOT001 a tuple that carries more than its items
    """The edits that led to a graph, the oldest first. `print` gives the dry run."""

    _notes: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What else building the graph changes: class, optimizer, what trains."""
        return self._notes

    @classmethod
    def of(cls, edits: Iterable[Edit], notes: tuple[str, ...]) -> "Journal":
        """Make a journal of edits and of what follows from all of them."""
        journal = cls(edits)
        journal._notes = notes
        return journal

    def __str__(self) -> str:
        """Return one numbered line per edit, and what else building the graph changes."""
        if not self:
            return "no edits"
        lines = [f"{number}. {edit}" for number, edit in enumerate(self, 1)]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def cause_of(graph: "Graph", call: Call) -> str | None:
    """Returns the edit nearest above a call, with its number, as text."""
    waiting, met = deque([call]), {call.name}
    while waiting:
        found = waiting.popleft()
        layer = None if found.layer is None else graph.layers[found.layer]
        for edit in (found.edit, None if layer is None else layer.edit):
            if edit is not None:
                number = graph.journal.index(edit) + 1 if edit in graph.journal else "?"
                return f"{number}, {edit}"
        for ref in found.refs:
            if ref.call not in met:
                met.add(ref.call)
                waiting.append(graph.calls[ref.call])
    return None
