"""Names: made unique, and suggested when one is not known."""

import difflib
import re
from collections.abc import Collection, Container


def unique_name(name: str, taken: Container[str]) -> str:
    """Returns the name itself if it is free, or else `name#2`, `name#3`, ..."""
    if name not in taken:
        return name
    number = 2
    while f"{name}#{number}" in taken:
        number += 1
    return f"{name}#{number}"


def prefixed(model: str, name: str) -> str:
    """Returns a name for a layer that comes out of a model: `encoder_conv`.

    Without the dots of the model's name: PyTorch holds no weights under such names.
    """
    return f"{model.replace('.', '_')}_{name}"


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Returns `; did you mean 'x'?` for the nearest known name, or nothing."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def counted(number: int, noun: str) -> str:
    """Returns `1 layer` or `3 layers`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def is_automatic(name: str, kind: str) -> bool:
    """Tells whether Keras made a name up from the name of the class: `dense_3`."""
    return re.sub(r"_\d+$", "", name).replace("_", "") == kind.lower()


def next_free(name: str, taken: Container[str]) -> str:
    """Returns an automatic name with the next number that is free: `dense_4`."""
    base, number = re.sub(r"_\d+$", "", name), 1
    while f"{base}_{number}" in taken:
        number += 1
    return f"{base}_{number}"


def shown(value: object) -> str:
    """Return a value as a line of the journal has it: literals as they are, others by class."""
    plain: tuple[type, ...] = (bool, int, float, str, list, tuple, dict, type(None))
    return repr(value) if type(value) in plain else type(value).__name__
