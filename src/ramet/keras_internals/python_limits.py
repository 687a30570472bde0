"""Python's recursion limit and garbage collector, set for large models."""

import contextlib
import gc
from collections.abc import Generator, Mapping
from typing import Any

import keras

from ramet import _recursion
from ramet.errors import DepthError


@contextlib.contextmanager
def deep_recursion(calls: int) -> Generator[None]:
    """Raise the recursion limit so that Keras can walk a graph of that many calls."""
    with _recursion.raised_limit(10 * calls + 1000):
        yield


_SHALLOW = 12
"""Levels of nested models that fit on Python's stack, whatever walks through them."""


_FRAMES = 60
"""The most frames that a call of a nested model needs, on any backend."""


_BYTES = 1 << 13
"""The most bytes of the stack that such a call needs; it is less than 6,100."""


def _inside(model: Any) -> list[Any]:
    """List the models directly inside a model, or the graphs directly inside a graph."""
    layers = getattr(model, "layers", ())
    if isinstance(layers, Mapping):
        return [layer.graph for layer in layers.values() if layer.graph is not None]
    return [layer for layer in layers if isinstance(layer, keras.Model)]


def _levels(model: Any) -> int:
    """Count the levels of nested models. Costs O(layers) per level."""
    level, count = {id(model): model}, 0
    while level:
        count += 1
        level = {id(part): part for each in level.values() for part in _inside(each)}
    return count


@contextlib.contextmanager
def room_for(*models: Any) -> Generator[None]:
    """Raise the recursion limit so that deeply nested models can be walked through and called.

    Args:
        models: Models or graphs.

    Raises:
        DepthError: If that does not fit on the stack of the thread.
    """
    levels = max((_levels(model) for model in models), default=0)
    if levels <= _SHALLOW:
        yield
        return
    size = _recursion.stack().size
    if levels * _BYTES > size * 3 // 4:
        most = size * 3 // 4 // _BYTES
        message = (
            f"models are nested {levels:,} levels deep, and {most:,} fit on the stack of this "
            f"thread ({size >> 10:,} KiB); use a thread with a larger one (threading.stack_size)"
        )
        raise DepthError(message)
    with deep_recursion(levels * _FRAMES // 10):
        yield


@contextlib.contextmanager
def paused_collector() -> Generator[None]:
    """Pause Python's garbage collector while many objects are created, none of them garbage.

    The new objects stay in the youngest generation: in the oldest, where `gc.freeze` and
    `gc.unfreeze` would put them, they would be examined too rarely.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def quick_collections() -> Generator[None]:
    """Have `gc.collect` look at objects made meanwhile only.

    Keras calls it for every layer that it quantizes; with all modules of a backend loaded, that
    takes a second each time.
    """
    if gc.get_freeze_count():  # by the program, which may count on it
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
