"""Functions of tensors where an edit expects a layer."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet

pytestmark = pytest.mark.sampled

X = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")


def array(value):
    return keras.tree.map_structure(ops.convert_to_numpy, value)


def model() -> keras.Model:
    """A shared layer, a merge, and a model inside."""
    x = keras.Input((4,), name="x")
    dense, act = layers.Dense(4, name="dense"), layers.Activation("tanh", name="act")
    y = act(dense(act(dense(x))))
    i = keras.Input((4,), name="i")
    inner = layers.Dense(3, name="out")(layers.ReLU(name="relu")(i))
    y = layers.Add(name="add")([y, x])
    return keras.Model(x, keras.Model(i, inner, name="inner")(y), name="m")


def by_hand(model, *, act=ops.tanh, after=lambda y: y, join=ops.add, relu=ops.relu):
    """The layers of a model called one by one, with functions in some places."""
    inner = model.get_layer("inner")
    y = X
    for _ in range(2):
        y = act(after(model.get_layer("dense")(y)))
    return inner.get_layer("out")(relu(join(y, X)))


CASES = {
    "an operation": (lambda g: g.replace("act", ops.sigmoid), {"act": ops.sigmoid}),
    "an activation": (lambda g: g.replace("act", keras.activations.elu), {"act": ops.elu}),
    "a lambda": (
        lambda g: g.replace("act", lambda x: x * 2.0 + 1.0),
        {"act": lambda x: x * 2.0 + 1.0},
    ),
    "nothing": (lambda g: g.replace("act", lambda x: 1.0 * x), {"act": lambda x: x}),
    "several tensors": (
        lambda g: g.replace("add", lambda xs: ops.maximum(xs[0], xs[1])),
        {"join": ops.maximum},
    ),
    "inside": (lambda g: g.replace("inner/relu", ops.abs), {"relu": ops.abs}),
    "one edge": (lambda g: g.insert_on("add", 1, ops.negative), {"join": ops.subtract}),
    "before": (
        lambda g: g.insert_before("inner/out", lambda x: x - 1.0),
        {"relu": lambda x: ops.relu(x) - 1.0},
    ),
    "a selection": (
        lambda g: g.select(kind=(layers.Activation, layers.ReLU)).replace(ops.abs),
        {"act": ops.abs, "relu": ops.abs},
    ),
    "every call": (
        lambda g: g.select(name="dense").insert_after(ops.relu),
        {"after": ops.relu},
    ),
    "a layer in it": (
        lambda g: g.replace(
            "add", lambda xs: layers.Subtract(name="add")([xs[0], ops.negative(xs[1])])
        ),
        {},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_function_stands_where_a_layer_would(case, tmp_path):
    source = model()
    edit, parts = CASES[case]
    graph = edit(ramet.trace(source))
    built = graph.build()
    np.testing.assert_allclose(array(built(X)), array(by_hand(source, **parts)), atol=1e-6)
    assert len(source.get_layer("dense")._inbound_nodes) == 2
    built.save(tmp_path / "m.keras")
    assert np.array_equal(array(keras.models.load_model(tmp_path / "m.keras")(X)), array(built(X)))
    again = graph.flatten().build()
    np.testing.assert_allclose(array(again(X)), array(built(X)), atol=1e-6)


def test_a_function_for_a_block():
    source = model()
    built = ramet.trace(source).replace(("x", "add"), lambda x: ops.square(x) - 1.0).build()
    inner = source.get_layer("inner")
    np.testing.assert_allclose(array(built(X)), array(inner(X**2 - 1.0)), atol=1e-6)
    assert [v.path for v in built.variables] == ["out/kernel", "out/bias"]


def test_shapes_below_an_edit_are_those_of_the_edit():
    graph = ramet.trace(model()).insert_after("add", layers.Dense(6, name="wide"))
    seen = []

    def fold(x):
        seen.append(x.shape)
        return ops.reshape(x, (-1, 2, 3))

    graph = graph.insert_after("wide", fold).insert_after("reshape", lambda x: x[:, 0])
    assert seen == [(None, 6)]
    graph = graph.insert_after("get_item", layers.Dense(4, name="back"))
    assert graph.build()(X).shape == (3, 3)


def test_each_call_sees_what_the_one_before_became():
    x = keras.Input((4,), name="x")
    act = layers.ReLU(name="act")
    source = keras.Model(x, act(act(x)))
    seen = []

    def half(x):
        seen.append(x.shape)
        return x[:, : x.shape[1] // 2]

    built = ramet.trace(source).replace("act", half).build()
    assert seen == [(None, 4), (None, 2)]
    np.testing.assert_allclose(array(built(X)), X[:, :1])


def test_masks_below_a_function_are_as_keras_has_them():
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    y = layers.Embedding(9, 4, mask_zero=True, name="embed")(tokens)
    source = keras.Model(tokens, layers.LSTM(3, name="lstm")(y))
    data = np.array([[1, 2, 0, 0, 0], [0, 0, 0, 0, 0], [3, 4, 5, 6, 7]], "int32")
    embed, lstm = source.get_layer("embed"), source.get_layer("lstm")
    graph = ramet.trace(source)
    dropped = graph.insert_after("embed", lambda x: x * 2.0).build()
    expected = lstm(ops.convert_to_tensor(2.0 * array(embed(data))))  # operations lose masks
    np.testing.assert_allclose(array(dropped(data)), array(expected), atol=1e-6)
    moved = graph.insert_after("tokens", lambda x: ops.maximum(x - 1, 0)).build()
    expected = lstm(embed(np.maximum(data - 1, 0)))
    np.testing.assert_allclose(array(moved(data)), array(expected), atol=1e-6)


def test_layers_that_a_function_calls_are_brought_in():
    dense = layers.Dense(4, name="mine")
    graph = ramet.trace(model()).select(kind=layers.Activation).insert_after(lambda x: dense(x))
    built = graph.build()
    assert len(built.get_layer("mine")._inbound_nodes) == 2
    assert built.get_layer("mine").kernel is not dense.kernel
    assert np.array_equal(array(built.get_layer("mine").kernel), array(dense.kernel))
    assert "mine/kernel" in {v.path for v in built.trainable_variables}


def test_a_function_that_makes_a_layer_is_still_one():
    graph = ramet.trace(model())
    made = graph.replace("dense", lambda old: layers.Dense(old.units, name="new"))
    assert made.layers["new"].kind == "Dense"
    assert "a function" not in str(made.journal)


def test_arguments_that_a_call_passes_by_name():
    class Scaled(layers.Layer):
        def call(self, x, by=None, *, twice=False):
            return x * by * (2.0 if twice else 1.0)

    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    source = keras.Model([a, b], Scaled(name="scaled")(a, by=b, twice=True))
    graph = ramet.trace(source)
    built = graph.replace("scaled", lambda x, by: x - by).build()
    np.testing.assert_allclose(array(built([X, X + 1.0])), -np.ones_like(X), atol=1e-6)
    with pytest.raises(ramet.GraphError, match="without a parameter 'by', but a tensor is passed"):
        graph.replace("scaled", lambda x: x * 2.0)


def test_merge_by_a_function():
    x = keras.Input((4,), name="x")
    models = [keras.Model(x, layers.Dense(3, name=name)(x), name=f"m_{name}") for name in "ab"]
    built = ramet.merge(models, outputs=lambda y: {"gap": y[0] - y[1]}).build()
    expected = array(models[0](X)) - array(models[1](X))
    np.testing.assert_allclose(array(built(X)["gap"]), expected, atol=1e-6)


def test_what_is_no_such_function():
    source = model()
    graph = ramet.trace(source)
    for function, kind, message in (
        (lambda _: None, ramet.OptionError, "what follows 'add' returned None; let it return"),
        (lambda x: (x, x), ramet.GraphError, "returns 2 tensors, but 1 is used there"),
        (
            lambda x: source.get_layer("dense")(x),
            ramet.GraphError,
            "calls layer 'dense' of the model itself",
        ),
        (
            lambda x: x + keras.Input((4,), name="stray"),
            ramet.GraphError,
            "depends on input 'stray' of its own; let it compute with its parameters alone",
        ),
        (
            lambda x: ops.matmul(x, np.ones((5, 5), "float32")),
            ramet.GraphError,
            r"what follows 'add' cannot take \(None, 4\)",
        ),
        (lambda old: layers.Dense(old.unitz), AttributeError, "unitz"),
        (3, ramet.OptionError, "what follows 'add' must be a Keras layer, got a int"),
    ):
        with pytest.raises(kind, match=message):
            graph.insert_after("add", function)
    assert len(source.get_layer("dense")._inbound_nodes) == 2
