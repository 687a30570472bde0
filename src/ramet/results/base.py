"""What all results have in common: print, notebooks, truth and plain data."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as Grid
from rich.text import Text

from ramet.graph.names import brief
from ramet.text.console import as_text, folded
from ramet.text.html import html_table

Item = TypeVar("Item")

_HANGING = 2
"""Indent of the continuation lines of a folded line."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a title, drawn to fit the terminal. No name is ever shortened.

    Cells wrap at spaces. If a name is too long for its column, the table is drawn as one
    paragraph per row, with a line per cell; a name that is longer than a line is folded.
    """

    title: str
    """The text above the table."""
    columns: tuple[str, ...]
    """The headings of the columns."""
    rows: Sequence[Sequence[str]]
    """The cells, which may have several lines."""
    notes: Sequence[str] = ()
    """Paragraphs below the table."""
    numbers: frozenset[str] = frozenset()
    """Columns of numbers, which are aligned right."""
    styles: Sequence[str] = ()
    """The style of each row for rich, such as `green`; empty for plain rows."""
    narrow: "Table | None" = None
    """A table with fewer columns, to be drawn if this one does not fit."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table, or what fits the width of the console."""
        width = options.max_width
        filled = self.without_empty_columns()
        if filled is not self:
            yield from filled.__rich_console__(console, options)
            return
        widths = self._widths(width)
        if widths is None and self.narrow is not None and self.narrow.fits(width):
            yield self.narrow
            return
        yield from _lines(self.title, width, "bold")
        if self.rows and widths is not None:
            yield self._grid(widths)
        elif self.rows:
            yield from self._paragraphs(width)
        for note in self.notes:
            yield from _lines(note, width, hanging=_HANGING + 1)

    def without_empty_columns(self) -> "Table":
        """Return the table without columns that say nothing, or itself."""
        columns = [*zip(*self.rows, strict=True)]
        kept = [number for number, cells in enumerate(columns) if any(cells)]
        if len(kept) in (0, len(self.columns)):
            return self
        rows = [tuple(row[number] for number in kept) for row in self.rows]
        return replace(self, columns=tuple(self.columns[number] for number in kept), rows=rows)

    def fits(self, width: int) -> bool:
        """Whether every name fits its column."""
        return self._widths(width) is not None

    def html(self) -> str:
        """Return the table for notebooks."""
        return html_table(self.title, self.columns, self.rows, self.notes, self.numbers)

    def _widths(self, width: int) -> list[int] | None:
        """Return the widths of the columns; `None` if a name does not fit its column."""
        room = width - 3 * len(self.columns) - 1
        columns = [[name, *cells] for name, *cells in zip(self.columns, *self.rows, strict=True)]
        least = [max(map(cell_len, " ".join(cells).split()), default=0) for cells in columns]
        most = [max(cell_len(line) for c in cells for line in c.split("\n")) for cells in columns]
        if sum(least) > room:
            return None
        level = room  # The widest column, except where a single word is wider.
        while True:
            widths = [max(low, min(high, level)) for low, high in zip(least, most, strict=True)]
            if sum(widths) <= room:
                return widths
            level -= 1

    def _grid(self, widths: list[int]) -> Grid:
        grid = Grid()
        for column, width in zip(self.columns, widths, strict=True):
            justify = "right" if column in self.numbers else "left"
            grid.add_column(column, width=width, justify=justify, overflow="fold")
        for row, style in zip(self.rows, self._styles(), strict=True):
            grid.add_row(*map(Text, row), style=style)
        return grid

    def _paragraphs(self, width: int) -> Iterator[Text]:
        for row, style in zip(self.rows, self._styles(), strict=True):
            for number, (column, cell) in enumerate(zip(self.columns, row, strict=True)):
                if cell:
                    indent = " " * _HANGING if number else ""
                    for index, line in enumerate(cell.split("\n")):
                        start = f"{indent}{column}: " if not index else f"{indent}  "
                        yield from _lines(f"{start}{line}", width, style, 2 * _HANGING)

    def _styles(self) -> Sequence[str]:
        return self.styles or [""] * len(self.rows)


def _lines(text: str, width: int, style: str = "", hanging: int = _HANGING) -> Iterator[Text]:
    for line in folded(text, width, hanging=hanging):
        yield Text(line, style=style)


class Result(ABC):
    """What a verb returns.

    - `print(result)` is a table that fits the terminal, or 80 columns where there is none;
      notebooks show it as HTML, and rich draws it.
    - `result.ok` is the verdict: whether everything is fine.
    - `result.to_dict()` is plain data, for JSON.
    - `repr(result)` is one line.

    There are two kinds of truth: a `Verdict` is true if it is `ok`, and a `Listing` is true
    if it lists anything, like a list.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def ok(self) -> bool:
        """The verdict."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The result in one line."""

    @abstractmethod
    def table(self) -> Table:
        """Return the result as a table."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain data, for JSON."""

    def __rich__(self) -> Table:
        """Return what rich draws."""
        return self.table()

    def __str__(self) -> str:
        """Return the table as plain text."""
        return as_text(self.table())

    def __repr__(self) -> str:
        """Return one line."""
        return brief(f"{type(self).__name__}:", self.title)

    def _repr_html_(self) -> str:
        """Return the table for notebooks."""
        return self.table().html()


class Verdict(Result):
    """A result that is true in a condition if it is `ok`."""

    __slots__ = ()

    def __bool__(self) -> bool:
        """Whether the verdict is good."""
        return self.ok


class Listing(Result, Generic[Item]):
    """A result that is true in a condition if it lists anything, as a list is."""

    __slots__ = ()

    @abstractmethod
    def _items(self) -> tuple[Item, ...]:
        """Return what is listed."""

    def __bool__(self) -> bool:
        """Whether anything is listed."""
        return bool(self._items())

    def __len__(self) -> int:
        """Return how much is listed."""
        return len(self._items())

    def __iter__(self) -> Iterator[Item]:
        """Yield what is listed."""
        return iter(self._items())
