"""What was done to a graph, edit by edit."""

from collections import deque
from typing import TYPE_CHECKING

from ramet.graph.parts import Call, Edit

if TYPE_CHECKING:
    from ramet.graph.core import Graph


class Journal(tuple[Edit, ...]):
    """The edits that led to a graph, the oldest first. `print` gives the dry run."""

    __slots__ = ()

    def __str__(self) -> str:
        """Returns one numbered line per edit."""
        if not self:
            return "no edits"
        return "\n".join(f"{number}. {edit}" for number, edit in enumerate(self, 1))


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
