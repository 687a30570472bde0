"""Values that never change, and are compared as they are."""

import enum
import functools
from typing import Any

import numpy as np

from ramet import keras_internals as internals
from ramet.backends.tensorflow import is_list_wrapper, tensorflow_content

ATOMS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
"""Values that are compared as they are, and shown in full."""

_OTHERS = (enum.Enum, np.generic, np.dtype, range)
"""Other values that never change."""

_ATOMS = frozenset(ATOMS)
_SURE = (*_OTHERS, type)

PYTHONS_OWN = (list, tuple, dict, set, frozenset)

WHOLE = frozenset({"builtins", "datetime", "decimal", "fractions", "uuid", "pathlib", "re"})
"""Modules of Python whose objects are values, compared by their text."""


def kind_of(value: Any) -> Any:
    """Return the class of a value; that of Python for what Keras and TensorFlow wrap."""
    kind = type(value)
    if kind in PYTHONS_OWN:
        return kind
    if kind in internals.TRACKED_COLLECTIONS or is_wrapped(kind):
        return next(each for each in PYTHONS_OWN if isinstance(unwrapped(value), each))
    return kind


def unwrapped(value: Any) -> Any:
    """Return the plain content of a list, dict or tuple that TensorFlow wraps."""
    if is_list_wrapper(type(value)):
        return [*value]
    content = tensorflow_content(value)
    return value if content is None else content


@functools.cache
def is_wrapped(kind: type) -> bool:
    """Whether a class is one that TensorFlow wraps containers in."""
    names = "ListWrapper", "_DictWrapper", "_TupleWrapper"
    return kind.__module__.startswith("tensorflow.") and kind.__name__ in names


def is_value(value: Any) -> bool:
    """Whether a value never changes and can be compared at once."""
    if type(value) in _ATOMS or isinstance(value, _SURE):
        return True
    # An instance of a user's subclass of `int` or `str` may have attributes.
    return isinstance(value, ATOMS) and not getattr(value, "__dict__", None)


def key_of(value: Any) -> Any:
    """Return what is equal for values that are the same: `1`, `1.0` and `True` are not."""
    if isinstance(value, (enum.Enum, type)):
        return value
    if isinstance(value, np.generic):
        return type(value), value.tobytes()
    return type(value), text_of(value)


def text_of(value: Any) -> str:
    """Return the text of a value, whatever a user's subclass says that it is."""
    base = next((kind for kind in ATOMS if isinstance(value, kind)), None)
    return repr(value) if base in (None, type(value)) else base.__repr__(value)
