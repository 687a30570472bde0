"""Rewrites of graphs that were edited: they see the shapes and layers that edits made."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet import any_layer

pytestmark = pytest.mark.sampled

IMAGE = np.random.default_rng(0).standard_normal((2, 8, 8, 3)).astype("float32")
ROW = np.random.default_rng(1).standard_normal((2, 4)).astype("float32")


def array(value):
    return ops.convert_to_numpy(value)


def image_model() -> keras.Model:
    x = keras.Input((8, 8, 3), name="x")
    y = layers.Conv2D(4, 3, padding="same", name="a")(x)
    y = layers.ReLU(name="a_relu")(y)
    y = layers.Conv2D(4, 3, padding="same", name="b")(y)
    y = layers.ReLU(name="b_relu")(y) * 2.0
    y = layers.GlobalAveragePooling2D(name="pool")(y)
    return keras.Model(x, layers.Dense(2, name="head")(y), name="net")


class Seen:
    """A replacement that notes the shapes and dtypes that it is called with."""

    def __init__(self, function):
        self.function, self.specs = function, []

    def __call__(self, x):
        self.specs.append((tuple(x.shape), x.dtype))
        return self.function(x)


EDITS = {
    "insert": (lambda g: g.insert_after("a", layers.MaxPooling2D(name="half")), (4, 4, 4)),
    "insert above": (lambda g: g.insert_after("x", layers.ZeroPadding2D(2)), (12, 12, 4)),
    "insert right above": (
        lambda g: g.insert_before("b_relu", layers.ZeroPadding2D(1)),
        (10, 10, 4),
    ),
    "configure": (lambda g: g.configure("b", filters=6, weights="grow"), (8, 8, 6)),
    "replace": (lambda g: g.replace("b", layers.Conv2D(5, 2, name="c")), (7, 7, 5)),
    "remove": (lambda g: g.remove("a").remove("a_relu").configure("b", weights="fresh"), (8, 8, 4)),
    "inputs": (lambda g: g.with_inputs(shape=(16, 16, 3)), (16, 16, 4)),
    "extract": (
        lambda g: g.insert_after("a", layers.MaxPooling2D()).extract(outputs="b_relu"),
        (4, 4, 4),
    ),
    "flatten": (lambda g: g.insert_after("a", layers.MaxPooling2D()).flatten(), (4, 4, 4)),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_replacement_is_traced_on_the_shapes_that_an_edit_made(name):
    edit, shape = EDITS[name]
    graph = edit(ramet.trace(image_model()))
    if name == "configure":
        graph = graph.configure("head", weights="fresh")
    if name == "replace":
        graph = graph.configure("head", weights="fresh")
    seen = Seen(lambda x: layers.ELU()(layers.Conv2D(x.shape[-1], 1)(x)))
    edited = ramet.rewrite(graph, lambda x: layers.ReLU(name="b_relu")(x), seen)
    assert seen.specs[-1] == ((None, *shape), "float32")
    journal = [str(entry) for entry in graph.journal]
    assert [str(entry) for entry in edited.journal][: len(journal)] == journal
    model = edited.build()
    kinds = [type(layer).__name__ for layer in model.layers]
    assert "ReLU" not in kinds
    assert kinds.count("ELU") == len(seen.specs)


def test_operations_below_an_insertion():
    graph = ramet.trace(image_model()).insert_after("b_relu", layers.Conv2D(7, 1, name="more"))
    graph = graph.configure("head", weights="fresh")
    seen = Seen(lambda x: x + 1.0)
    edited = ramet.rewrite(graph, lambda x: x * 2.0, seen).build()
    assert seen.specs == [((None, 8, 8, 7), "float32")]
    assert edited(IMAGE).shape == (2, 2)


def test_a_rewrite_of_a_rewrite():
    model = image_model()
    first = ramet.rewrite(
        model,
        lambda x: layers.ReLU()(any_layer(layers.Conv2D, name="conv")(x)),
        lambda x, match: layers.AveragePooling2D(2)(match["conv"](x)),
    )
    seen = Seen(lambda x: layers.MaxPooling2D()(x))
    second = ramet.rewrite(first, lambda x: layers.AveragePooling2D(2)(x), seen)
    assert [shape for shape, _ in seen.specs] == [(None, 8, 8, 4), (None, 4, 4, 4)]
    made = second.build()
    pool = layers.MaxPooling2D()
    y = pool(model.get_layer("b")(pool(model.get_layer("a")(IMAGE)))) * 2.0
    expected = model.get_layer("head")(model.get_layer("pool")(y))
    np.testing.assert_allclose(array(made(IMAGE)), array(expected), atol=1e-5)


def test_later_matches_see_what_earlier_replacements_made():
    x = keras.Input((8,), name="x")
    y = x
    for number in range(3):
        y = layers.ReLU(name=f"relu{number}")(y)
    model = keras.Model(x, y, name="chain")
    seen = Seen(lambda x: layers.Concatenate()([x, layers.ReLU()(x)]))
    made = ramet.rewrite(model, lambda x: layers.ReLU()(x), seen).build()
    assert [shape for shape, _ in seen.specs] == [(None, 8), (None, 16), (None, 32)]
    assert made.output_shape == (None, 64)


def test_dtypes_are_those_after_the_edit():
    x = keras.Input((4,), name="x")
    model = keras.Model(x, layers.ReLU(name="r")(layers.Dense(4, name="d")(x)), name="net")
    graph = ramet.trace(model).configure("d", dtype="mixed_float16")
    seen = Seen(lambda x: layers.ELU()(x))
    ramet.rewrite(graph, lambda x: layers.ReLU()(x), seen)
    assert seen.specs == [((None, 4), "float16")]


def test_a_pattern_that_only_fits_what_an_edit_brought_in():
    x = keras.Input((4,), name="x")
    model = keras.Model(x, layers.Dense(2, name="d")(x), name="net")
    graph = ramet.trace(model).insert_after("x", layers.Reshape((2, 2), name="rows"))
    graph = graph.insert_after("rows", layers.GRU(4, name="gru"))
    edited = ramet.rewrite(graph, lambda x: layers.GRU(4)(x), lambda x: layers.LSTM(4)(x))
    made = edited.build()
    assert [layer.name for layer in made.layers][-1] == "d"
    assert made(ROW).shape == (2, 2)


def test_matched_layers_are_those_that_edits_made():
    x = keras.Input((4,), name="x")
    y = layers.Dense(4, name="a")(x)
    model = keras.Model(x, layers.Dense(3, name="b")(y), name="net")
    graph = ramet.trace(model)
    shapes = []

    def pattern(x):
        return any_layer(layers.Dense, name="dense")(x)

    def again(x, match):
        shapes.append(tuple(match["dense"].kernel.shape))
        return match["dense"](x)

    wide = graph.configure("a", units=6).configure("b", weights="grow")
    edited = ramet.rewrite(wide, pattern, again)
    assert shapes == [(4, 6), (6, 3)]
    before, after = wide.build(), edited.build()
    assert [v.shape for v in after.weights] == [v.shape for v in before.weights]
    kernel = array(after.get_layer("b").kernel)
    np.testing.assert_array_equal(kernel[:4], array(model.get_layer("b").kernel))
    shapes.clear()
    new = graph.insert_after("a", layers.Dense(5, name="new")).configure("b", weights="grow")
    new = new.replace("a", layers.Dense(7, name="other"))
    ramet.rewrite(new, pattern, again).build()
    assert shapes == [(4, 7), (7, 5), (5, 3)]


def test_weights_of_matched_layers_survive():
    model = image_model()
    graph = ramet.trace(model).insert_after("a", layers.Activation("linear", name="same"))

    def pattern(x):
        return layers.ReLU(name="relu")(any_layer(layers.Conv2D, name="conv")(x))

    edited = ramet.rewrite(graph, pattern, lambda x, match: match["relu"](match["conv"](x)))
    np.testing.assert_array_equal(array(edited.build()(IMAGE)), array(model(IMAGE)))


def test_a_rewrite_can_mend_what_does_not_fit():
    model = image_model()
    graph = ramet.trace(model).insert_after("b_relu", layers.Conv2D(7, 1, name="more"))
    with pytest.raises(ramet.GraphError, match="head"):
        graph.build()
    mended = ramet.rewrite(graph, lambda x: layers.Dense(2)(x), lambda x: layers.Dense(3)(x))
    assert mended.build()(IMAGE).shape == (2, 3)


def test_what_does_not_fit_above_is_told():
    graph = ramet.trace(image_model()).insert_after("x", layers.Flatten(name="flat"))
    with pytest.raises(ramet.GraphError, match=r"'a' .*cannot take") as caught:
        ramet.rewrite(graph, lambda x: layers.Dense(2)(x), lambda x: x)
    assert "inferring the shapes of graph 'net'" in caught.value.__notes__[-1]


def test_inside_nested_models():
    start = keras.Input((4,), name="start")
    inner = keras.Model(
        start, layers.ReLU(name="r")(layers.Dense(4, name="d")(start)), name="inner"
    )
    x = keras.Input((4,), name="x")
    model = keras.Model(x, inner(inner(x)), name="net")
    graph = ramet.trace(model).insert_after("inner/d", layers.Dense(6, name="wide"))
    graph = graph.insert_before("inner/r", layers.Dense(4, name="back"))
    seen = Seen(lambda x: layers.Dense(4, activation="tanh")(x))
    edited = ramet.rewrite(graph, lambda x: layers.Dense(4, name="back")(x), seen)
    assert [shape for shape, _ in seen.specs] == [(None, 4), (None, 6)]
    edited.build()
    apart = ramet.trace(model).unshare("inner")
    seen = Seen(lambda x: layers.ELU()(x))
    made = ramet.rewrite(apart, lambda x: layers.ReLU()(x), seen).build()
    assert len(seen.specs) == 2
    for name in ("inner", "inner_1"):
        kinds = [type(layer).__name__ for layer in made.get_layer(name).layers]
        assert kinds == ["InputLayer", "Dense", "ELU"]
    dense = model.get_layer("inner").get_layer("d")
    expected = ops.elu(dense(ops.elu(dense(ROW))))
    np.testing.assert_allclose(array(made(ROW)), array(expected), atol=1e-6)


def test_nothing_of_the_source_is_touched():
    model = image_model()
    graph = ramet.trace(model).insert_after("a", layers.MaxPooling2D(name="half"))
    calls = {layer.name: len(layer._inbound_nodes) for layer in model.layers}
    values = [array(v).copy() for v in model.variables]
    ramet.rewrite(graph, lambda x: layers.ReLU()(x), lambda x: layers.ELU()(x)).build()
    assert {layer.name: len(layer._inbound_nodes) for layer in model.layers} == calls
    assert all(np.array_equal(a, array(b)) for a, b in zip(values, model.variables, strict=True))


def test_parameters_with_defaults_are_no_tensors():
    model = image_model()
    for kind in (layers.Conv2D, layers.Dense):
        told = ramet.rewrite(
            model,
            lambda x, kind=kind: any_layer(kind)(x),
            lambda x, times=3: x * times,
            explain=True,
        )
        assert len(told.matches) == (2 if kind is layers.Conv2D else 1)
