"""What a call can be given: several outputs, raw operations, constants, keywords."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers, ops

from zoo.base import case, floats, ints


class Swap(keras.layers.Layer):
    """Gives its two inputs back in the other order."""

    def call(self, inputs):
        return [inputs[1], inputs[0]]

    def compute_output_shape(self, input_shape):
        return [input_shape[1], input_shape[0]]


@case(
    "wiring-historic_two_output_lambda",
    inputs=floats(4),
    targets=[floats(4), floats(4)],
    custom_objects={"Swap": Swap},
)
def historic_two_output_lambda() -> keras.Model:
    """A layer without mask support that gives several outputs, then one that swaps two inputs."""
    x = keras.Input((4,))
    two = layers.Lambda(lambda t: [t + 1.0, t * 2.0])(x)
    first, second = Swap()(two)
    return keras.Model(x, [first, layers.Dense(4)(second)])


class Statistics(keras.layers.Layer):
    """Gives a dict of outputs."""

    def call(self, x):
        return {
            "mean": ops.mean(x, axis=1),
            "max": ops.max(x, axis=1),
            "parts": (x[:, :2], x[:, 2:]),
        }


@case("wiring-dict_output_layer", inputs=floats(5), custom_objects={"Statistics": Statistics})
def dict_output_layer() -> keras.Model:
    x = keras.Input((5,))
    stats = Statistics()(layers.Dense(5)(x))
    return keras.Model(x, {"b": stats["mean"], "a": stats["parts"][1], "unused_max": stats["max"]})


@case("wiring-raw_ops", inputs=floats(4), targets=floats(3))
def raw_ops() -> keras.Model:
    x = keras.Input((4,))
    y = ops.relu(layers.Dense(4)(x))
    y = ops.concatenate([y, ops.square(x)], axis=-1)
    y = (y - ops.mean(y, axis=-1, keepdims=True)) / (1.0 + ops.std(y, axis=-1, keepdims=True))
    return keras.Model(x, layers.Dense(3)(y))


@case("wiring-slicing", inputs=floats(5, 3), targets=floats(2))
def slicing() -> keras.Model:
    x = keras.Input((5, 3))
    first, rest = x[:, 0], x[:, 1:, ::2]
    y = layers.Concatenate()([first, ops.reshape(rest, (-1, 8)), x[..., -1]])
    return keras.Model(x, layers.Dense(2)(y))


@case("wiring-split_unstack", inputs=floats(6), targets=floats(2))
def split_unstack() -> keras.Model:
    x = keras.Input((6,))
    a, b, c = ops.split(x, 3, axis=-1)
    rows = ops.unstack(ops.stack([a, b, c], axis=1), axis=1)
    return keras.Model(x, layers.Dense(2)(rows[2] * rows[0] + b))


@case("wiring-einsum_where", inputs=floats(3, 4), targets=floats(3, 3))
def einsum_where() -> keras.Model:
    x = keras.Input((3, 4))
    scores = ops.einsum("bik,bjk->bij", layers.Dense(4)(x), x)
    return keras.Model(x, ops.where(scores > 0, scores, 0.1 * scores))


@case("wiring-scalars", inputs=floats(4), targets=floats(4))
def scalars() -> keras.Model:
    x = keras.Input((4,))
    y = 2 * layers.Dense(4)(x) - 1
    return keras.Model(x, 1.0 / (1.5 + ops.maximum(y, 0)) ** 2)


@case("wiring-numpy_constant", inputs=floats(4), targets=floats(4))
def numpy_constant() -> keras.Model:
    x = keras.Input((4,))
    y = ops.matmul(layers.Dense(4)(x), np.arange(16, dtype="float32").reshape(4, 4) / 16)
    return keras.Model(x, ops.add(np.ones((1, 4), "float32"), y))


@case("wiring-tensor_constant", inputs=floats(4), targets=floats(4))
def tensor_constant() -> keras.Model:
    x = keras.Input((4,))
    table = ops.convert_to_tensor(np.linspace(-1, 1, 4).astype("float32"))
    return keras.Model(x, ops.multiply(table, layers.Dense(4)(x)))


@case("wiring-variable_constant", inputs=floats(4), targets=floats(4), saveable=False)
def variable_constant() -> keras.Model:
    # The variable belongs to no layer: only the call knows it.
    x = keras.Input((4,))
    gain = keras.Variable(np.linspace(1, 2, 4).astype("float32"), name="gain", trainable=False)
    y = ops.multiply(layers.Dense(4)(x), gain)
    return keras.Model(x, ops.add(y, gain))


class Mix(keras.layers.Layer):
    """Takes tensors by keyword, and plain values beside them."""

    def __init__(self, units: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.dense = layers.Dense(units)

    def build(self, query_shape, **_) -> None:
        self.dense.build(query_shape)

    def call(self, query, context=None, *, gate=None, scale=1.0, mode="add"):
        y = self.dense(query) * scale
        if context is not None:
            for part in context["parts"]:
                y = y + part if mode == "add" else y * part
        return y if gate is None else y * ops.sigmoid(gate)

    def compute_output_shape(self, query_shape, **_):
        return (*query_shape[:-1], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@case(
    "wiring-keyword_tensors",
    inputs=[floats(4), floats(3), floats(3)],
    targets=floats(3),
    custom_objects={"Mix": Mix},
)
def keyword_tensors() -> keras.Model:
    q, c, g = keras.Input((4,)), keras.Input((3,)), keras.Input((3,))
    y = Mix(3)(q, context={"parts": [c, g]}, gate=g, scale=0.5, mode="mul")
    return keras.Model([q, c, g], y)


@case("wiring-keyword_scalars", inputs=floats(4), targets=floats(3), custom_objects={"Mix": Mix})
def keyword_scalars() -> keras.Model:
    x = keras.Input((4,))
    mix = Mix(3)
    return keras.Model(x, layers.Add()([mix(x, scale=2), mix(query=x, scale=0.25)]))


@case("wiring-training_argument", inputs=floats(4), targets=floats(4))
def training_argument() -> keras.Model:
    # One batch norm always runs in inference mode, one dropout always in training mode.
    x = keras.Input((4,))
    y = layers.BatchNormalization()(x, training=False)
    return keras.Model(x, layers.Dropout(0.5, seed=3)(layers.Dense(4)(y), training=True))


@case("wiring-attention_keywords", inputs=[floats(3, 4), floats(5, 4)], targets=floats(3, 4))
def attention_keywords() -> keras.Model:
    query, memory = keras.Input((3, 4)), keras.Input((5, 4))
    y, scores = layers.MultiHeadAttention(2, 2)(
        query, value=memory, key=memory, return_attention_scores=True
    )
    return keras.Model([query, memory], y + ops.mean(scores))


@case("wiring-gather_and_cast", inputs=[floats(5, 3), ints(5, 2)], targets=floats(2, 3))
def gather_and_cast() -> keras.Model:
    x, index = keras.Input((5, 3)), keras.Input((2,), dtype="int32")
    picked = ops.take_along_axis(x, ops.expand_dims(index, -1), axis=1)
    return keras.Model([x, index], layers.Dense(3)(picked) * ops.cast(index, "float32")[:, :, None])


@case("wiring-op_objects", inputs=floats(4), targets=floats(4))
def op_objects() -> keras.Model:
    # The same operation object twice: sharing without weights.
    x = keras.Input((4,))
    softmax = layers.Softmax(name="shared_softmax")
    return keras.Model(x, softmax(layers.Dense(4)(softmax(x))))


@case("wiring-ops_with_shape", inputs=floats(4, 2), targets=floats(2, 4))
def ops_with_shape() -> keras.Model:
    x = keras.Input((4, 2))
    y = ops.transpose(ops.flip(x, axis=1), axes=(0, 2, 1))
    y = ops.pad(y, [[0, 0], [0, 0], [1, 1]])
    return keras.Model(x, layers.Dense(4)(ops.reshape(y, (-1, 2, 6))))


@case("wiring-loop_of_shared_layer", inputs=floats(4), targets=floats(4))
def loop_of_shared_layer() -> keras.Model:
    x = keras.Input((4,))
    step = layers.Dense(4, activation="tanh", name="step")
    states = [x]
    for _ in range(5):
        states.append(step(states[-1]) + states[0])
    return keras.Model(x, layers.Average()(states[1:]))
