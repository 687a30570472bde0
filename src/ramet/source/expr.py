"""Python expressions as small trees: names, literals, and brackets around them.

A model may come from an untrusted file, so nothing of it gets into the source unchecked. There are
two ways in: `bare_name`, which refuses everything but plain identifiers, and `literal`, which
quotes. Every leaf also knows the value that it stands for, so that an expression is checked by
computing its value from the tree; its text is never evaluated.
"""

import keyword
import math
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeGuard

from ramet.errors import SourceError

OPEN: Any = object()
"""The value of what only the source itself defines: its functions, layers and tensors."""


_RANKS = {
    **dict.fromkeys(("<", "<=", ">", ">=", "!="), 1),
    **dict.fromkeys(("+", "-"), 2),
    **dict.fromkeys(("*", "/", "//", "%", "@"), 3),
    "**": 5,
}
"""Python's operators by how strongly they bind."""
_SIGN = 4
"""The rank of an operator before its operand: `-x`."""
_WHOLE = 6
"""The rank of what no operator can pull apart: a name, a call, an index."""

_LONG = 10
"""A number with more characters is written as a fraction if it is one: `1 / 255`."""
_SMALL = 1e-6
"""Smaller numbers are not."""


class OpenError(Exception):
    """An expression uses what only the source itself defines."""


class Leaf(str):
    """Text that stays as it is, created by `bare_name`, `literal` and what uses them."""

    __slots__ = ("rank", "value")
    value: Any
    """What it stands for."""
    rank: int
    """How strongly its parts bind, as in `_RANKS`: `x + y` needs a bracket in `(x + y) * z`."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something inside a bracket."""

    expr: "Expr"
    keyword: str | None = None
    """The keyword of an argument."""
    key: "Expr | None" = None
    """The key of an entry of a dict."""
    is_spread: bool = False
    """Whether it is a dict of keyword arguments."""
    counted: str = ""
    """For a name that may be automatic, the part that Keras counts, such as `dense`."""

    @property
    def before(self) -> str:
        """The text before the expression."""
        if self.keyword is not None:
            return f"{self.keyword}="
        if self.key is not None:
            return f"{flat(self.key)}: "
        return "**" if self.is_spread else ""


