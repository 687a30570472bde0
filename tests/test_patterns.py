"""What a pattern finds: kinds and arguments in every form, and the same after other edits."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet import any_layer

pytestmark = pytest.mark.sampled

IMAGE = np.random.default_rng(0).standard_normal((4, 6, 6, 3)).astype("float32")
ROWS = np.random.default_rng(1).standard_normal((4, 5, 4)).astype("float32")


def array(value):
    return ops.convert_to_numpy(value)


def found(model, pattern):
    return ramet.rewrite(model, pattern, pattern, explain=True)


def places(model, pattern):
    return found(model, pattern).matches


# --- arguments are written as the constructor accepts them ---


def convolutions() -> keras.Model:
    x = keras.Input((6, 6, 3), name="x")
    y = layers.Conv2D(
        3, 3, padding="same", name="wide", activation="relu", kernel_regularizer="l2"
    )(x)
    y = layers.Conv2D(3, 1, name="narrow", strides=2, dtype="mixed_float16")(y)
    y = layers.DepthwiseConv2D(1, name="depth")(y)
    return keras.Model(x, layers.Dense(2, name="head", use_bias=False)(y), name="net")


CONSTRAINTS = [
    ({"kernel_size": 3}, ("wide",)),
    ({"kernel_size": [3, 3]}, ("wide",)),
    ({"kernel_size": (1, 1)}, ("narrow",)),
    ({"strides": 2}, ("narrow",)),
    ({"padding": "SAME"}, ("wide",)),
    ({"activation": "relu"}, ("wide",)),
    ({"activation": keras.activations.relu}, ("wide",)),
    ({"activation": ops.relu}, ("wide",)),
    ({"activation": None}, ("narrow",)),
    ({"kernel_regularizer": "l2"}, ("wide",)),
    ({"kernel_regularizer": keras.regularizers.L2(0.01)}, ("wide",)),
    ({"kernel_regularizer": keras.regularizers.L2(0.5)}, ()),
    ({"kernel_regularizer": None}, ("narrow",)),
    ({"kernel_initializer": "glorot_uniform"}, ("wide", "narrow")),
    ({"kernel_initializer": keras.initializers.HeNormal()}, ()),
    ({"dtype": "mixed_float16"}, ("narrow",)),
    ({"dtype": "float32"}, ("wide",)),
    ({"dtype": keras.DTypePolicy("float32")}, ("wide",)),
    ({"filters": 3, "strides": 1}, ("wide",)),
]


@pytest.mark.parametrize(("constraints", "expected"), CONSTRAINTS)
def test_constraints_mean_what_the_constructor_makes_of_them(constraints, expected):
    model = convolutions()
    assert places(model, lambda x: any_layer(layers.Conv2D, **constraints)(x)) == expected


@pytest.mark.parametrize(("constraints", "expected"), CONSTRAINTS)
def test_arguments_of_a_layer_in_a_pattern_mean_the_same(constraints, expected):
    size = (3, 3) if "wide" in expected else (1, 1)
    model = convolutions()
    written = {"filters": 3, "kernel_size": size, **constraints}
    one = tuple(name for name in expected if name == ("wide" if size == (3, 3) else "narrow"))
    assert places(model, lambda x: layers.Conv2D(**written)(x)) == one


def test_several_kinds():
    model = convolutions()
    for kinds in (
        (layers.Conv2D, layers.Dense),
        ("Conv2D", "Dense"),
        (layers.Conv2D, "Dense"),
    ):
        told = found(model, lambda x, kinds=kinds: any_layer(kinds)(x))
        assert told.matches == ("wide", "narrow", "head")
    both = places(model, lambda x: any_layer((layers.Conv2D, layers.Dense), use_bias=True)(x))
    assert both == ("wide", "narrow")
    told = found(model, lambda x: any_layer(("Conv2D", layers.Dense))(layers.Activation("relu")(x)))
    assert not told.matches
    for wrong in (3, (), (layers.Dense, 3), [layers.Dense]):
        with pytest.raises(ramet.OptionError, match="a layer class, its name, or a tuple"):
            any_layer(wrong)


def test_an_argument_that_a_layer_does_not_have_is_a_near_miss():
    model = convolutions()
    told = found(model, lambda x: any_layer(layers.Conv2D, kernal_size=3)(x))
    assert "'wide' has no argument 'kernal_size'; did you mean 'kernel_size'?" in str(told)
    told = found(model, lambda x: any_layer(layers.Conv2D, nothing=None)(x))
    assert not told.matches
    told = found(model, lambda x: any_layer(layers.Conv2D, kernel_size="three")(x))
    assert "'wide' has kernel_size=(3, 3), not 'three'" in str(told)


class Scaled(layers.Layer):
    """A layer whose config leaves an argument out."""

    def __init__(self, scale, extra=None, **kwargs):
        super().__init__(**kwargs)
        self.scale, self.extra = scale, extra

    def call(self, inputs):
        return inputs * self.scale + (self.extra or 0.0)

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


def test_arguments_that_no_config_tells_are_compared_too():
    x = keras.Input((4,), name="x")
    model = keras.Model(x, Scaled(3.0, name="b")(Scaled(3.0, extra=1.0, name="a")(x)))
    assert places(model, lambda x: Scaled(3.0, extra=1.0)(x)) == ("a",)
    assert places(model, lambda x: any_layer(Scaled, extra=1.0)(x)) == ("a",)
    assert places(model, lambda x: any_layer(Scaled, extra=None)(x)) == ("b",)


def twice(x):
    return 2.0 * x


def test_functions_of_one_name_are_told_apart():
    def other():
        def twice(x):
            return x - 2.0

        return twice

    x = keras.Input((4,), name="x")
    y = layers.Dense(4, activation=twice, name="a")(x)
    model = keras.Model(x, layers.Dense(4, activation=other(), name="b")(y))
    assert places(model, lambda x: layers.Dense(4, activation=twice)(x)) == ("a",)
    assert places(model, lambda x: any_layer(layers.Dense, activation=twice)(x)) == ("a",)


def test_layers_inside_of_layers_are_compared_without_their_names():
    x = keras.Input((5, 4), name="x")
    layers.Dense(4), layers.LSTMCell(4)  # So that the names inside differ from the pattern's.
    y = layers.TimeDistributed(layers.Dense(4), name="each")(x)
    y = layers.Bidirectional(layers.GRU(4, return_sequences=True), name="both")(y)
    model = keras.Model(x, layers.RNN(layers.LSTMCell(4), name="rnn")(y))
    assert places(model, lambda x: layers.TimeDistributed(layers.Dense(4))(x)) == ("each",)
    assert places(model, lambda x: layers.RNN(layers.LSTMCell(4))(x)) == ("rnn",)
    both = places(model, lambda x: layers.Bidirectional(layers.GRU(4, return_sequences=True))(x))
    assert both == ("both",)
    told = found(model, lambda x: layers.TimeDistributed(layers.Dense(5))(x))
    assert "'each' has layer.units=4, not 5" in str(told)


# --- calls are compared by what they mean ---


def test_arguments_by_position_and_by_name_are_the_same():
    x = keras.Input((5, 4), name="x")
    y = layers.MultiHeadAttention(2, 2, name="a")(x, x)
    y = layers.MultiHeadAttention(2, 2, name="b")(query=y, value=x)
    y = layers.MultiHeadAttention(2, 2, name="c")(y, value=x, key=None)
    model = keras.Model(x, layers.Dense(3, name="head")(inputs=y))
    for pattern in (
        lambda q, v: layers.MultiHeadAttention(2, 2)(q, v),
        lambda q, v: layers.MultiHeadAttention(2, 2)(value=v, query=q),
        lambda q, v: any_layer(layers.MultiHeadAttention)(q, v),
        lambda q, v: any_layer("MultiHeadAttention")(query=q, value=v),
    ):
        assert places(model, pattern) == ("a", "b", "c")
    assert places(model, lambda x: layers.MultiHeadAttention(2, 2)(x, x)) == ("a",)
    assert places(model, lambda x: layers.Dense(3)(x)) == ("head",)


@pytest.mark.parametrize("kind", [layers.Add, layers.Multiply, layers.Maximum])
def test_three_arguments_in_any_order(kind):
    x = keras.Input((4,), name="x")
    a, b, c = layers.Dense(4, name="a")(x), layers.ReLU(name="b")(x), ops.tanh(x)
    model = keras.Model(x, kind(name="end")([a, b, c]))

    def pattern(x):
        return kind()([ops.tanh(x), layers.Dense(4)(x), layers.ReLU()(x)])

    assert places(model, pattern) == ("end",)
    assert not places(model, lambda x: kind()([layers.Dense(4)(x), layers.ReLU()(x)]))
    assert not places(model, lambda x: layers.Concatenate()([layers.ReLU()(x), ops.tanh(x)]))


def test_the_order_counts_where_it_says_something():
    x = keras.Input((4,), name="x")
    model = keras.Model(x, ops.subtract(layers.Dense(4, name="a")(x), layers.ReLU(name="b")(x)))
    assert places(model, lambda x: layers.Dense(4)(x) - layers.ReLU()(x))
    assert not places(model, lambda x: layers.ReLU()(x) - layers.Dense(4)(x))

    class Add(layers.Layer):
        """The user's own, in which the order counts."""

        def call(self, inputs):
            return inputs[0] - 2.0 * inputs[1]

    model = keras.Model(x, Add(name="own")([layers.Dense(4)(x), layers.ReLU()(x)]))
    assert not places(model, lambda x: Add()([layers.ReLU()(x), layers.Dense(4)(x)]))


