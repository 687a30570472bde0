"""A small table in HTML, for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape

_LEFT = ' style="text-align:left;vertical-align:top"'


def html_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()
) -> str:
    """Return a table with a title above it and notes below; all text is escaped.

    It sets no colors, so it is readable in light and dark themes of notebooks.
    """
    head = "".join(f"<th{_LEFT}>{escape(column)}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td{_LEFT}>{_lines(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    below = "".join(f"<div>{_lines(note)}</div>" for note in notes)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else ""
    return f"<div><div><b>{escape(title)}</b></div>{table}{below}</div>"


def _lines(text: str) -> str:
    return escape(text).replace("\n", "<br>")
