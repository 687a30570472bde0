"""Copies of calls: what is reached, what stays behind, and how calls are numbered."""

import copy

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet import keras_internals as internals
from ramet.copying.deep_copy import Copier

DATA = np.arange(8, dtype="float32").reshape(2, 4)


def test_calls_in_other_models_stay_behind():
    shared, inputs = layers.Dense(4, name="shared"), keras.Input((4,))
    other = keras.Model(inputs, layers.Dense(2, name="foreign")(shared(inputs)))
    again = keras.Input((4,), name="again")
    model = keras.Model(again, layers.Dense(3, name="own")(shared(again)))
    twin = ramet.clone(model)
    new = twin.get_layer("shared")
    assert internals.count_calls(shared) == (2, 2)
    assert internals.count_calls(new) == (1, 1)
    assert internals.node_index(internals.calls_of(new)[0]) == 0
    assert {layer.name for layer in twin.layers} == {"again", "shared", "own"}
    assert ramet.verify(model, twin)
    assert ramet.verify(other, ramet.clone(other))
    assert np.array_equal(new.output.shape, (None, 4))


def test_calls_are_numbered_in_the_order_in_which_they_were_made():
    shared, first, second = layers.Dense(4, name="shared"), keras.Input((4,)), keras.Input((4,))
    late = shared(second)
    early = shared(first)
    model = keras.Model([first, second], layers.Subtract()([early, late]))
    twin = ramet.clone(model)
    new = twin.get_layer("shared")
    numbers = [internals.node_index(node) for node in internals.calls_of(new)]
    assert numbers == [0, 1]
    names = [node.input_tensors[0].name for node in internals.calls_of(new)]
    assert names == [second.name, first.name]
    outputs = [m.predict([DATA, DATA * 2], verbose=0) for m in (model, twin)]
    assert np.array_equal(*outputs)


def test_a_model_on_tensors_of_another_is_copied_with_it():
    inputs = keras.Input((4,))
    middle = layers.Dense(4, name="middle")(inputs)
    model = keras.Model(inputs, layers.Dense(2)(middle))
    model.features = keras.Model(inputs, middle, name="features")
    twin = ramet.clone(model)
    assert twin.features.get_layer("middle") is twin.get_layer("middle")
    assert twin.features.outputs[0] is internals.calls_of(twin.get_layer("middle"))[0].outputs[0]
    assert np.array_equal(*(np.asarray(m.features.predict(DATA, verbose=0)) for m in (model, twin)))


class Holds(layers.Layer):
    """Holds a function that starts in the middle of a graph."""

    def __init__(self, function, **options):
        super().__init__(**options)
        self.function = function

    def call(self, x):
        return self.function(x)


@pytest.mark.since_keras(3, 15)  # Before, Keras counted what is above into the function.
def test_a_function_that_starts_inside_leaves_behind_what_is_above():
    inputs = keras.Input((4,))
    above = layers.Dense(4, name="above")(inputs)
    function = keras.Function(above, above * 2.0)
    start = keras.Input((4,))
    model = keras.Model(start, Holds(function, name="holds")(start))
    copier = Copier()
    twin = copier.copy_whole(model)
    assert not [m for m in copier.memo.values() if getattr(m, "name", "") == "above"]
    assert np.array_equal(*(np.asarray(m.predict(DATA, verbose=0)) for m in (model, twin)))


def test_a_function_that_starts_inside_the_model_goes_on_from_its_copy():
    inputs = keras.Input((4,))
    middle = layers.Dense(4, name="middle")(inputs)
    model = keras.Model(inputs, layers.Dense(2, name="end")(middle))
    model.tail = keras.Function(middle, model.outputs)
    twin = ramet.clone(model)
    assert internals.flat_inputs(twin.tail)[0] is twin.get_layer("middle").output
    assert np.array_equal(
        *(np.asarray(keras.ops.convert_to_numpy(m.tail(DATA)[0])) for m in (model, twin))
    )


def test_copies_of_a_tensor_know_the_same_call():
    inputs = keras.Input((4,))
    shared = layers.Dense(4, name="shared")
    second = shared(layers.Dense(4)(inputs))
    first = shared(inputs)
    model = keras.Model(inputs, [first, second])
    model.kept = copy.copy(first)
    twin = ramet.clone(model)
    assert twin.kept is not model.kept
    assert internals.original(twin.kept) is twin.outputs[0]
    assert twin.kept._keras_history.node_index == 1
