"""Values as a line of a report has them."""

import enum
import functools
import types
from typing import Any, cast

import numpy as np

from ramet.backends.values import is_tensor
from ramet.comparing.objects.values import ATOMS, PYTHONS_OWN, WHOLE, kind_of, unwrapped

ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "absent"})()
"""What stands for an attribute that only the other object has."""

_LONG = 60
"""Longer values are cut where they are shown."""


def apart(old: Any, new: Any) -> tuple[str, str]:
    """Return two different things as texts that are not the same."""
    texts = shown(old), shown(new)
    if texts[0] != texts[1]:
        return texts
    kinds = [type(value).__name__ for value in (old, new)]
    if kinds[0] != kinds[1]:
        return f"{texts[0]} ({kinds[0]})", f"{texts[1]} ({kinds[1]})"
    modules = [getattr(value, "__module__", None) for value in (old, new)]
    if modules[0] != modules[1]:
        return f"{texts[0]} of {modules[0]}", f"{texts[1]} of {modules[1]}"
    return texts[0], f"another {texts[1]}"


def shown(value: Any) -> str:
    """Return a value as a line of a report has it."""
    if value is ABSENT:
        return "absent"
    if is_tensor(value) and not isinstance(value, np.generic):
        dtype = getattr(value.dtype, "name", None) or str(value.dtype).removeprefix("torch.")
        return f"{dtype}{[*value.shape]}"
    if is_plain(value):
        text = _text(value)
        return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."
    return _named(value) or f"<{type(value).__name__}>"


def _named(value: Any) -> str | None:
    """Return the name of what has one."""
    if isinstance(value, dict) and "class_name" in value:
        return str(cast("dict[str, Any]", value)["class_name"])
    if isinstance(value, functools.partial):
        return f"partial({shown(value.func)})"
    if isinstance(value, type) or _is_function(value):
        return str(getattr(value, "__name__", ""))
    return None


def _is_function(value: Any) -> Any:
    kinds = types.FunctionType, types.BuiltinFunctionType, types.MethodType
    return isinstance(value, kinds)


def is_plain(value: Any) -> bool:
    """Whether the text of a value says all of it."""
    if isinstance(value, (*ATOMS, enum.Enum, np.generic, np.dtype, range)):
        return True
    if _named(value) is not None:
        return False
    content = unwrapped(value)
    if kind_of(value) in PYTHONS_OWN:
        items = [*content, *content.values()] if isinstance(content, dict) else [*content]
        return all(is_plain(item) for item in items)
    return type(value).__module__ in WHOLE and type(value).__repr__ is not object.__repr__


def _text(value: Any) -> str:
    kind = kind_of(value)
    if isinstance(value, enum.Enum):
        return str(value)
    if kind not in PYTHONS_OWN or type(value) is kind:
        return repr(value)
    content = unwrapped(value)
    if kind in (set, frozenset):
        return f"{{{', '.join(sorted(map(repr, content)))}}}"
    return repr(kind(content))
