"""The journal of a graph: its edits, and how they are added to it."""

import weakref
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ramet._arguments import check_flag
from ramet._words import weakest
from ramet.graph.data import Call, Edit
from ramet.graph.names import brief, counted, listed
from ramet.graph.stages import Stage, Stages, with_stage
from ramet.text.console import folded, terminal_width

if TYPE_CHECKING:
    from ramet.graph.core import Graph
    from ramet.graph.select import Selection


class Journal(tuple[Edit, ...]):  # noqa: SLOT001 a tuple that carries more than its items
    """The edits that led to a graph, the oldest first. Print it for a dry run.

    An edit of many places, such as one of a selection, is one entry: `entry.count` is the
    number of places, `entry.parts` are the edits of each, and `journal.text(full=True)`
    lists all of them.

    Examples:
        >>> graph = ramet.trace(model).remove("drop").rename({"head": "logits"})
        >>> len(graph.journal)
        2
    """

    _notes: tuple[str, ...] = ()
    _stages: Stages = ()
    _owner: "weakref.ref[Graph] | None" = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What else changes when the graph is built: class, optimizer, trainable flags."""
        return self._notes

    @classmethod
    def of(cls, edits: Iterable[Edit], notes: tuple[str, ...], stages: Stages = ()) -> "Journal":
        """Return a journal of edits, with notes on what follows from them.

        Args:
            edits: The edits.
            notes: What else changes.
            stages: What the graph was before each of them, as far as that is known.
        """
        journal = cls(edits)
        journal._notes = notes
        journal._stages = stages
        return journal

    @property
    def stages(self) -> Stages:
        """What the graph was before each edit; `None` where that is not known."""
        missing = len(self) - len(self._stages)
        return (*self._stages, *(None,) * missing)

    @property
    def owner(self) -> "Graph | None":
        """The graph whose journal it is, while that is in use."""
        return None if self._owner is None else self._owner()

    @owner.setter
    def owner(self, graph: "Graph") -> None:
        self._owner = weakref.ref(graph)

    def __reduce__(self) -> tuple[Any, ...]:
        return Journal.of, (tuple(self), self._notes)

    def text(self, *, full: bool = False) -> str:
        """Return one numbered line per edit, and what else building the graph changes.

        Every line ends with what the edit promises: `[exact]`, `[equal]`,
        `[inference-equal]` or `[changed]`.

        Args:
            full: Whether to list every place of an edit of many.
        """
        check_flag(full, "full")
        if not self:
            return "no edits"
        width = terminal_width()
        lines: list[str] = []
        for number, edit in enumerate(self, 1):
            head = f"{number}. "
            lines += folded(f"{head}{_promising(edit)}", width, hanging=len(head))
            for part in edit.parts if full else ():
                line = str(part) if part.promise == edit.promise else _promising(part)
                lines += folded(f"{' ' * len(head)}- {line}", width, hanging=len(head) + 2)
        for note in self.notes:
            lines += folded(f"note: {note}", width, hanging=len("note: "))
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the edits and notes as plain data."""
        return {"edits": [edit.to_dict() for edit in self], "notes": [*self.notes]}

    def __str__(self) -> str:
        """Return one numbered line per edit, and what else building the graph changes."""
        return self.text()

    def __repr__(self) -> str:
        """Return the number of edits, on one line."""
        count = counted(len(self), "edit")
        places = sum(edit.count for edit in self)
        at = f" at {places} places" if places > len(self) else ""
        notes = f", {counted(len(self.notes), 'note')}" if self.notes else ""
        return brief("Journal:", f"{count}{at}{notes}")

    def _repr_html_(self) -> str:
        """Return the edits as a list, which notebooks show; edits of many places unfold."""
        if not self:
            return "<div>no edits</div>"
        items = "".join(f"<li>{_html(edit)}</li>" for edit in self)
        notes = "".join(f"<div>note: {escape(note)}</div>" for note in self.notes)
        return f"<div><ol>{items}</ol>{notes}</div>"


def _promising(edit: Edit) -> str:
    """Return an edit with what it promises."""
    return f"{edit} [{edit.promise}]"


