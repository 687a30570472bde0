"""Input and output structures, and models cut out of other models."""

from __future__ import annotations

import keras
import numpy as np
import scipy.sparse
from keras import layers

from zoo.base import BATCH, case, floats


def _sparse(width: int):
    """Draw a sparse matrix: scipy's kind, which Keras converts for the backend."""

    def make(rng: np.random.Generator) -> scipy.sparse.csr_matrix:
        dense = rng.normal(size=(BATCH, width)) * (rng.uniform(size=(BATCH, width)) < 0.3)
        dense[:, 0] = 1.0
        return scipy.sparse.csr_matrix(dense.astype("float32"))

    return make


@case("structure-single", inputs=floats(5), targets=floats(3))
def single() -> keras.Model:
    x = keras.Input((5,), name="features")
    return keras.Model(x, layers.Dense(3)(layers.Dense(4, activation="relu")(x)))


@case("structure-list_of_one", inputs=[floats(5)], targets=[floats(3)])
def list_of_one() -> keras.Model:
    x = keras.Input((5,))
    return keras.Model([x], [layers.Dense(3)(x)])


@case("structure-list", inputs=[floats(5), floats(2)], targets=[floats(3), floats(1)])
def lists() -> keras.Model:
    a, b = keras.Input((5,)), keras.Input((2,))
    x = layers.Concatenate()([a, b])
    return keras.Model([a, b], [layers.Dense(3, name="three")(x), layers.Dense(1, name="one")(x)])


@case("structure-tuple", inputs=(floats(5), floats(2)), targets=(floats(3), floats(1)))
def tuples() -> keras.Model:
    a, b = keras.Input((5,)), keras.Input((2,))
    x = layers.Concatenate()([a, b])
    return keras.Model((a, b), (layers.Dense(3, name="three")(x), layers.Dense(1, name="one")(x)))


@case(
    "structure-dict",
    inputs={"left": floats(3), "right": floats(3)},
    targets={"sum": floats(3), "score": floats(1)},
)
def dicts() -> keras.Model:
    # The keys are not in alphabetical order on purpose in the outputs.
    left, right = keras.Input((3,), name="left"), keras.Input((3,), name="right")
    total = layers.Add(name="total")([left, right])
    score = layers.Dense(1, name="scorer")(total)
    return keras.Model({"left": left, "right": right}, {"sum": total, "score": score})


@case(
    "structure-dict_unsorted",
    inputs={"z": floats(3), "a": floats(2)},
    targets=floats(2),
)
def dict_unsorted() -> keras.Model:
    z, a = keras.Input((3,), name="z"), keras.Input((2,), name="a")
    y = layers.Dense(2)(layers.Concatenate()([z, a]))
    return keras.Model({"z": z, "a": a}, y)


@case(
    "structure-nested_dict",
    inputs={"image": floats(4), "meta": {"age": floats(1), "place": [floats(2), floats(2)]}},
)
def nested_dict() -> keras.Model:
    image, age = keras.Input((4,), name="image"), keras.Input((1,), name="age")
    lat, lon = keras.Input((2,), name="lat"), keras.Input((2,), name="lon")
    x = layers.Dense(3)(layers.Concatenate()([image, age, lat, lon]))
    outputs = {"main": layers.Dense(2)(x), "aux": (x, [layers.Dense(1)(x)])}
    return keras.Model({"image": image, "meta": {"age": age, "place": [lat, lon]}}, outputs)


class AddIfGiven(keras.layers.Layer):
    """Adds the second tensor where there is one."""

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def call(self, x, y=None):
        return x * self.scale if y is None else x * self.scale + y

    def compute_output_shape(self, input_shape):
        return input_shape


def _optional() -> keras.Model:
    x = keras.Input((3,), name="x")
    extra = keras.Input((3,), name="extra", optional=True)
    y = AddIfGiven()(x, extra)
    return keras.Model({"x": x, "extra": extra}, layers.Dense(2)(y))


@case(
    "structure-optional_absent",
    since=(3, 13),
    inputs={"x": floats(3), "extra": None},
    custom_objects={"AddIfGiven": AddIfGiven},
)
def optional_absent() -> keras.Model:
    return _optional()


@case(
    "structure-optional_given",
    inputs={"x": floats(3), "extra": floats(3)},
    targets=floats(2),
    custom_objects={"AddIfGiven": AddIfGiven},
)
def optional_given() -> keras.Model:
    return _optional()


@case(
    "structure-sparse",
    inputs=_sparse(8),
    targets=floats(2),
    backends=("jax", "tensorflow"),
)
def sparse() -> keras.Model:
    x = keras.Input((8,), sparse=True, name="bag")
    return keras.Model(x, layers.Dense(2)(layers.Dense(3)(x)))


