"""Names and short texts: unique and automatic names, suggestions, lists, counts."""

import re
from collections.abc import Container, Sequence
from typing import Any, cast

from ramet import _arguments as arguments
from ramet._arguments import did_you_mean as did_you_mean  # noqa: PLC0414 it is used from here

_BRIEF = 120
"""The most characters of a `repr`."""


def unique_name(name: str, taken: Container[str]) -> str:
    """Return a name, or the first of `name#2`, `name#3`, ... that is free."""
    if name not in taken:
        return name
    number = 2
    while f"{name}#{number}" in taken:
        number += 1
    return f"{name}#{number}"


def prefixed(model: str, name: str) -> str:
    """Return a name for a layer that is moved out of a model: `encoder_conv`.

    Dots in the model's name are replaced: PyTorch cannot hold weights under such names.
    """
    return f"{model.replace('.', '_')}_{name}"


def counted(number: int, noun: str) -> str:
    """Return `1 layer` or `3 layers`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def with_article(noun: str) -> str:
    """Return `a Dense` or `an Embedding`."""
    return f"{'an' if noun[:1] in 'AEIOaeio' else 'a'} {noun}"


def listed(items: Sequence[str], most: int = 3, separator: str = ", ") -> str:
    """Return the first items of a list, and how many more there are: `a, b, c and 9 more`."""
    if len(items) <= most + 1:  # "and 1 more" is no shorter than the item itself
        return separator.join(items)
    return f"{separator.join(items[:most])} and {len(items) - most} more"


def brief(kind: str, text: str) -> str:
    """Return `<kind text>` on one short line, for `repr`."""
    line = " ".join(text.split())
    room = _BRIEF - len(f"<{kind} >")
    return f"<{kind} {line if len(line) <= room else f'{line[: room - 3]}...'}>"


def is_automatic(name: str, kind: str) -> bool:
    """Whether Keras derived a name from the name of the class: `dense_3`."""
    return re.sub(r"_\d+$", "", name).replace("_", "") == kind.lower()


def next_free(name: str, taken: Container[str]) -> str:
    """Return an automatic name with the next free number: `dense_4`."""
    base, number = re.sub(r"_\d+$", "", name), 1
    while f"{base}_{number}" in taken:
        number += 1
    return f"{base}_{number}"


def shown(value: object) -> str:
    """Return a value for an entry of the journal: a literal as it is, others by class."""
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return f"{{{', '.join(f'{shown(key)}: {shown(item)}' for key, item in items)}}}"
    if type(value) in (list, tuple):
        inside = ", ".join(map(shown, cast("list[Any]", value)))
        comma = "," if isinstance(value, tuple) and len(cast("tuple[Any, ...]", value)) == 1 else ""
        return f"[{inside}]" if isinstance(value, list) else f"({inside}{comma})"
    plain: tuple[type, ...] = (bool, int, float, str, type(None))
    return arguments.shown(value) if type(value) in plain else type(value).__name__
