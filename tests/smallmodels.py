"""A small model to put odd layers into, with data for it."""

import keras
import numpy as np
from keras import layers, ops

DATA = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
TARGETS = np.zeros((4, 2), "float32")


def small(*extra) -> keras.Model:
    """Returns a model of a dense layer, with other layers before it."""
    return keras.Sequential([keras.Input((3,)), *extra, layers.Dense(2)])


def result(model) -> np.ndarray:
    """Returns what a model makes of the data."""
    return ops.convert_to_numpy(model(DATA))