@case("structure-input_dtypes", inputs=[floats(3, dtype="float64"), floats(3)], targets=floats(1))
def input_dtypes() -> keras.Model:
    a = keras.Input((3,), dtype="float64", name="precise")
    b = keras.Input((3,), dtype="float16", name="coarse")
    y = keras.ops.cast(a, "float32") + keras.ops.cast(b, "float32")
    return keras.Model([a, b], layers.Dense(1)(y))


@case("structure-batch_shape", inputs=floats(3), targets=floats(2))
def batch_shape() -> keras.Model:
    x = keras.Input(batch_shape=(BATCH, 3))
    return keras.Model(x, layers.Dense(2)(x), name="fixed_batch")


@case("structure-unknown_dims", inputs=floats(6, 6, 1), targets=floats(2))
def unknown_dims() -> keras.Model:
    x = keras.Input((None, None, 1))
    y = layers.Conv2D(2, 3, padding="same")(x)
    return keras.Model(x, layers.GlobalAveragePooling2D()(y))


@case("structure-input_is_output", inputs=floats(3), targets=[floats(3), floats(2)])
def input_is_output() -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(x, [x, layers.Dense(2)(x)])


@case("structure-only_input", since=(3, 14), inputs=floats(3))
def only_input() -> keras.Model:
    x = keras.Input((3,))
    return keras.Model(x, x)


@case("structure-output_twice", inputs=floats(3), targets=[floats(2), floats(2), floats(1)])
def output_twice() -> keras.Model:
    x = keras.Input((3,))
    y = layers.Dense(2, name="twice")(x)
    return keras.Model(x, [y, y, layers.Dense(1)(y)])


@case("structure-unused_input", since=(3, 14), inputs=[floats(3), floats(7)], targets=floats(2))
def unused_input() -> keras.Model:
    used, unused = keras.Input((3,), name="used"), keras.Input((7,), name="unused")
    return keras.Model([used, unused], layers.Dense(2)(used))


@case("structure-inputs_out_of_order", inputs=[floats(2), floats(5)], targets=floats(1))
def inputs_out_of_order() -> keras.Model:
    a, b = keras.Input((5,)), keras.Input((2,))
    x = layers.Concatenate()([layers.Dense(2)(a), b])
    return keras.Model([b, a], layers.Dense(1)(x))


@case("structure-diamond", inputs=floats(4), targets=floats(2))
def diamond() -> keras.Model:
    x = keras.Input((4,))
    stem = layers.Dense(4)(x)
    left, right = layers.Dense(4)(stem), layers.Dense(4, activation="tanh")(stem)
    return keras.Model(x, layers.Dense(2)(layers.Add()([left, right, stem])))


@case("structure-dangling", inputs=floats(4), targets=floats(2))
def dangling() -> keras.Model:
    # Layers of the model are called again, outside of the model.
    x = keras.Input((4,))
    shared = layers.Dense(4, name="shared")
    y = shared(x)
    other = shared(keras.Input((4,)))
    layers.Dense(9, name="nowhere")(keras.layers.Add()([y, other]))
    return keras.Model(x, layers.Dense(2)(y))


@case("structure-second_call_only", inputs=floats(4), targets=floats(4))
def second_call_only() -> keras.Model:
    # The model uses the third call of its layer, not the first.
    shared = layers.Dense(4, name="shared")
    shared(keras.Input((4,)))
    shared(keras.Input((4,)))
    x = keras.Input((4,))
    return keras.Model(x, shared(x))


@case("structure-cut_out", inputs=floats(4), targets=floats(2))
def cut_out() -> keras.Model:
    x = keras.Input((6,))
    inner = layers.Dense(4, activation="relu", name="cut_here")(x)
    y = layers.Dense(2)(layers.BatchNormalization()(layers.Dense(3)(inner)))
    keras.Model(x, y, name="whole")
    return keras.Model(inner, y, name="tail")


@case("structure-cut_out_two_inputs", inputs=[floats(4), floats(3)], targets=floats(2))
def cut_out_two_inputs() -> keras.Model:
    x = keras.Input((6,))
    a = layers.Dense(4, name="a")(x)
    b = keras.ops.relu(layers.Dense(3, name="b")(x))
    y = layers.Dense(2)(layers.Concatenate()([a, b]))
    return keras.Model([a, b], y)


@case("structure-feature_extractor", inputs=[floats(4)], targets=[floats(3), floats(2)])
def feature_extractor() -> keras.Model:
    x = keras.Input((4,))
    whole = keras.Sequential(
        [x, layers.Dense(3, name="f1"), layers.Dense(2, name="f2"), layers.Dense(1)]
    )
    return keras.Model(whole.inputs, [whole.get_layer("f1").output, whole.get_layer("f2").output])


@case("structure-renamed_and_frozen", inputs=floats(4), targets=floats(2))
def renamed_and_frozen() -> keras.Model:
    x = keras.Input((4,), name="in")
    frozen = layers.Dense(3, name="frozen", trainable=False)
    model = keras.Model(
        x, layers.Dense(2, name="out")(frozen(x)), name="given_name", trainable=True
    )
    frozen.trainable = False
    return model