def test_layers_with_several_outputs():
    x = keras.Input((5, 4), name="x")
    h, a, b = layers.LSTM(4, return_state=True, name="lstm")(x)
    model = keras.Model(x, layers.Concatenate(name="end")([h, layers.Add(name="sum")([a, b])]))

    def pattern(x):
        h, a, b = layers.LSTM(4, return_state=True, name="l")(x)
        return layers.Add(name="s")([b, a]), h

    def replacement(x, match):
        h, a, b = match["l"](x)
        return match["s"]([b, a]), h

    assert places(model, pattern) == ("sum",)
    edited = ramet.rewrite(model, pattern, replacement).build()
    np.testing.assert_allclose(array(edited(ROWS)), array(model(ROWS)), atol=1e-6)
    told = found(model, lambda x: layers.LSTM(4, return_state=True)(x)[0])
    assert "'lstm' is also read by 'sum', outside of the pattern" in str(told)


# --- the same pattern, after other edits ---


def block(name: str, shape=(6, 6, 3)) -> keras.Model:
    x = keras.Input(shape, name=f"{name}_in")
    y = layers.Conv2D(3, 3, padding="same", name=f"{name}_conv")(x)
    y = layers.BatchNormalization(name=f"{name}_norm")(y)
    return keras.Model(x, layers.ReLU(name=f"{name}_relu")(y), name=name)


