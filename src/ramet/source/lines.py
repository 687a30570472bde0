"""The text of statements, in lines of limited length.

The format is that of ruff and black: a bracket whose content does not fit is opened, and its
content gets a line of its own, or one line per item.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from ramet.source.expr import Expr, flat, flat_items, without_names

WIDTH = 88
"""The longest line, like ruff's and black's."""

_STEP = 4


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a function, such as `x = f(x)`, before it is laid out."""

    before: str
    expr: Expr
    after: str = ""
    counted: str = ""
    """If the statement only sets a name that may be automatic, the part that Keras counts."""


Line: TypeAlias = Statement | str
"""A statement, or a line that stays as it is."""


def laid_out(lines: Iterable[Line], left_out: Container[str]) -> list[str]:
    """Return the lines of a function without the names that are left to Keras."""
    text: list[str] = []
    for line in lines:
        if isinstance(line, str):
            text.append(line)
        elif not line.counted or line.counted not in left_out:
            start = " " * _STEP + line.before
            expr = without_names(line.expr, left_out)
            laid = start + _laid(expr, len(start), _STEP, len(line.after)) + line.after
            text += laid.split("\n")
    return text


def fits(target: str, expr: Expr) -> bool:
    """Whether an assignment fits on one line."""
    return _STEP + len(f"{target} = ") + len(flat(expr)) <= WIDTH


def _laid(expr: Expr, at: int, indent: int, rest: int) -> str:
    """Lay out an expression that starts in a column and has `rest` characters after it."""
    if isinstance(expr, str):
        return expr
    head = "" if expr.head is None else _laid(expr.head, at, indent, 1 if expr.items else 2 + rest)
    last = head.rsplit("\n", 1)
    column = len(last[-1]) if len(last) > 1 else at + len(head)
    content = flat_items(expr)
    opening, closing = expr.brackets
    if not expr.items or column + len(opening + content + closing) + rest <= WIDTH:
        return f"{head}{opening}{content}{closing}"
    inner, margin = indent + _STEP, " " * (indent + _STEP)
    if expr.is_call and inner + len(content) <= WIDTH:
        lines = [margin + content]
    else:
        lines = [
            f"{margin}{item.before}{_laid(item.expr, inner + len(item.before), inner, 1)},"
            for item in expr.items
        ]
    return "\n".join([f"{head}{opening}", *lines, " " * indent + closing[-1]])
