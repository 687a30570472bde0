"""What an error about shapes advises, and that the advice helps."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet


def of(*steps, shape=(4,), dtype="float32") -> keras.Model:
    x = y = keras.Input(shape, name="x", dtype=dtype)
    for step in steps:
        y = step(y)
    return keras.Model(x, y, name="net")


class Fixed(layers.Layer):
    """A layer that can only be made for four features."""

    def build(self, input_shape):
        del input_shape
        self.kernel = self.add_weight(shape=(4, 2), name="kernel")

    def call(self, inputs):
        return ops.matmul(inputs, self.kernel)


class Own(layers.Layer):
    """A layer that can be made for any number of features."""

    def build(self, input_shape):
        self.kernel = self.add_weight(shape=(input_shape[-1], 2), name="kernel")

    def call(self, inputs):
        return ops.matmul(inputs, self.kernel)


class NoConfig(Own):
    """A layer that cannot be re-created."""

    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function


def inner() -> keras.Model:
    return keras.Sequential([keras.Input((4,)), layers.Dense(2, name="z")], name="inner")


def wide(graph):
    return graph.configure("d", units=6)


GROW = r"; configure\('end', weights='grow'\) re-creates it for these shapes; this comes"
DENSE = layers.Dense
CASES = {
    "size": (lambda: of(DENSE(4, name="d"), DENSE(2, name="end")), wide, GROW),
    "size of a user's layer": (lambda: of(DENSE(4, name="d"), Own(name="end")), wide, GROW),
    "norm": (
        lambda: of(DENSE(4, name="d"), layers.BatchNormalization(name="end")),
        wide,
        GROW,
    ),
    "channels": (
        lambda: of(layers.Conv2D(2, 2, name="end"), shape=(4, 4, 3)),
        lambda g: g.with_inputs(shape=(4, 4, 5)),
        GROW,
    ),
    "fewer axes": (
        lambda: of(layers.Conv2D(2, 2, name="end"), shape=(4, 4, 3)),
        lambda g: g.insert_after("x", layers.Flatten()),
        "insert a layer before it that restores 4 axes, such as a Reshape",
    ),
    "more axes": (
        lambda: of(DENSE(4, name="d"), DENSE(2, name="end")),
        lambda g: g.insert_after("d", layers.Reshape((2, 2))),
        "insert a layer before it that restores 2 axes",
    ),
    "flattened": (
        lambda: of(layers.Flatten(name="f"), DENSE(2, name="end"), shape=(4, 3)),
        lambda g: g.with_inputs(shape=(6, 3)),
        r"configure\('end', weights='fresh'\) re-creates it .*belong to positions",
    ),
    "flattened further up": (
        lambda: of(layers.Reshape((-1,)), layers.ReLU(), DENSE(2, name="end"), shape=(4, 3)),
        lambda g: g.with_inputs(shape=(4, 5)),
        r"configure\('end', weights='fresh'\)",
    ),
    "a model": (
        lambda: of(DENSE(4, name="d"), inner()),
        wide,
        r"configure\('inner/z', weights='grow'\)",
    ),
    "no weights": (
        lambda: of(DENSE(4, name="d"), layers.Reshape((2, 2), name="end")),
        wide,
        r"insert a layer before it that restores \(None, 4\), or replace it",
    ),
    "an operation": (
        lambda: of(DENSE(4, name="d"), lambda t: ops.matmul(t, np.ones((4, 2), "float32"))),
        wide,
        r"insert a layer before it that restores \(None, 4\), or replace it",
    ),
    "cannot grow": (
        lambda: of(DENSE(4, name="d"), Fixed(name="end")),
        wide,
        "replace it by a layer that accepts these shapes",
    ),
    "no config": (
        lambda: of(DENSE(4, name="d"), NoConfig(print, name="end")),
        wide,
        "replace it by a layer that accepts these shapes",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_advice(name):
    make, edit, advice = CASES[name]
    with pytest.raises(ramet.GraphError, match=advice) as caught:
        edit(ramet.trace(make())).build()
    assert ("weights='grow'" in str(caught.value)) == ("grow" in advice)


FOLLOWED = {
    "size": lambda g: g.configure("end", weights="grow"),
    "size of a user's layer": lambda g: g.configure("end", weights="grow"),
    "norm": lambda g: g.configure("end", weights="grow"),
    "channels": lambda g: g.configure("end", weights="grow"),
    "fewer axes": lambda g: g.insert_before("end", layers.Reshape((4, 4, 3))),
    "more axes": lambda g: g.insert_before("end", layers.Reshape((4,))),
    "flattened": lambda g: g.configure("end", weights="fresh"),
    "flattened further up": lambda g: g.configure("end", weights="fresh"),
    "a model": lambda g: g.configure("inner/z", weights="grow"),
    "no weights": lambda g: g.insert_before("end", layers.Dense(4, name="back")),
    "cannot grow": lambda g: g.replace("end", layers.Dense(2, name="other")),
    "no config": lambda g: g.replace("end", layers.Dense(2, name="other")),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_the_advice_helps(name):
    make, edit, _ = CASES[name]
    made = FOLLOWED[name](edit(ramet.trace(make()))).build()
    data = np.ones([2 if size is None else size for size in made.input_shape], "float32")
    assert tuple(made(data).shape)[1:] == tuple(made.output_shape)[1:]


def test_the_reason_is_that_of_the_layers_own_code():
    model = of(layers.Dense(4, name="d"), Own(name="end"))
    with pytest.raises(ramet.GraphError) as caught:
        wide(ramet.trace(model)).build()
    assert "Error encountered:" not in str(caught.value)


def test_what_names_no_place_is_refused():
    x = keras.Input((4,), name="x")
    graph = ramet.trace(keras.Model(x, layers.Dense(3, name="b")(layers.Dense(4, name="a")(x))))
    for verb, at in ("freeze", ["a", "b"]), ("unfreeze", ("a",)), ("freeze", 5):
        with pytest.raises(ramet.OptionError, match=f"{verb} expects the name of a layer, a selec"):
            getattr(graph, verb)(at)
    for block in ("a",), ("x", "a", "b"):
        with pytest.raises(ramet.OptionError, match=rf"got {len(block)} places; pass a pair"):
            graph.replace(block, layers.ReLU())
    for at in None, []:
        with pytest.raises(ramet.GraphError, match="no tensor is named to split"):
            graph.split(at)
    with pytest.raises(ramet.OptionError, match="tuple of sizes without the batch, got 5"):
        graph.with_inputs(shape=5)


def test_a_layer_that_lacks_an_argument_of_the_call_is_named():
    x = keras.Input((3, 4), name="x")
    model = keras.Model(x, layers.LSTM(4, name="a")(x, initial_state=[x[:, 0], x[:, 1]]))
    graph = ramet.trace(model).replace("a", layers.GlobalAveragePooling1D(name="pool"))
    with pytest.raises(ramet.GraphError, match=r"'pool' .*unexpected keyword argument 'initial_st"):
        graph.build()
