"""Exceptions: who raised them, and what they say without Keras's wrapping."""

import contextlib
import re
from collections.abc import Generator

import keras

from ramet import backends


def unwrapped(error: Exception) -> Exception:
    """Return the exception of a layer's `__init__`, which `from_config` wraps."""
    inner = error.__context__
    wrapped = str(error).startswith("Error when deserializing class")
    return inner if wrapped and isinstance(inner, Exception) else error


def raised_by_user(error: Exception) -> bool:
    """Whether an exception was raised by user code, not by Keras or Python."""
    return _raiser(error) not in ("keras", "ramet", "")


def raised_in_a_call(error: Exception) -> bool:
    """Whether an exception was raised by Keras or a backend, as for a wrong shape."""
    return _raiser(error) in {"ramet", "optree", *backends.LIBRARIES}


def _raiser(error: Exception) -> str:
    """Return the package that raised an exception; for `inspect`, the package that called it.

    Keras binds the arguments of a call by `inspect`, which raises if there is no such argument.
    """
    trace, package = error.__traceback__, ""
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        package = package if name == "inspect" else name
        trace = trace.tb_next
    return package


@contextlib.contextmanager
def whole_tracebacks() -> Generator[None]:
    """Keep the frames of Keras and the backends in tracebacks, to know who raised an exception."""
    filtered = keras.config.is_traceback_filtering_enabled()
    keras.config.disable_traceback_filtering()
    try:
        yield
    finally:
        if filtered:
            keras.config.enable_traceback_filtering()


def reason_of(error: Exception) -> str:
    """Return the line of an exception that says what is wrong, without Keras's wrapping."""
    text = re.sub(r"\x1b\[\d+m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reasons = [line for line in lines if not line.startswith("Exception encountered when calling")]
    if len(reasons) > 1 and reasons[0].endswith("Error encountered:"):
        return reasons[1]  # Of the layer's own code, which Keras ran to infer its output.
    return next(iter(reasons), type(error).__name__)
