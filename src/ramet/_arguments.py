"""Checks of the arguments that users pass, with uniform messages.

Every check raises an `OptionError` that names the argument, says what it should be and what it
is. No check compares, converts or prints a value before its type is known: a user can pass
arrays, symbolic tensors, lists that contain themselves, or objects whose `repr` fails.
"""

import difflib
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, cast

from ramet.errors import OptionError

DEEPEST = 200
"""Levels of lists, tuples and dicts in an argument. Keras itself fails on a few more."""

_LARGEST_SIZE = 2**40
"""The largest size of an axis that is accepted."""

_LONGEST = 60
"""Characters of a value in a message."""
_DIGITS = 40
"""Digits of a number in a message."""


def shown(value: object) -> str:
    """Return a value as messages show it: short literals as they are, anything else by class."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value)
    if kind is int and abs(cast("int", value)) >= 10**_DIGITS:
        return "a huge int"
    if value is None or kind in (bool, int, float, complex):
        return repr(value)
    if kind in (str, bytes):
        text = cast("str | bytes", value)
        return repr(text if len(text) <= _LONGEST else text[:_LONGEST]) + (
            "..." if len(text) > _LONGEST else ""
        )
    if kind in (list, tuple, dict, set) and not cast("Collection[Any]", value):
        return f"an empty {kind.__name__}"
    article = "an" if kind.__name__[0].lower() in "aeiou" else "a"
    return f"{article} {kind.__name__}"


def attribute(value: Any, name: str) -> Any:
    """Return an attribute of whatever was passed, or `None` if it has none that can be read."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 whatever its class raises
        return None


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return `; did you mean 'x'?` for the closest known name, or an empty string."""
    near = difflib.get_close_matches(name[:_LONGEST], known, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def check_flag(value: object, what: str) -> None:
    """Check that an argument is `True` or `False`."""
    if not isinstance(value, bool):
        raise OptionError(f"{what} must be True or False, got {shown(value)}")


def check_word(value: object, what: str, known: Collection[str]) -> None:
    """Check that an argument is one of some words."""
    if not isinstance(value, str) or value not in known:
        words = ", ".join(f"'{word}'" for word in known)
        hint = did_you_mean(value, known) if isinstance(value, str) else ""
        raise OptionError(f"unknown {what}={shown(value)}; expected one of {words}{hint}")


def check_text(value: object, what: str) -> None:
    """Check that an argument is a string."""
    if not isinstance(value, str):
        raise OptionError(f"{what} must be a string, got {shown(value)}")


def check_name(value: object, what: str) -> None:
    """Check that an argument is a name that Keras accepts."""
    if not isinstance(value, str) or not value or "/" in value:
        raise OptionError(f"{what} must be a string without '/', got {shown(value)}")


def check_count(value: object, what: str, most: int) -> None:
    """Check that an argument is a number of things."""
    if not _is_integer(value) or not 0 <= int(cast("int", value)) <= most:
        raise OptionError(f"{what}, 0 to {most:,}, got {shown(value)}")


def is_size(value: object) -> bool:
    """Whether a value can be the size of an axis."""
    is_integer = not isinstance(value, bool) and isinstance(value, Integral)
    return is_integer and 0 < int(cast("int", value)) <= _LARGEST_SIZE


def check_batch(batch: object) -> None:
    """Check that a batch size is a positive integer.

    Raises:
        OptionError: If it is not.
    """
    if not is_size(batch):
        message = f"batch must be a positive integer, got {shown(batch)}"
        raise OptionError(message)


def check_number(value: object, what: str) -> None:
    """Check that an argument is a finite number that a float can hold."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not abs(cast("float", value)) <= sys.float_info.max:
        raise OptionError(f"{what} must be a number, got {shown(value)}")


def check_index(value: object, what: str) -> None:
    """Check that an argument is an integer, and no truth value."""
    if not _is_integer(value):
        raise OptionError(f"{what} must be an integer, got {shown(value)}")


def _is_integer(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Integral)


def check_function(value: object, what: str, arguments: int, of: str) -> None:
    """Check that an argument is a function that accepts a number of positional arguments.

    Args:
        value: The argument.
        what: Its name.
        arguments: With how many arguments it is called, at least.
        of: What they are, in words.
    """
    if not callable(value) or isinstance(value, type) or _is_of_keras(value):
        raise OptionError(f"{what} must be a function of {of}, got {shown(value)}")
    try:
        signature = inspect.signature(cast("Callable[..., Any]", value))
    except (TypeError, ValueError):
        return  # some built-in functions have none
    try:
        signature.bind(*(None,) * arguments)
    except TypeError:
        count = f"{arguments} argument" if arguments == 1 else f"{arguments} arguments"
        message = f"{what} must be a function of {of}, but cannot be called with {count}"
        raise OptionError(f"{message}; give it the parameters that it needs") from None


def _is_of_keras(value: object) -> bool:
    """Whether something is an object of Keras, such as a layer, though it can be called."""
    return not inspect.isroutine(value) and any(
        base.__module__.partition(".")[0] == "keras" for base in type(value).__mro__
    )


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


def checked_path(value: object, what: str) -> Path:
    """Return an argument that is a path to a file.

    Raises:
        OptionError: If it is none.
    """
    try:
        text = cast("Any", os.fspath(cast("str", value)) if _is_path(value) else None)
        os.fsencode(text or "")
    except Exception as error:  # whatever its class raises
        raise OptionError(f"{what} must be the path of a file, got {shown(value)}") from error
    if not isinstance(text, str) or not text or "\0" in text:
        raise OptionError(f"{what} must be the path of a file, got {shown(value)}")
    return Path(text)


def check_mapping(value: object, what: str, of: str) -> None:
    """Check that an argument is a dict with strings as keys."""
    if not isinstance(value, Mapping):
        raise OptionError(f"{what} must be a dict of {of}, got {shown(value)}")
    odd = [key for key in cast("Mapping[Any, Any]", value) if not isinstance(key, str)]
    if odd:
        raise OptionError(f"{what} must be a dict of {of}, but has the key {shown(odd[0])}")


def is_true(value: object, what: str) -> bool:
    """Return whether what a user's function returned is true.

    Raises:
        OptionError: If it has no truth value, as an array has none.
    """
    try:
        return bool(value)
    except Exception as error:  # whatever its class raises
        raise OptionError(f"{what} must return True or False, got {shown(value)}") from error


def _is_container(value: Any) -> bool:
    return isinstance(value, (list, tuple, dict))


def _items(container: Any) -> Iterable[Any]:
    return cast("Any", container.values() if isinstance(container, dict) else container)


def check_depth(tree: object, what: str) -> None:
    """Check that lists, tuples and dicts are not nested too deeply, or endlessly."""
    level: list[Any] = [tree]
    for _ in range(DEEPEST):
        # Each container once, so that an endless list does not grow.
        inner = {id(one): one for one in filter(_is_container, level)}
        if not inner:
            return
        level = [item for one in inner.values() for item in _items(one)]
    raise OptionError(f"{what} is nested more than {DEEPEST} levels deep; pass a flatter one")
