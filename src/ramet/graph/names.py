"""Names: made unique, and suggested when one is not known."""

import difflib
from collections.abc import Collection, Container


def unique_name(name: str, taken: Container[str]) -> str:
    """Returns the name itself if it is free, or else `name#2`, `name#3`, ..."""
    if name not in taken:
        return name
    number = 2
    while f"{name}#{number}" in taken:
        number += 1
    return f"{name}#{number}"


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Returns `; did you mean 'x'?` for the nearest known name, or nothing."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def counted(number: int, noun: str) -> str:
    """Returns `1 layer` or `3 layers`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
