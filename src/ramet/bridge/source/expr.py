"""Python expressions as small trees: names, literals, and brackets around them.

A model may come from a file of a stranger, so nothing of it gets into the source as it is.
There are two ways in: `bare_name`, which refuses all but plain identifiers, and `literal`, which
quotes. Every leaf also knows what it stands for, so that an expression is tried by making its
value from the tree; its text is never evaluated.
"""

import keyword
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

from ramet.errors import SourceError

OPEN: Any = object()
"""The value of what only the source itself defines: its functions, layers and tensors."""


class OpenError(Exception):
    """An expression uses what only the source itself defines."""


class Leaf(str):
    """Text that stays as it is. `bare_name`, `literal` and what is made of them return it."""

    __slots__ = ("value",)
    value: Any
    """What it stands for."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something inside of a bracket."""

    expr: "Expr"
    keyword: str | None = None
    """The keyword of an argument."""
    key: "Expr | None" = None
    """The key of an entry of a dict."""
    is_spread: bool = False
    """Whether it is a dict of keyword arguments."""

    @property
    def before(self) -> str:
        """What stands before the expression."""
        if self.keyword is not None:
            return f"{self.keyword}="
        if self.key is not None:
            return f"{flat(self.key)}: "
        return "**" if self.is_spread else ""


@dataclass(frozen=True, slots=True)
class Group:
    """A bracket with items, perhaps behind something: a call, a list, a dict."""

    head: "Expr | None"
    """What stands before the bracket; nothing for a list or a dict."""
    items: tuple[Item, ...]
    brackets: tuple[str, str] = ("(", ")")
    """The opening and the closing bracket; a tuple of one item closes with a comma."""

    @property
    def is_call(self) -> bool:
        """Whether it is a call, not a display of a list, tuple or dict."""
        return self.head is not None


Expr: TypeAlias = Leaf | Group
"""Text that stays as it is, or a bracket that can be opened."""


def is_name(text: Any) -> TypeGuard[str]:
    """Whether a text can stand in source as a name, and Python reads it as it is written.

    Python takes letters beyond ASCII for others that look alike, so they are no part of names.
    """
    if not isinstance(text, str) or keyword.iskeyword(text) or text == "__debug__":
        return False
    return text.isascii() and text.isidentifier()


def bare_name(text: str, value: Any = OPEN) -> Leaf:
    """Returns a name, or several with dots between them.

    Raises:
        SourceError: If Python would read it as anything else.
    """
    if not all(map(is_name, text.split("."))):
        raise SourceError(f"{text!a} is no name in Python, so no source can say it; rename it")
    return _leaf(text, value)


def literal(value: Any) -> Leaf | None:
    """Returns a string, number or other plain constant; `None` if it is no such thing."""
    if value is Ellipsis:
        return _leaf("...", value)
    if isinstance(value, str):
        return text_of(value)
    if value is None or type(value) in (bool, int, bytes):
        return _leaf(ascii(value), value)
    if type(value) is float:
        return _leaf(repr(value) if math.isfinite(value) else f'float("{value}")', value)
    return None


def text_of(value: str) -> Leaf:
    """Returns a string as Python writes it, in ASCII and if possible in double quotes."""
    plain = str.__str__(value)
    inner = ascii(f"'{plain}")[2:-1]  # the quote inside makes Python choose double quotes
    return _leaf(f'"{inner}"' if '"' not in plain else ascii(plain), plain)


def part_of(whole: Leaf, keys: Iterable[Expr]) -> Leaf:
    """Returns a part of what a tensor, dict or list holds: `x["a"][0]`."""
    return _leaf(whole + "".join(f"[{flat(key)}]" for key in keys), OPEN)


def sliced(whole: Leaf, key: Any) -> Leaf:
    """Returns an index of integers, slices of integers, `None` and `...`: `x[:, 0]`."""
    parts = key if isinstance(key, tuple) else (key,)
    return _leaf(f"{whole}[{', '.join(map(_index, parts))}]", OPEN)


def _index(part: Any) -> str:
    if not isinstance(part, slice):
        return str(literal(part))
    ends = ["" if end is None else ascii(int(end)) for end in (part.start, part.stop)]
    return ":".join(ends if part.step is None else [*ends, ascii(int(part.step))])


def row(names: list[Leaf]) -> Leaf:
    """Returns names with commas between them, as the target of an assignment."""
    text = ", ".join(names)
    return _leaf(f"({text},)" if len(names) == 1 else text, OPEN)


def _leaf(text: str, value: Any) -> Leaf:
    made = Leaf(text)
    made.value = value
    return made


def call(head: Expr, /, *args: Expr, **kwargs: Expr) -> Group:
    """Returns a call of something. Keywords that are no names are passed in a dict."""
    items = [Item(arg) for arg in args]
    items += [Item(value, keyword=key) for key, value in kwargs.items() if is_name(key)]
    odd = [(text_of(key), value) for key, value in kwargs.items() if not is_name(key)]
    if odd:
        items.append(Item(mapping(odd), is_spread=True))
    return Group(head, tuple(items))


def display(brackets: str, items: Iterable[Expr]) -> Group:
    """Returns a list or a tuple."""
    inside = tuple(map(Item, items))
    closing = ",)" if brackets == "()" and len(inside) == 1 else brackets[1]
    return Group(None, inside, (brackets[0], closing))


def mapping(items: Iterable[tuple[Expr, Expr]]) -> Group:
    """Returns a dict."""
    return Group(None, tuple(Item(value, key=key) for key, value in items), ("{", "}"))


def flat(expr: Expr) -> str:
    """Returns an expression on one line."""
    if isinstance(expr, str):
        return expr
    head = "" if expr.head is None else flat(expr.head)
    return f"{head}{expr.brackets[0]}{flat_items(expr)}{expr.brackets[1]}"


def flat_items(group: Group) -> str:
    """Returns what stands inside of a bracket, on one line."""
    return ", ".join(f"{item.before}{flat(item.expr)}" for item in group.items)


def value_of(expr: Expr) -> Any:
    """Makes the value of an expression, without reading its text.

    Raises:
        OpenError: If it uses what only the source itself defines.
    """
    if isinstance(expr, Leaf):
        if expr.value is OPEN:
            raise OpenError
        return expr.value
    if expr.head is not None:
        return _called(value_of(expr.head), expr.items)
    if expr.brackets[0] == "{":
        pairs = ((item.key, item.expr) for item in expr.items)
        return {value_of(key): value_of(value) for key, value in pairs if key is not None}
    values = [value_of(item.expr) for item in expr.items]
    return values if expr.brackets[0] == "[" else tuple(values)


def _called(function: Any, items: tuple[Item, ...]) -> Any:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for item in items:
        value = value_of(item.expr)
        if item.is_spread:
            kwargs |= value
        elif item.keyword is not None:
            kwargs[item.keyword] = value
        else:
            args.append(value)
    return function(*args, **kwargs)