@dataclass(frozen=True, slots=True)
class Group:
    """A bracket with items: a call, a list, a tuple or a dict."""

    head: "Expr | None"
    """What is called; `None` for a list, tuple or dict."""
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

    Python normalizes letters beyond ASCII to others that look alike, so they are not allowed.
    """
    if not isinstance(text, str) or keyword.iskeyword(text) or text == "__debug__":
        return False
    return text.isascii() and text.isidentifier()


def bare_name(text: str, value: Any = OPEN) -> Leaf:
    """Return a name, or several with dots between them.

    Raises:
        SourceError: If Python would read it as anything else.
    """
    if not all(map(is_name, text.split("."))):
        raise SourceError(f"{text!a} is not a name in Python, so it cannot be written; rename it")
    return _leaf(text, value)


def literal(value: Any) -> Leaf | None:
    """Return a string, number or other plain constant; `None` for anything else."""
    if value is Ellipsis:
        return _leaf("...", value)
    if isinstance(value, str):
        return text_of(value)
    if value is None or type(value) in (bool, int, bytes):
        return _leaf(ascii(value), value)
    if type(value) is float:
        return _number(value)
    return None


def _number(value: float) -> Leaf:
    """Return a number as people write it: `1e-5`, not `1e-05`, and `1 / 255` for a long one."""
    if not math.isfinite(value):
        return _leaf(f'float("{value}")', value)
    text = re.sub(r"e([-+])0", r"e\1", repr(value))
    if len(text) > _LONG and _SMALL < value < 1:
        for above in (1, 2):
            below = round(above / value)
            if above / below == value:
                return _leaf(f"{above} / {below}", value, _RANKS["/"])
    return _leaf(text, value)


def text_of(value: str) -> Leaf:
    """Return a string as Python writes it, in ASCII and if possible in double quotes."""
    plain = str.__str__(value)
    inner = ascii(f"'{plain}")[2:-1]  # the quote inside makes Python choose double quotes
    return _leaf(f'"{inner}"' if '"' not in plain else ascii(plain), plain)


def part_of(whole: Leaf, keys: Iterable[Expr]) -> Leaf:
    """Return a part of what a tensor, dict or list holds: `x["a"][0]`."""
    return _leaf(whole + "".join(f"[{flat(key)}]" for key in keys), OPEN)


def closed(group: Group) -> Leaf:
    """Return a call on one line, as an operand."""
    return _leaf(flat(group), OPEN)


def sliced(whole: Leaf, key: Any) -> Leaf:
    """Return an index of integers, slices of integers, `None` and `...`: `x[:, 0]`."""
    parts = key if isinstance(key, tuple) else (key,)
    return _leaf(f"{_within(whole, _WHOLE)}[{', '.join(map(_index, parts))}]", OPEN)


def _index(part: Any) -> str:
    if not isinstance(part, slice):
        return str(literal(part))
    ends = ["" if end is None else ascii(int(end)) for end in (part.start, part.stop)]
    return ":".join(ends if part.step is None else [*ends, ascii(int(part.step))])


def infix(left: Leaf, symbol: str, right: Leaf) -> Leaf:
    """Return two operands with an operator between them: `x + y`."""
    rank = _RANKS[symbol]
    chains = symbol == "**" or rank == _RANKS["<"]  # x ** y ** z and x < y < z mean other things
    if symbol == "**" and _is_simple(left) and _is_simple(right):
        return _leaf(f"{left}**{right}", OPEN, rank)
    first, second = _within(left, rank + chains), _within(right, rank + 1)
    return _leaf(f"{first} {symbol} {second}", OPEN, rank)


def prefix(symbol: str, operand: Leaf) -> Leaf:
    """Return an operand after an operator: `-x`."""
    return _leaf(f"{symbol}{_within(operand, _WHOLE)}", OPEN, _SIGN)


def _within(operand: Leaf, rank: int) -> str:
    """Return an operand, in brackets if it binds less strongly than its place needs."""
    return str(operand) if operand.rank >= rank else f"({operand})"


def _is_simple(operand: Leaf) -> bool:
    """Whether ruff and black write a power of it without spaces."""
    return is_name(str(operand)) or re.fullmatch(r"-?\d+(\.\d+)?", operand) is not None


def row(names: list[Leaf]) -> Leaf:
    """Return names separated by commas, as the target of an assignment."""
    text = ", ".join(names)
    return _leaf(f"({text},)" if len(names) == 1 else text, OPEN)


def _leaf(text: str, value: Any, rank: int | None = None) -> Leaf:
    leaf = Leaf(text)
    leaf.value = value
    leaf.rank = rank or (_SIGN if text.startswith("-") else _WHOLE)
    return leaf


def call(head: Expr, /, *args: Expr, **kwargs: Expr) -> Group:
    """Return a call. Keywords that are not names in Python are passed in a dict."""
    items = [Item(arg) for arg in args]
    items += [Item(value, keyword=key) for key, value in kwargs.items() if is_name(key)]
    odd = [(text_of(key), value) for key, value in kwargs.items() if not is_name(key)]
    if odd:
        items.append(Item(mapping(odd), is_spread=True))
    return Group(head, tuple(items))


def named(group: Group, name: str, counted: str) -> Group:
    """Return a call with a name as its last argument.

    Args:
        group: The call.
        name: The name.
        counted: If the name may be automatic, the part that Keras counts; otherwise empty.
    """
    item = Item(text_of(name), keyword="name", counted=counted)
    spread = [one for one in group.items if one.is_spread]
    plain = [one for one in group.items if not one.is_spread]
    return replace(group, items=(*plain, item, *spread))


def without_names(expr: Expr, left_out: Container[str]) -> Expr:
    """Return an expression without the names that are left to Keras."""
    if isinstance(expr, Leaf):
        return expr
    head = None if expr.head is None else without_names(expr.head, left_out)
    items = tuple(
        replace(item, expr=without_names(item.expr, left_out))
        for item in expr.items
        if not item.counted or item.counted not in left_out
    )
    return replace(expr, head=head, items=items)


def display(brackets: str, items: Iterable[Expr]) -> Group:
    """Return a list or a tuple."""
    inside = tuple(map(Item, items))
    closing = ",)" if brackets == "()" and len(inside) == 1 else brackets[1]
    return Group(None, inside, (brackets[0], closing))


def mapping(items: Iterable[tuple[Expr, Expr]]) -> Group:
    """Return a dict."""
    return Group(None, tuple(Item(value, key=key) for key, value in items), ("{", "}"))


def flat(expr: Expr) -> str:
    """Return an expression on one line."""
    if isinstance(expr, str):
        return expr
    head = "" if expr.head is None else flat(expr.head)
    return f"{head}{expr.brackets[0]}{flat_items(expr)}{expr.brackets[1]}"


def flat_items(group: Group) -> str:
    """Return the content of a bracket, on one line."""
    return ", ".join(f"{item.before}{flat(item.expr)}" for item in group.items)


def value_of(expr: Expr) -> Any:
    """Compute the value of an expression, without evaluating its text.

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
