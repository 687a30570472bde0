"""The backend of Keras, chosen before Keras is imported."""

import os
import sys
from enum import StrEnum
from importlib.util import find_spec

from ramet.errors import OptionError


class Backend(StrEnum):
    """The backends that ramet supports."""

    jax = "jax"
    tensorflow = "tensorflow"
    torch = "torch"


def choose(wanted: Backend | None) -> None:
    """Set the backend: the wanted one, that of the environment, or the first installed.

    Raises:
        OptionError: If it is not installed, or Keras already runs on another one.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    name = wanted or os.environ.get("KERAS_BACKEND") or _first_installed()
    if name not in [*Backend]:
        message = f"KERAS_BACKEND is '{name}', and ramet runs on {', '.join(Backend)}"
        raise OptionError(f"{message}; {_remedy()}")
    if not _is_installed(name):
        installed = ", ".join(filter(_is_installed, Backend)) or "none"
        message = f"backend '{name}' is not installed (installed: {installed})"
        raise OptionError(f"{message}; {_remedy()}")
    if wanted is not None and "keras" in sys.modules:
        _check_current(wanted)
    os.environ["KERAS_BACKEND"] = name


def _first_installed() -> str:
    for backend in Backend:
        if _is_installed(backend):
            return backend
    raise OptionError(f"no backend is installed; install one of {', '.join(Backend)}")


def _remedy() -> str:
    other = next(filter(_is_installed, Backend), None)
    if other is None:
        return f"install one of {', '.join(Backend)}"
    return f"use --backend {other}, or set KERAS_BACKEND={other}"


def _is_installed(name: str) -> bool:
    return find_spec(name) is not None


def _check_current(wanted: str) -> None:
    from ramet import backends

    name = backends.current().name
    if name != wanted:
        raise OptionError(f"Keras already runs on {name} and cannot change to {wanted}")
