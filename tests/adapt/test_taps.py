"""Pairs of tensors of a teacher and a student, in one model that trains the student alone."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet.adapt import taps

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 6)).astype("float32")
Y = RNG.normal(size=(16, 2)).astype("float32")


def net(width: int, seed: int, name: str, dropout: float = 0.0) -> keras.Model:
    keras.utils.set_random_seed(seed)
    x = keras.Input((6,), name="x")
    y = layers.Dense(width, activation="relu", name="first")(x)
    inside = [keras.Input((width,)), layers.Dense(width, name="dense")]
    inside += [layers.BatchNormalization(name="norm")]
    inside += [layers.Dropout(dropout, name="drop")] if dropout else []
    y = keras.Sequential(inside, name="encoder")(y)
    model = keras.Model(x, layers.Dense(2, name="out")(y), name=name)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.fit(X, Y, verbose=0)
    return model


def arrays(values: Any) -> list[np.ndarray]:
    return [ops.convert_to_numpy(value) for value in values]


def test_the_student_learns_and_the_teacher_stays(tmp_path: Path) -> None:
    teacher, student = net(8, 0, "big", dropout=0.5), net(4, 1, "small")
    before = arrays(teacher.variables), arrays(student.variables)
    losses = ["mse", keras.distillation.LogitsDistillation(temperature=2.0)]
    pairs = {"encoder/dense": "encoder/dense", "out": "out"}
    graph = taps(teacher, student, pairs, losses=losses, weights=[0.5, 0.1])
    both = graph.build()
    assert (both.predict(X, verbose=0) == student.predict(X, verbose=0)).all()
    taught = both.get_layer("teacher").variables
    assert not any(variable.trainable for variable in taught)
    known = arrays(taught)
    assert "tap_0_projection/kernel" in {v.path for v in both.trainable_variables}
    both.compile(keras.optimizers.Adam(0.01), "mse")
    both.fit(X, Y, epochs=2, shuffle=False, verbose=0)
    assert all(map(np.array_equal, known, arrays(taught)))
    path = tmp_path / "both.keras"
    both.save(path)
    loaded = ramet.files.load(path)
    histories = [
        each.fit(X, Y, epochs=2, shuffle=False, verbose=0).history["loss"]
        for each in (both, loaded)
    ]
    assert histories[0] == histories[1]
    trained = ramet.trace(both).extract(outputs="out").build()
    assert [v.shape for v in trained.weights] == [v.shape for v in student.weights]
    assert (trained.predict(X, verbose=0) == both.predict(X, verbose=0)).all()
    for model, values in zip((teacher, student), before, strict=True):
        assert all(map(np.array_equal, values, arrays(model.variables)))


def test_tapped_values_are_those_inside_the_models() -> None:
    teacher, student = net(8, 0, "big", dropout=0.5), net(4, 1, "small")
    both = taps(teacher, student, {"encoder/dense": "encoder/norm", "out": "out"}).build()
    for training in (False, True):
        found = both(X, training=training)
        assert {*found} == {
            "student",
            *(f"tap_{number}/{side}" for number in (0, 1) for side in ("teacher", "student")),
        }
        # The teacher runs as in inference, also while the student trains.
        inside = ramet.run(teacher, X, at=["encoder/dense", "out"])
        for number, value in enumerate(inside):
            assert np.array_equal(*arrays([value, found[f"tap_{number}/teacher"]]))
    assert np.array_equal(*arrays([found["student"], found["tap_1/student"]]))
    assert found["tap_0/student"].shape == (16, 8)


@pytest.mark.sampled
def test_a_student_has_two_teachers() -> None:
    student = net(4, 2, "small")
    first = taps(net(8, 0, "big"), student, {"first": "first"}, losses="mse")
    both = taps(net(6, 1, "other"), first, {"first": "first"}, losses="mse", weights=[2.0]).build()
    assert (both.predict(X, verbose=0) == student.predict(X, verbose=0)).all()
    both.compile(keras.optimizers.Adam(0.01), "mse")
    both.fit(X, Y, verbose=0)
    assert sum(type(layer) is ramet.adapt.TapLoss for layer in both.layers) == 2
    names = {layer.name for layer in both.layers}
    assert {"teacher", "teacher_1", "tap_0_projection", "tap_0_projection_1"} <= names
    assert not both.get_layer("teacher_1").trainable_variables


@pytest.mark.sampled
def test_the_loss_is_the_sum_of_all() -> None:
    teacher, student = net(4, 0, "big"), net(4, 1, "small")
    pairs = {"first": "first"}
    seen = taps(teacher, student, pairs).build()(X)
    both = taps(teacher, student, pairs, losses="mse", weights=[3.0]).build()
    both.compile("sgd", "mse")
    pair = arrays([seen["tap_0/teacher"], seen["tap_0/student"]])
    own = ((student.predict(X, verbose=0) - Y) ** 2).mean()
    expected = own + 3 * ((pair[0] - pair[1]) ** 2).mean()
    assert both.evaluate(X, Y, verbose=0) == pytest.approx(expected, rel=1e-4)


@pytest.mark.one_backend
def test_wrong_taps() -> None:
    teacher, student = net(8, 0, "big"), net(4, 1, "small")

    def refused(message: str, pairs: Any, **options: Any) -> None:
        with pytest.raises(ramet.RametError, match=message):
            taps(teacher, student, pairs, **options)

    refused("no layer 'no' in graph 'encoder'", {"encoder/no": "out"})
    refused("no layer 'no' in graph 'small'", {"out": "no"})
    refused("pairs is an empty dict", {})
    refused("the student's place for 'out' must be a string, got 3", {"out": 3})
    refused("have different widths; pass project=True", {"first": "first"}, project=False)
    refused("losses must be names of losses, .* got 3", {"first": "first"}, losses=3)
    refused("'nothing', which is not a Keras loss", {"first": "first"}, losses="nothing")
    refused("losses has 2 items for 1 pairs", {"first": "first"}, losses=["mse", "mse"])
    refused("weights are factors of losses", {"first": "first"}, weights=[1])
    refused("weights must be a list of 1 numbers", {"out": "out"}, losses="mse", weights=[1, 2])
    refused("a weight must be a number from 0 to 1e", {"out": "out"}, losses="mse", weights=[-1])
    image = keras.Input((8, 8, 3), name="x")
    wide = keras.Model(image, layers.Conv2D(4, 3, name="conv")(image), name="wide")
    near = layers.Conv2D(4, 5, name="conv")(image)
    deep = keras.Model(image, layers.Flatten(name="flat")(near), name="deep")
    with pytest.raises(ramet.errors.GraphError, match="differ in more than their last dimension"):
        taps(wide, deep, {"conv": "conv"})
    with pytest.raises(ramet.errors.GraphError, match="have different ranks"):
        taps(wide, deep, {"conv": "flat"})
    other = keras.Input((7,), name="x")
    odd = keras.Model(other, layers.Dense(2, name="out")(other), name="odd")
    with pytest.raises(ramet.errors.GraphError, match="cannot share inputs: they take"):
        taps(odd, student, {"out": "out"})
