"""What lies around a model: Keras's global state, and who raised an exception."""

import contextlib
import gc
import random
import re
import sys
from collections.abc import Generator, Mapping
from typing import Any

import keras
import numpy as np
from keras.src.backend.common import global_state
from keras.src.saving.serialization_lib import SafeModeScope
from keras.src.utils.naming import auto_name


def unwrapped(error: Exception) -> Exception:
    """Returns what a layer's `__init__` raised, which `from_config` wraps."""
    inner = error.__context__
    wrapped = str(error).startswith("Error when deserializing class")
    return inner if wrapped and isinstance(inner, Exception) else error


def raised_by_user(error: Exception) -> bool:
    """Tells whether an exception comes from a user's code, not from Keras or Python."""
    return _raiser(error) not in ("keras", "ramet", "")


def raised_in_a_call(error: Exception) -> bool:
    """Tells whether an exception comes from Keras or a backend, as for a shape that is wrong."""
    return _raiser(error) in ("keras", "ramet", "tensorflow", "torch", "jax", "numpy", "optree")


def _raiser(error: Exception) -> str:
    """Returns the package in which an exception was raised, or that asked `inspect` and so got it.

    Keras lets `inspect` bind the arguments of a call, which raises if there is no such argument.
    """
    trace, package = error.__traceback__, ""
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        package = package if name == "inspect" else name
        trace = trace.tb_next
    return package


@contextlib.contextmanager
def whole_tracebacks() -> Generator[None]:
    """Lets exceptions keep the frames of Keras and the backends, which tell who raised them."""
    filtered = keras.config.is_traceback_filtering_enabled()
    keras.config.disable_traceback_filtering()
    try:
        yield
    finally:
        if filtered:
            keras.config.enable_traceback_filtering()


def reason_of(error: Exception) -> str:
    """Returns the line of an exception that says what is wrong, without Keras's wrapping."""
    text = re.sub(r"\x1b\[\d+m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith("Exception encountered when calling")]
    if len(told) > 1 and told[0].endswith("Error encountered:"):
        return told[1]  # Of the layer's own code, which Keras ran to infer its output.
    return next(iter(told), type(error).__name__)


@contextlib.contextmanager
def deep_recursion(calls: int) -> Generator[None]:
    """Lets Keras, which walks graphs recursively, walk one of so many calls."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 10 * calls + 1000))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


_SHALLOW = 12
"""Models inside each other that fit on Python's stack, whatever walks through them."""
_FRAMES = 60
"""Frames that a call of one model inside another takes at most, on any backend."""


def _inside(model: Any) -> list[Any]:
    """Lists the models in a model, or the graphs in a graph."""
    layers = getattr(model, "layers", ())
    if isinstance(layers, Mapping):
        return [layer.graph for layer in layers.values() if layer.graph is not None]
    return [layer for layer in layers if isinstance(layer, keras.Model)]


def _levels(model: Any) -> int:
    """Counts how many models are inside each other. Costs O(layers) per level."""
    level, count = {id(model): model}, 0
    while level:
        count += 1
        level = {id(part): part for each in level.values() for part in _inside(each)}
    return count


@contextlib.contextmanager
def room_for(*models: Any) -> Generator[None]:
    """Lets models that are inside each other, many levels deep, be walked through and called.

    Takes models and graphs.
    """
    levels = max((_levels(model) for model in models), default=0)
    if levels <= _SHALLOW:
        yield
        return
    with deep_recursion(levels * _FRAMES // 10):
        yield


@contextlib.contextmanager
def untouched_names() -> Generator[None]:
    """Restores the counters from which Keras makes names, after use."""
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
    """Has Keras refuse pickled code, even where the program allowed it for all of its files."""
    return SafeModeScope(safe_mode=True)


@contextlib.contextmanager
def fresh_names() -> Generator[None]:
    """Lets automatic names count from the start, and restores the counters after use."""
    with untouched_names():
        counters = global_state.get_global_attribute("object_name_uids")
        if counters is not None:
            counters.clear()
        yield


def automatic_name(kind: str) -> str:
    """Returns the name that Keras would give to a layer of a class of that name."""
    return auto_name(kind)


@contextlib.contextmanager
def untouched_randomness() -> Generator[None]:
    """Restores the generators of random numbers that initializers draw from.

    Python's, NumPy's, Keras's and PyTorch's global ones; not TensorFlow's.
    """
    with borrowed_randomness():
        global_state.set_global_attribute("global_seed_generator", None)
        yield


def make_global_generator() -> None:
    """Makes Keras's global generator of seeds, as its first use would, if there is none yet."""
    if global_state.get_global_attribute("global_seed_generator") is None:
        generator = keras.random.SeedGenerator()
        global_state.set_global_attribute("global_seed_generator", generator)


@contextlib.contextmanager
def borrowed_randomness() -> Generator[None]:
    """Lets the global generators be drawn from as they stand, and restores them after use.

    The same ones as `untouched_randomness`. Keras's own is a variable: to leave it as it is,
    draw from it in a `keras.StatelessScope` only.
    """
    generator = global_state.get_global_attribute("global_seed_generator")
    torch = sys.modules.get("torch")
    torch_state = None if torch is None else torch.random.get_rng_state()
    state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 users' initializers may draw from the global one
    try:
        yield
    finally:
        random.setstate(state)
        np.random.set_state(numpy_state)  # noqa: NPY002 the same
        global_state.set_global_attribute("global_seed_generator", generator)
        if torch is not None:
            torch.random.set_rng_state(torch_state)


def seed_globals(seed: int) -> None:
    """Seeds the generators of random numbers that initializers draw from."""
    random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed % 2**63)
    np.random.seed(seed % 2**32)  # noqa: NPY002 the same
    generator = keras.random.SeedGenerator(seed % 2**31, name="global_seed_generator")
    global_state.set_global_attribute("global_seed_generator", generator)


@contextlib.contextmanager
def fixed_randomness(seed: int) -> Generator[None]:
    """Seeds the global generators of random numbers, and restores them after use."""
    with untouched_randomness(), untouched_names():
        seed_globals(seed)
        yield


@contextlib.contextmanager
def paused_collector() -> Generator[None]:
    """Keeps Python's garbage collector from looking at what is made meanwhile.

    Nothing of it is garbage, and there is much of it. Afterwards it is young, like all that
    is new: what the collector took for old at once, it would look at too rarely.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
