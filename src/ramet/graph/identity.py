"""Numbers that identify live layers, and outlive them.

Two records with the same number describe one layer. An `id` would not do: a new layer may get the
id of one that was deleted, and ids differ between processes.
"""

import itertools
import secrets
import weakref
from typing import Any

_NUMBERS = itertools.count(secrets.randbits(62) + 1)
_NAMELESS = itertools.count(-1, -1)
_KNOWN: dict[int, tuple[weakref.ref[Any], int]] = {}


def token_of(origin: Any) -> int:
    """Return the number of a live layer, always the same; for `None`, a new negative number."""
    if origin is None:
        return next(_NAMELESS)
    key = id(origin)
    known = _KNOWN.get(key)
    if known is not None and known[0]() is origin:
        return known[1]
    try:
        reference = weakref.ref(origin, lambda gone: _forget(key, gone))
    except TypeError:  # Without a weak reference, its deletion goes unnoticed.
        return next(_NAMELESS)
    number = next(_NUMBERS)
    _KNOWN[key] = reference, number
    return number


def _forget(key: int, gone: weakref.ref[Any]) -> None:
    known = _KNOWN.get(key)
    if known is not None and known[0] is gone:
        del _KNOWN[key]
