"""The work of a clone grows with its layers and not faster: counted, so no machine matters."""

import sys

import keras
import pytest
from keras import layers

import ramet


def chain(depth: int) -> keras.Model:
    x = inputs = keras.Input((4,))
    for place in range(depth):
        x = layers.ReLU()(x) if place % 2 else layers.Dense(4)(x)
    return keras.Model(inputs, x)


def calls_per_layer(depth: int, weights: str) -> float:
    """Counts the calls of functions, Python's and C's, while a chain is cloned."""
    model, calls = chain(depth), 0
    ramet.clone(model, weights=weights)  # What is found out once does not count.

    def note(_frame, event, _argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        ramet.clone(model, weights=weights)
    finally:
        sys.setprofile(None)
    return calls / depth


@pytest.mark.parametrize("weights", ["copy", "share"])
def test_ten_times_as_many_layers_take_ten_times_as_many_calls(weights):
    assert calls_per_layer(300, weights) <= calls_per_layer(30, weights)


@pytest.mark.parametrize("weights", ["copy", "share"])
def test_no_layer_is_made_or_called_again(weights):
    """Keras makes thousands of calls to construct a layer and run it on symbolic tensors."""
    assert calls_per_layer(100, weights) < 600