def _html(edit: Edit) -> str:
    if not edit.parts:
        return escape(_promising(edit))
    parts = "".join(f"<li>{escape(part.text)}</li>" for part in edit.parts)
    return f"<details><summary>{escape(_promising(edit))}</summary><ul>{parts}</ul></details>"


def cause_of(graph: "Graph", call: Call) -> str | None:
    """Return the edit nearest above a call, with its number in the journal, as text."""
    waiting, met = deque([call]), {call.name}
    while waiting:
        current = waiting.popleft()
        layer = None if current.layer is None else graph.layers[current.layer]
        for edit in (current.edit, None if layer is None else layer.edit):
            if edit is not None:
                return _numbered(graph.journal, edit)
        for ref in current.refs:
            if ref.call not in met:
                met.add(ref.call)
                waiting.append(graph.calls[ref.call])
    return None


def _numbered(journal: Journal, edit: Edit) -> str:
    """Return an edit with the number of its entry in a journal, which may be of many places."""
    for number, entry in enumerate(journal, 1):
        if edit is entry:
            return f"{number}, {edit}"
        if edit in entry.parts:
            return f"{number}, {edit} (one of its {entry.count} places)"
    return f"?, {edit}"


def with_entry(graph: "Graph", edit: Edit, stage: Stage | None = None) -> "Graph":
    """Add an edit to a graph's journal, and renew the notes on what else building it changes.

    Args:
        graph: The graph after the edit, still with the journal of the one before.
        edit: The edit.
        stage: The graph before the edit; by default that which owns the journal.
    """
    journal = graph.journal
    if stage is None and journal.owner is not None:
        stage = Stage(journal.owner)
    notes = () if graph.origin is None else graph.live_origin().remarks(graph)
    stages = with_stage(journal.stages, stage)
    return graph.changed(journal=Journal.of((*journal, edit), notes, stages))


def without_stages(before: "Graph", after: "Graph") -> "Graph":
    """Return an edited graph that does not keep those on the way to it from another."""
    kept = before.journal.stages
    journal = Journal.of(after.journal, after.journal.notes, kept)
    return after.changed(journal=journal)


def with_one_entry(before: "Graph", after: "Graph", text: str) -> "Graph":
    """Return an edited graph whose journal has one entry for all edits since another graph.

    It promises the weakest of what they promise.
    """
    edits = tuple(after.journal[len(before.journal) :])
    if len(edits) < 2:  # noqa: PLR2004 one line is one line already
        return after
    promise = weakest(edit.promise for edit in edits)
    entries = (*before.journal, Edit(text, edits, promise=promise))
    parts = after.journal.stages[len(before.journal) :]
    steps = tuple(part.removed if part is not None else () for part in parts)
    removed = tuple(step for each in steps for step in each) if all(steps) else ()
    stages = with_stage(before.journal.stages, Stage(before, removed=removed))
    return after.changed(journal=Journal.of(entries, after.journal.notes, stages))


def with_one_entry_for(before: "Graph", after: "Graph", selection: "Selection") -> "Graph":
    """Return an edited graph whose journal has one entry for the edits of a selection.

    Args:
        before: The graph as it was before the first of the edits.
        after: The graph after the last of them.
        selection: What was edited.
    """
    edits = after.journal[len(before.journal) :]
    return with_one_entry(before, after, _counted(edits, selection))


def _counted(edits: Sequence[Edit], selection: "Selection") -> str:
    """Return one line for the edits of a selection, with what they have in common."""
    gists = [edit.gist for edit in edits if edit.gist is not None]
    before = listed([*dict.fromkeys(gist.before for gist in gists)], separator=" or ")
    after = listed([*dict.fromkeys(gist.after for gist in gists)], separator=" or")
    layers = counted(len(selection), "layer")
    if len(edits) != len(selection):
        layers = f"{counted(len(edits), 'call')} of {layers}"
    kinds = Counter(gist.kind for gist in gists if gist.kind)
    shown = [kind if len(kinds) == 1 else f"{number} {kind}" for kind, number in kinds.items()]
    is_news = shown and selection.what != f"kind={shown[0]}"
    classes = f" ({listed(shown)})" if is_news else ""
    return f"{before} {layers} {selection.asked}{classes}{after}"
