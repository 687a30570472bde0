"""The version of Keras: whether ramet was tested with it, and what is new in an untested one.

A new version can store something that a copy must not simply copy, such as the id of an object.
So the fields that Keras's base classes assign are compared with the ones that are known, and
copies of unknown ones are checked: see `copying/unknown_fields.py`.
"""

import dis
import functools
import importlib
import inspect
import re
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras

from ramet.backends import is_of_keras
from ramet.errors import UntestedKerasWarning, VersionError
from ramet.keras_internals.inventory import FIELDS, IMPORTS, NEWEST, OLDEST, Private

_HERE = str(Path(__file__).parents[1])
"""The folder of ramet: a warning points to the line of the user that called it."""


def _numbers(version: str) -> tuple[int, ...]:
    """Return major and minor version."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def version_advice() -> str:
    """Say which versions to install."""
    major, minor = _numbers(NEWEST)
    return f"install a newer ramet, or 'keras>={OLDEST},<{major}.{minor + 1}'"


def is_untested() -> bool:
    """Whether Keras is newer than the newest version that ramet was tested with."""
    return _numbers(keras.__version__) > _numbers(NEWEST)


def require_names(names: tuple[Private, ...] = IMPORTS) -> None:
    """Check that an untested Keras has the private names that ramet imports.

    Raises:
        VersionError: If one is missing.
    """
    if _numbers(OLDEST) <= _numbers(keras.__version__) <= _numbers(NEWEST):
        return
    for name in names:
        try:
            getattr(importlib.import_module(name.owner), name.name)
        except (ImportError, AttributeError) as error:
            message = (
                f"ramet does not work with Keras {keras.__version__}, which has no "
                f"{name.owner}.{name.name} ({name.purpose}); {version_advice()}"
            )
            raise VersionError(message) from error


def warn_if_untested() -> None:
    """Warn, once per process, if Keras is newer than the newest version tested."""
    if is_untested():
        _warn()


@functools.cache
def _warn() -> None:
    fields = ", ".join(sorted(f"{owner}.{name}" for name, owner in unknown_fields().items()))
    new = f" It has private fields that ramet does not know: {fields}." if fields else ""
    message = (
        f"Keras {keras.__version__} is newer than {NEWEST}, the newest version that ramet was "
        f"tested with.{new} To be safe, {version_advice()}; or compare copies with ramet.verify."
    )
    warnings.warn(message, UntestedKerasWarning, stacklevel=_depth_of_user())


def _depth_of_user() -> int:
    """Return the `stacklevel` for a warning of the function that calls this one."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        level, frame = level + 1, frame.f_back
    return level


# --- the fields of base classes ----------------------------------------------------------


@functools.cache
def unknown_fields() -> dict[str, str]:
    """Return the private fields of an untested Keras that are not known, with their classes."""
    if not is_untested():
        return {}
    return {name: owner for name, owner in assigned_fields().items() if name not in FIELDS}


def assigned_fields() -> dict[str, str]:
    """Return the private attributes that methods of Keras's base classes assign.

    By name, with the class that assigns them.
    """
    classes = dict.fromkeys(cls for base in base_classes() for cls in base.__mro__)
    return {
        name: cls.__name__
        for cls in filter(is_of_keras, reversed(classes))
        for name in _assigned_by(cls)
        if name.startswith("_")
    }


@functools.cache
def base_classes() -> tuple[Any, ...]:
    """Return the classes of Keras on whose fields copies depend."""
    from keras.src.models.functional import Functional
    from keras.src.ops.node import Node
    from keras.src.utils.tracking import Tracker

    return (
        Functional,
        Node,
        Tracker,
        keras.KerasTensor,
        keras.Layer,
        keras.Metric,
        keras.Operation,
        keras.Sequential,
        keras.Variable,
        keras.optimizers.Optimizer,
        keras.random.SeedGenerator,
    )


def _assigned_by(cls: type) -> Iterator[str]:
    """Yield the attributes that the methods of a class assign."""
    for member in vars(cls).values():
        for function in _functions_of(member):
            for code in _codes_of(function.__code__):
                for instruction in dis.get_instructions(code):
                    if instruction.opname == "STORE_ATTR":
                        yield instruction.argval


def _functions_of(member: Any) -> Iterator[types.FunctionType]:
    """Yield the functions behind a member of a class: of a property, three."""
    parts: list[Any] = [member]
    if isinstance(member, property):
        parts = [member.fget, member.fset, member.fdel]
    for part in parts:
        function = inspect.unwrap(getattr(part, "__func__", part))
        if isinstance(function, types.FunctionType):
            yield function


def _codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object, and those of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes_of(constant)


require_names()