def blocks(**context) -> keras.Model:
    x = keras.Input((6, 6, 3), name="x")
    inner = block("inner")
    y = layers.Conv2D(3, 1, name="mid")(inner(x, **context))
    y = layers.Rescaling(0.5, name="half")(inner(y, **context))
    return keras.Model(x, layers.Flatten(name="flat")(y), name="net")


def conv_norm_relu(x):
    y = layers.BatchNormalization(name="norm")(any_layer(layers.Conv2D, name="conv")(x))
    return layers.ReLU(name="relu")(y)


def kept(x, match):
    return match["relu"](match["norm"](match["conv"](x)))


EDITS = {
    "flatten": (lambda g: g.flatten(), 2),
    "rename": (lambda g: g.rename({"inner/inner_conv": "other", "mid": "between"}), 1),
    "prefix": (lambda g: g.prefix("p_"), 1),
    "unshare": (lambda g: g.unshare("inner"), 2),
    "unshare, flatten": (lambda g: g.unshare("inner").flatten(), 2),
    "flatten, prefix": (lambda g: g.flatten().prefix("p_"), 2),
    "flatten, unshare": (lambda g: g.flatten().unshare("inner_inner_norm"), 2),
    "insert below": (lambda g: g.insert_after("mid", layers.Dropout(0.1)), 1),
    "insert above": (lambda g: g.insert_after("x", layers.Rescaling(1.0)), 1),
    "insert inside": (lambda g: g.insert_after("inner/inner_in", layers.Rescaling(1.0)), 1),
    "configure": (lambda g: g.configure("inner/inner_conv", activation="relu"), 1),
    "extract": (lambda g: g.extract(outputs="half"), 1),
    "extract part": (lambda g: g.extract(inputs="mid", outputs="half"), 1),
    "chain": (lambda g: ramet.chain(g, layers_after()), 1),
}


