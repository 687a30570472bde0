"""Which backend Keras runs on: chosen before Keras is imported."""

import os
import sys
from enum import StrEnum
from importlib.util import find_spec

from ramet.errors import OptionError


class Backend(StrEnum):
    """The backends that ramet knows."""

    jax = "jax"
    tensorflow = "tensorflow"
    torch = "torch"


def choose(wanted: Backend | None) -> None:
    """Sets the backend: the one that is wanted, the environment's, or the first installed.

    Raises:
        OptionError: If it is not installed, or Keras runs on another one already.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    name = wanted or os.environ.get("KERAS_BACKEND") or _first_installed()
    if name not in [*Backend]:
        raise OptionError(f"KERAS_BACKEND is '{name}'; ramet runs on {', '.join(Backend)}")
    if not _is_installed(name):
        found = ", ".join(filter(_is_installed, Backend)) or "none"
        raise OptionError(f"backend '{name}' is not installed (installed: {found})")
    if wanted is not None and "keras" in sys.modules:
        _check_current(wanted)
    os.environ["KERAS_BACKEND"] = name


def _first_installed() -> str:
    for backend in Backend:
        if _is_installed(backend):
            return backend
    raise OptionError(f"no backend is installed; install one of {', '.join(Backend)}")


def _is_installed(name: str) -> bool:
    return find_spec(name) is not None


def _check_current(wanted: str) -> None:
    import keras

    if keras.backend.backend() != wanted:
        message = f"Keras runs on {keras.backend.backend()} already and cannot change to {wanted}"
        raise OptionError(message)
