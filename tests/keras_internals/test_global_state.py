"""Keras's global state, and who raised an exception: both left as they were."""

import random

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet import keras_internals as internals


def draws() -> list:
    """Draws from every global generator that a layer's initializer may use."""
    return [
        random.random(),
        np.random.random(),  # noqa: NPY002  the global one
        ops.convert_to_numpy(keras.random.normal((2,))).tolist(),
    ]


def test_what_is_drawn_inside_does_not_change_what_is_drawn_after():
    internals.seed_globals(3)
    expected = draws()
    internals.seed_globals(3)
    with internals.untouched_randomness():
        draws()
    assert draws() == expected


def test_a_fixed_seed_gives_the_same_draws():
    found = []
    for _ in range(2):
        with internals.fixed_randomness(7):
            found.append(draws())
    assert found[0] == found[1]


def test_names_go_on_where_they_stood():
    first = layers.ReLU().name
    with internals.untouched_names():
        inside = layers.ReLU().name
    assert inside == layers.ReLU().name != first


def test_who_raised():
    class Fails(layers.Layer):
        def __init__(self):
            super().__init__()
            raise ZeroDivisionError

    def caught(function) -> Exception:
        with pytest.raises(Exception) as info:  # noqa: PT011  whatever it is
            function()
        return info.value

    assert internals.raised_by_user(caught(Fails))
    assert not internals.raised_by_user(caught(lambda: layers.Dropout(-1)))
    wrapped = caught(lambda: Fails.from_config({}))
    assert isinstance(internals.unwrapped(wrapped), ZeroDivisionError)


def test_a_failed_clone_leaves_everything_as_it_was():
    from exact import assert_untouched, fingerprint

    class Early(layers.Layer):
        def __init__(self, secret, **kwargs):
            del secret
            super().__init__(**kwargs)
            self.scale = self.add_weight(shape=(), name="scale")

        def call(self, x):
            return x * self.scale

    model = keras.Sequential([keras.Input((3,)), layers.Dense(3), Early(object(), name="early")])
    model.compile("sgd", "mse")
    before = fingerprint(model)
    for options in ({"weights": "fresh", "seed": 1}, {"weights": "no"}, {"name": "a/b"}):
        with pytest.raises(ramet.RametError):
            ramet.clone(model, **options)
    model.layers[0].open = (i for i in ())
    with pytest.raises(ramet.CopyError):
        ramet.clone(model)
    del model.layers[0].open
    assert_untouched(before, fingerprint(model))
