"""What differs between JAX, TensorFlow and PyTorch: one interface (base.py), a module for each.

`current` is the backend that Keras runs on; `backend_of` is the one that a class belongs to.
"""

import functools
from typing import Any

from ramet.backends.base import Backend
from ramet.backends.jax import Jax
from ramet.backends.tensorflow import TensorFlow
from ramet.backends.torch import Torch

BACKENDS: tuple[Backend, ...] = (Jax("jax"), TensorFlow("tensorflow"), Torch("torch"))
"""All supported backends."""

_OTHER = Backend("numpy")
"""Answers for classes that belong to no backend."""

PACKAGES = {package: backend for backend in BACKENDS for package in backend.packages}
"""Backends by the top-level packages that their classes come from."""

LIBRARIES = frozenset({"builtins", "keras", "numpy", *PACKAGES})
"""Packages whose code is not the user's."""


def current() -> Backend:
    """Return the backend that Keras runs on."""
    import keras

    return _named(keras.backend.backend())  # noqa: TID251 the one place that asks


@functools.cache
def _named(name: str) -> Backend:
    return next((each for each in BACKENDS if each.name == name), None) or Backend(name)


def loaded() -> list[Backend]:
    """Return the backends whose packages are imported."""
    return [backend for backend in BACKENDS if backend.is_loaded]


def package_of(cls: Any) -> str:
    """Return the top-level package that a class or function comes from."""
    return str(getattr(cls, "__module__", "")).partition(".")[0]


def is_of_keras(cls: Any) -> bool:
    """Whether a class or function is Keras's own."""
    return package_of(cls) == "keras"


@functools.cache
def backend_of(cls: type) -> Backend:
    """Return the backend that a class or one of its bases comes from."""
    for base in cls.__mro__:
        backend = PACKAGES.get(package_of(base))
        if backend is not None:
            return backend
    return _OTHER
