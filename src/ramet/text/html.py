"""A small table in HTML, for notebooks."""

from collections.abc import Collection, Iterable, Sequence
from html import escape

_CELL = "vertical-align:top;padding:2px 12px 2px 0;text-align:"


def html_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    notes: Iterable[str] = (),
    numbers: Collection[str] = (),
) -> str:
    """Return a table with a title above it and notes below; all text is escaped.

    It sets no colors, so it is readable in light and dark themes of notebooks. Columns that say
    nothing are left out.

    Args:
        title: The text above the table.
        columns: The headings.
        rows: The cells, which may have several lines.
        notes: Paragraphs below the table.
        numbers: Columns that are aligned right.
    """
    rows = [*rows]
    kept = [at for at in range(len(columns)) if any(row[at] for row in rows)]
    sides = {at: "right" if columns[at] in numbers else "left" for at in kept}
    head = "".join(_cell("th", columns[at], sides[at]) for at in kept)
    body = "".join(
        f"<tr>{''.join(_cell('td', row[at], sides[at]) for at in kept)}</tr>" for row in rows
    )
    below = "".join(f"<div>{_lines(note)}</div>" for note in notes)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if kept else ""
    return f"<div><div><b>{escape(title)}</b></div>{table}{below}</div>"


def _cell(tag: str, text: str, side: str) -> str:
    return f'<{tag} style="{_CELL}{side}">{_lines(text)}</{tag}>'


def _lines(text: str) -> str:
    return escape(text).replace("\n", "<br>")
