"""The arguments that constructors of layers take, and were called with."""

import contextlib
import inspect
from collections.abc import Generator
from typing import Any

import keras


def constructor_parameters(cls: type) -> dict[str, inspect.Parameter]:
    """Return the parameters of a constructor, with those that it passes on to its bases."""
    parameters: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if "__init__" not in vars(base) or base is object:
            continue
        own = [*inspect.signature(base.__init__).parameters.values()][1:]
        variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        for parameter in own:
            if parameter.kind not in variadic:
                parameters.setdefault(parameter.name, parameter)
        if not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in own):
            break
        if base is keras.Layer:
            break
    return parameters


@contextlib.contextmanager
def noted_arguments() -> Generator[dict[int, list[str]]]:
    """Record, for layers created meanwhile, which constructor arguments were passed.

    By the ids of the layers. Keras itself records arguments with their defaults filled in.
    """
    notes: dict[int, list[str]] = {}
    plain = keras.Operation.__new__

    def noting(cls: type, *args: Any, **kwargs: Any) -> Any:
        operation = plain(cls, *args, **kwargs)
        names = inspect.getfullargspec(cls.__init__).args[1:]
        notes[id(operation)] = [*names[: len(args)], *kwargs]
        return operation

    keras.Operation.__new__ = noting
    try:
        yield notes
    finally:
        keras.Operation.__new__ = plain
