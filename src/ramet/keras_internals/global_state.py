"""Keras's global state: the counters behind automatic names, and generators of random numbers."""

import contextlib
import random
from collections.abc import Generator

import keras
import numpy as np
from keras.src.backend.common import global_state
from keras.src.saving.serialization_lib import SafeModeScope
from keras.src.utils.naming import auto_name

from ramet import backends


@contextlib.contextmanager
def untouched_names() -> Generator[None]:
    """Restore the counters behind automatic names on exit."""
    counters = global_state.get_global_attribute("object_name_uids")
    saved = dict(counters or {})
    try:
        yield
    finally:
        counters = global_state.get_global_attribute("object_name_uids")
        if counters is not None:
            counters.clear()
            counters.update(saved)


def safe_deserialization() -> contextlib.AbstractContextManager[None]:
    """Have Keras refuse pickled code, even where the program allows it globally."""
    return SafeModeScope(safe_mode=True)


@contextlib.contextmanager
def fresh_names() -> Generator[None]:
    """Reset the counters behind automatic names, and restore them on exit."""
    with untouched_names():
        counters = global_state.get_global_attribute("object_name_uids")
        if counters is not None:
            counters.clear()
        yield


def automatic_name(kind: str) -> str:
    """Return the next automatic name for an instance of a class of that name."""
    return auto_name(kind)


@contextlib.contextmanager
def untouched_randomness() -> Generator[None]:
    """Start with a new global seed generator, and restore all global generators on exit.

    Those are Python's, NumPy's, Keras's and PyTorch's, which initializers may draw from; not
    TensorFlow's.
    """
    with borrowed_randomness():
        global_state.set_global_attribute("global_seed_generator", None)
        yield


def make_global_generator() -> None:
    """Create Keras's global seed generator, as its first use would, if there is none yet."""
    if global_state.get_global_attribute("global_seed_generator") is None:
        generator = keras.random.SeedGenerator()
        global_state.set_global_attribute("global_seed_generator", generator)


@contextlib.contextmanager
def borrowed_randomness() -> Generator[None]:
    """Restore the global generators on exit, and draw from them as they are meanwhile.

    The same ones as `untouched_randomness`. The state of Keras's own is a variable: draw from
    it only in a `keras.StatelessScope`, or it will not be restored.
    """
    generator = global_state.get_global_attribute("global_seed_generator")
    states = [(backend, backend.random_state()) for backend in backends.loaded()]
    state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 users' initializers may draw from the global one
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)  # noqa: NPY002 the same
        global_state.set_global_attribute("global_seed_generator", generator)
        for backend, backend_state in states:
            backend.set_random_state(backend_state)


def seed_globals(seed: int) -> None:
    """Seed the global generators, which initializers may draw from."""
    random.seed(seed)
    for backend in backends.loaded():
        backend.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 the same
    generator = keras.random.SeedGenerator(seed % 2**31, name="global_seed_generator")
    global_state.set_global_attribute("global_seed_generator", generator)


@contextlib.contextmanager
def fixed_randomness(seed: int) -> Generator[None]:
    """Seed the global generators, and restore them and the name counters on exit."""
    with untouched_randomness(), untouched_names():
        seed_globals(seed)
        yield
