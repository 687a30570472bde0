"""Keras objects as plain data, without what Keras imports for that."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import keras
from keras.src.utils import module_utils


def serialized(value: Any) -> Any:
    """Return an object as `keras.saving.serialize_keras_object` describes it."""
    with _without_importing_tensorflow():
        return keras.saving.serialize_keras_object(value)


def live_config(layer: Any) -> Any:
    """Return what the `get_config` of a layer or optimizer returns, or raise what it raises."""
    with _without_importing_tensorflow():
        return layer.get_config()


@contextmanager
def _without_importing_tensorflow() -> Generator[None]:
    """Keep Keras from importing TensorFlow to find out whether an object belongs to it.

    It does so on every backend, at the cost of seconds and of lines in the log. As long as
    TensorFlow is not imported, no object belongs to it.
    """
    module: Any = module_utils.tensorflow
    if "tensorflow" in sys.modules or module._available is not None:
        yield
        return
    module._available = False
    try:
        yield
    finally:
        module._available = None
