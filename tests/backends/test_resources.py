"""Variables of TensorFlow: copied in the background, with all their bits, and by nobody else."""

import threading
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers

import exact
import ramet
from ramet.backends import current, resources
from ramet.backends.resources import is_plain_variable

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="the variables are TensorFlow's"
)


def _variables(count):
    import tensorflow as tf

    draws = np.random.default_rng(0)
    return [
        tf.Variable(draws.normal(size=(7, index + 1)), dtype="float32") for index in range(count)
    ]


def _copied(variables):
    batch, copies = current().batch(), {}
    batch.begin(variables)
    for position, variable in enumerate(variables):
        batch.put(copies, position, variable)
    batch.finish()
    return [*copies.values()]


def _same(made, variables):
    return all(
        copy.handle is not variable.handle and copy.numpy().tobytes() == variable.numpy().tobytes()
        for copy, variable in zip(made, variables, strict=True)
    )


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200])
def test_batches_of_any_size_are_copied(count):
    variables = _variables(count)
    assert _same(_copied(variables), variables)


def test_copies_can_be_finished_again_and_again():
    batch, copies, variables = current().batch(), {}, _variables(3)
    for position, variable in enumerate(variables):
        batch.put(copies, position, variable)
        batch.finish()
    assert _same(copies.values(), variables)


KINDS = (
    *("float64", "float16", "bfloat16", "bool", "int8", "uint8", "int16", "int32", "int64"),
    *("uint16", "uint32", "uint64", "complex64", "complex128", "int4", "uint4"),
)


def test_types_that_cannot_be_copied_in_the_background_are_copied_too():
    import tensorflow as tf

    numbers = tf.constant([[1, 0, 3], [5, 2, 7]])
    variables = [tf.Variable(tf.cast(numbers, kind)) for kind in KINDS]
    variables += _variables(70)
    words = tf.Variable(["one", "", "three"])
    made = _copied([*variables, words])
    assert all(map(is_plain_variable, made))
    assert _same(made[:-1], variables)
    assert made[-1].numpy().tolist() == words.numpy().tolist()
    assert [copy.dtype for copy in made] == [value.dtype for value in [*variables, words]]


def test_every_type_that_is_copied_blindly_can_be():
    import tensorflow as tf

    numbers = tf.constant([1, 0, 3])
    for kind in sorted(resources._COPIED_BLINDLY):
        tensor = tf.cast(numbers, kind)
        assert tf.raw_ops.DeepCopy(x=tensor).numpy().tobytes() == tensor.numpy().tobytes(), kind


def test_an_error_of_the_background_is_raised_and_forgotten(monkeypatch):
    import tensorflow as tf

    small = tf.Variable(tf.cast([1, 2], "int4"))
    variables = [*_variables(63), small]
    with monkeypatch.context() as patch:
        patch.setattr(resources, "_COPIED_BLINDLY", {"int4", "float32"})
        with pytest.raises(tf.errors.OpError, match="int4"):
            _copied(variables)
    assert _same(_copied(variables), variables)


@pytest.fixture
def model():
    keras.utils.set_random_seed(3)
    inputs = keras.Input((6,))
    x = layers.Dense(64, activation="relu")(inputs)
    for _ in range(30):
        x = layers.BatchNormalization()(layers.Dense(64)(x))
    return keras.Model(inputs, layers.Dense(2)(x))


def _check(model, twin):
    exact.assert_same_state(model, twin)
    exact.assert_disjoint(model, twin)


def test_a_model_is_cloned_while_the_user_runs_operations_in_the_background(model):
    import tensorflow as tf

    tf.config.experimental.set_synchronous_execution(enable=False)
    try:
        for weight in model.weights:
            weight.assign(weight + 1.0)
        twin = ramet.clone(model)
    finally:
        tf.config.experimental.set_synchronous_execution(enable=True)
    _check(model, twin)


def test_a_model_is_cloned_in_another_thread_and_inside_of_a_function(model):
    import tensorflow as tf

    twins = []
    thread = threading.Thread(target=lambda: twins.append(ramet.clone(model)))
    thread.start()
    thread.join()

    @tf.function
    def traced():
        twins.append(ramet.clone(model))
        return tf.constant(0)

    traced()
    for twin in twins:
        _check(model, twin)
    assert len(twins) == 2


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted by Linux")
def test_no_thread_is_left_behind(model):
    ramet.clone(model)
    before = len([*Path("/proc/self/task").iterdir()])
    for _ in range(20):
        ramet.clone(model)
    assert len([*Path("/proc/self/task").iterdir()]) < before + 10


def test_a_tensorflow_that_has_no_such_threads_is_asked_for_variables(model, monkeypatch):
    monkeypatch.setattr(resources, "_known", lambda: None)
    _check(model, ramet.clone(model))