def layers_after() -> keras.Model:
    x = keras.Input((108,), name="rows")
    return keras.Model(x, layers.Dense(2, name="after")(x), name="tail")


@pytest.mark.parametrize("context", [{}, {"training": True}, {"training": False}])
@pytest.mark.parametrize("name", EDITS)
def test_a_pattern_is_found_after_other_edits(name, context):
    model = blocks(**context)
    edit, count = EDITS[name]
    assert places(model, conv_norm_relu) == ("inner/inner_relu",)
    edited = edit(ramet.trace(model))
    assert len(places(edited, conv_norm_relu)) == count
    expected = array(edited.build()(IMAGE, training=False))
    again = ramet.rewrite(edited, conv_norm_relu, kept).build()
    np.testing.assert_array_equal(array(again(IMAGE, training=False)), expected)


def test_constants_are_compared_by_value():
    x = keras.Input((4,), name="x")
    scale = np.array([1.0, 2.0, 3.0, 4.0], "float32")
    model = keras.Model(x, ops.relu(x * scale), name="net")
    assert places(model, lambda x: x * scale.copy())
    assert not places(model, lambda x: x * (scale + 1.0))
    assert not places(model, lambda x: x * 2.0)
    assert not places(model, lambda x, y: x * y)


def test_what_calls_are_given_is_handed_on_if_they_agree():
    x = keras.Input((4,), name="x")
    y = layers.Dropout(0.5, name="drop")(layers.Dense(4, name="d")(x), training=True)
    model = keras.Model(x, layers.BatchNormalization(name="norm")(y), name="net")
    told = found(model, lambda x: layers.BatchNormalization()(layers.Dropout(0.5)(x)))
    assert "'drop' is called with training=True, and 'norm' is not" in str(told)
    assert places(model, lambda x: layers.Dropout(0.5)(x, training=True)) == ("drop",)
    edited = ramet.rewrite(
        model,
        lambda x: layers.Dropout(0.5)(x),
        lambda x: layers.GaussianDropout(0.5, seed=1)(layers.ReLU()(x)),
    )
    call = next(call for call in edited.calls.values() if "gaussian" in call.name)
    assert call.kwargs["training"] is True
    relu = next(call for call in edited.calls.values() if "re_lu" in call.name)
    assert "training" not in relu.kwargs
    made = edited.build()
    rows = np.ones((2, 4), "float32")
    assert not np.array_equal(array(made(rows)), array(made(rows)))  # It drops, as was asked.


def test_a_flattened_model_has_the_shapes_around_it():
    start = keras.Input((None, 4), name="start")
    inner = keras.Model(start, layers.ReLU(name="r")(layers.Dense(4)(start)), name="inner")
    x = keras.Input((5, 4), name="x")
    graph = ramet.trace(keras.Model(x, inner(x), name="net")).flatten()
    shapes = []

    def flat(x):
        shapes.append(tuple(x.shape))
        return layers.Dense(3)(layers.Flatten()(x))

    made = ramet.rewrite(graph, lambda x: layers.ReLU()(x), flat).build()
    assert shapes == [(None, 5, 4)]
    assert made.output_shape == (None, 3)
