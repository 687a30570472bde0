"""Data that a model is called on: whether it is any, and what to say if it does not fit."""

import contextlib
from collections.abc import Generator
from numbers import Integral
from typing import Any

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet._arguments import check_depth, shown
from ramet.backends.values import is_symbolic, is_tensor
from ramet.errors import OptionError, RametError


def check_data(data: Any, what: str) -> None:
    """Check that input data is an array, or a structure of arrays.

    Args:
        data: The data.
        what: The name of the argument that it was passed as.

    Raises:
        OptionError: If it is something else.
    """
    check_depth(data, what)
    try:
        flat = keras.tree.flatten(data)
    except Exception as error:  # such as a dict with keys that cannot be sorted
        raise OptionError(f"{what} has a structure that Keras cannot read: {error}") from error
    if not any(leaf is not None for leaf in flat):
        raise OptionError(f"{what} must be an array, or a structure of them, got {shown(data)}")
    for leaf in flat:
        if leaf is not None and not _is_array(leaf):
            message = (
                f"{what} must be an array, or a structure of them, but holds {shown(leaf)}; "
                "convert it with numpy.array or keras.ops.convert_to_tensor"
            )
            raise OptionError(message)


def _is_array(value: Any) -> bool:
    if isinstance(value, (np.ndarray, np.generic)):
        is_text = value.dtype.kind == "O" and all(isinstance(i, (str, bytes)) for i in value.flat)
        return value.dtype.kind != "O" or is_text
    if is_symbolic(value) or isinstance(value, type):
        return False
    try:
        return is_tensor(value) or _is_like_an_array(value)
    except Exception:  # noqa: BLE001 whatever its class raises when it is asked for attributes
        return False


def _is_like_an_array(value: Any) -> bool:
    """Whether an object of another library says its shape and dtype."""
    sizes = [*value.shape]
    return hasattr(value, "dtype") and all(isinstance(size, Integral) for size in sizes)


@contextlib.contextmanager
def explained_failures(model: Any, data: Any) -> Generator[None]:
    """Turn what Keras and backends raise meanwhile into an error about the data.

    What user code raises passes through.

    Raises:
        OptionError: If the model cannot be called on the data.
    """
    try:
        with internals.whole_tracebacks():
            yield
    except RametError:
        raise
    except Exception as error:
        if not internals.raised_in_a_call(internals.unwrapped(error)):
            raise
        leaves = ", ".join(str(leaf.shape) for leaf in keras.tree.flatten(data) if leaf is not None)
        message = (
            f"model '{model.name}' cannot be called on data of shape {leaves}: "
            f"{internals.reason_of(internals.unwrapped(error))}"
        )
        raise OptionError(message) from error
