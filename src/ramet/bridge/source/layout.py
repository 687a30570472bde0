"""The text of expressions, in lines no longer than they may be.

The text is what ruff and black would make of it: a bracket whose content does not fit is
opened, and what stands in it goes on a line of its own, or on one line for each item.
"""

from ramet.bridge.source.expr import Expr, flat_items

WIDTH = 88
"""The longest line, like ruff's and black's."""

_STEP = 4


def statement(before: str, expr: Expr, after: str = "") -> list[str]:
    """Returns the lines of a statement of a function, such as `x = f(x)`."""
    start = " " * _STEP + before
    return (start + _laid(expr, len(start), _STEP, len(after)) + after).split("\n")


def _laid(expr: Expr, at: int, indent: int, rest: int) -> str:
    """Lays out an expression that starts in a column and has `rest` characters behind it."""
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
