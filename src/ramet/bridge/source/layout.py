"""Python expressions as small trees, and their text: in lines no longer than they may be.

The text is what ruff and black would make of it: a bracket whose content does not fit is
opened, and what stands in it goes on a line of its own, or on one line for each item.
"""

import json
from dataclasses import dataclass
from typing import TypeAlias

WIDTH = 88
"""The longest line, like ruff's and black's."""

_STEP = 4


@dataclass(frozen=True, slots=True)
class Group:
    """A bracket with items, perhaps behind something: a call, a list, a dict."""

    head: "Expr"
    """What stands before the bracket; empty for a list or a dict."""
    items: tuple[tuple[str, "Expr"], ...]
    """Each with what stands before it, such as `units=`."""
    brackets: str = "()"
    """The opening and the closing bracket."""

    @property
    def is_call(self) -> bool:
        """Whether it is a call, not a display of a list, tuple or dict."""
        return self.head != ""


Expr: TypeAlias = str | Group
"""Text that stays as it is, or a bracket that can be opened."""


def call(head: Expr, *args: Expr, **kwargs: Expr) -> Group:
    """Returns a call of something."""
    named = [(f"{name}=", value) for name, value in kwargs.items()]
    return Group(head, (*(("", arg) for arg in args), *named))


def display(brackets: str, items: list[Expr]) -> Expr:
    """Returns a list or a tuple."""
    if brackets == "()" and len(items) == 1:
        return f"({flat(items[0])},)"
    return Group("", tuple(("", item) for item in items), brackets)


def text_of(value: str) -> str:
    """Returns a string as Python writes it, in double quotes and in ASCII."""
    return json.dumps(value).replace("\\/", "/") if value.isprintable() else _escaped(value)


def _escaped(value: str) -> str:
    inner = ascii(f"'{value}")[2:-1]  # the quote inside makes Python choose double quotes
    return f'"{inner}"' if '"' not in value else ascii(value)


def flat(expr: Expr) -> str:
    """Returns an expression on one line."""
    if isinstance(expr, str):
        return expr
    return f"{flat(expr.head)}{expr.brackets[0]}{_items(expr)}{expr.brackets[1]}"


def _items(group: Group) -> str:
    return ", ".join(f"{key}{flat(item)}" for key, item in group.items)


def statement(before: str, expr: Expr, after: str = "") -> list[str]:
    """Returns the lines of a statement of a function, such as `x = f(x)`."""
    start = " " * _STEP + before
    return (start + _laid(expr, len(start), _STEP, len(after)) + after).split("\n")


def _laid(expr: Expr, at: int, indent: int, rest: int) -> str:
    """Lays out an expression that starts in a column and has `rest` characters behind it."""
    if isinstance(expr, str):
        return expr
    head = _laid(expr.head, at, indent, 1 if expr.items else 2 + rest)
    last = head.rsplit("\n", 1)
    column = len(last[-1]) if len(last) > 1 else at + len(head)
    content = _items(expr)
    opening, closing = expr.brackets
    if not expr.items or column + len(content) + 2 + rest <= WIDTH:
        return f"{head}{opening}{content}{closing}"
    inner, margin = indent + _STEP, " " * (indent + _STEP)
    if expr.is_call and inner + len(content) <= WIDTH:
        lines = [margin + content]
    else:
        lines = [
            f"{margin}{key}{_laid(item, inner + len(key), inner, 1)}," for key, item in expr.items
        ]
    return "\n".join([f"{head}{opening}", *lines, " " * indent + closing])
