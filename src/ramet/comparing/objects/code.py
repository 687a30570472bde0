"""Whether two functions have the same code, wherever they were written."""

import types
from pathlib import Path
from typing import Any

import keras

from ramet.comparing.objects.values import key_of


def is_code_of_keras(function: types.FunctionType) -> bool:
    """Whether a function is one of Keras's own, and not one that Keras loaded."""
    return function.__code__.co_filename.startswith(_KERAS)


_KERAS = str(Path(keras.__file__).parent)


def code_facts(code: types.CodeType) -> Any:
    """Return what is equal for functions that do the same, wherever they were written."""
    constants = tuple(
        code_facts(item) if isinstance(item, types.CodeType) else _constant(item)
        for item in code.co_consts
    )
    names = code.co_names, code.co_freevars, code.co_cellvars, code.co_varnames
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return code.co_code, code.co_exceptiontable, names, counts, constants


def _constant(item: Any) -> Any:
    if isinstance(item, tuple):
        return tuple(map(_constant, item))
    if isinstance(item, frozenset):
        return frozenset(map(_constant, item))
    return key_of(item)
