"""Recurrent layers, their states, and masks on their way through a graph."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers, ops

from zoo.base import BATCH, case, floats, tokens


def _masked(rng: np.random.Generator) -> np.ndarray:
    """Draw sequences whose last steps are all zero, as `Masking` expects them."""
    x = rng.normal(size=(BATCH, 5, 3)).astype("float32")
    for row in range(BATCH):
        x[row, 5 - row :] = 0.0
    return x


@case("recurrent-lstm", inputs=floats(5, 3), targets=floats(2))
def lstm() -> keras.Model:
    x = keras.Input((5, 3))
    return keras.Model(x, layers.LSTM(2, dropout=0.3, recurrent_dropout=0.2)(x))


@case("recurrent-gru_stack", inputs=floats(5, 3), targets=floats(2))
def gru_stack() -> keras.Model:
    x = keras.Input((None, 3))
    y = layers.GRU(3, return_sequences=True, reset_after=False)(x)
    return keras.Model(x, layers.GRU(2, go_backwards=True)(y))


@case("recurrent-simple_rnn_unrolled", inputs=floats(4, 3), targets=floats(2))
def simple_rnn_unrolled() -> keras.Model:
    x = keras.Input((4, 3))
    return keras.Model(x, layers.SimpleRNN(2, unroll=True)(x))


@case("recurrent-stacked_cells", inputs=floats(4, 3), targets=floats(2))
def stacked_cells() -> keras.Model:
    x = keras.Input((4, 3))
    cells = [layers.LSTMCell(3), layers.GRUCell(4), layers.SimpleRNNCell(2)]
    return keras.Model(x, layers.RNN(cells)(x))


class LeakyCell(keras.layers.Layer):
    """The least that `keras.layers.RNN` asks of a cell."""

    def __init__(self, units: int, **kwargs) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.state_size = units

    def build(self, input_shape) -> None:
        self.kernel = self.add_weight(shape=(input_shape[-1], self.units), name="kernel")
        self.leak = self.add_weight(shape=(self.units,), initializer="ones", name="leak")

    def call(self, x, states):
        y = ops.matmul(x, self.kernel) + states[0] * 0.5 * self.leak
        return y, [y]

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@case(
    "recurrent-custom_cell",
    inputs=floats(4, 3),
    targets=floats(2),
    custom_objects={"LeakyCell": LeakyCell},
)
def custom_cell() -> keras.Model:
    x = keras.Input((4, 3))
    return keras.Model(x, layers.RNN(LeakyCell(2))(x))


def _bidirectional(merge_mode: str | None) -> keras.Model:
    x = keras.Input((4, 3))
    y = layers.Bidirectional(layers.LSTM(2, return_sequences=True), merge_mode=merge_mode)(x)
    if merge_mode is None:
        y = layers.Average()(y)
    return keras.Model(x, layers.Dense(1)(y))


for _mode in ("concat", "sum", "mul", "ave", None):
    case(f"recurrent-bidirectional_{_mode}", inputs=floats(4, 3), targets=floats(4, 1))(
        lambda mode=_mode: _bidirectional(mode)
    )


@case("recurrent-bidirectional_two_layers", inputs=floats(4, 3), targets=floats(5))
def bidirectional_two_layers() -> keras.Model:
    x = keras.Input((4, 3))
    backward = layers.GRU(3, go_backwards=True, name="back")
    return keras.Model(
        x, layers.Bidirectional(layers.LSTM(2, name="fore"), backward_layer=backward)(x)
    )


@case("recurrent-return_state", inputs=floats(4, 3), targets=[floats(4, 2), floats(2), floats(2)])
def return_state() -> keras.Model:
    x = keras.Input((4, 3))
    return keras.Model(x, list(layers.LSTM(2, return_sequences=True, return_state=True)(x)))


@case("recurrent-initial_state", inputs=[floats(4, 3), floats(2), floats(2)], targets=floats(2))
def initial_state() -> keras.Model:
    x, h, c = keras.Input((4, 3)), keras.Input((2,)), keras.Input((2,))
    return keras.Model([x, h, c], layers.LSTM(2)(x, initial_state=[h, c]))


def _stateful() -> keras.Model:
    x = keras.Input(batch_shape=(BATCH, 4, 3))
    model = keras.Model(x, layers.GRU(2, stateful=True)(x))
    model(np.ones((BATCH, 4, 3), "float32"))  # the states are no longer zero
    return model


@case("recurrent-stateful", inputs=floats(4, 3))
def stateful() -> keras.Model:
    return _stateful()


# PyTorch cannot train it: the state is assigned in place, which autograd refuses.
@case(
    "recurrent-stateful_trained",
    inputs=floats(4, 3),
    targets=floats(2),
    backends=("jax", "tensorflow"),
)
def stateful_trained() -> keras.Model:
    return _stateful()


@case("recurrent-conv_lstm", inputs=floats(3, 5, 5, 1), targets=floats(3, 3, 2))
def conv_lstm() -> keras.Model:
    x = keras.Input((3, 5, 5, 1))
    return keras.Model(x, layers.ConvLSTM2D(2, 3)(x))


@case("recurrent-time_distributed", inputs=floats(4, 3), targets=floats(4, 2))
def time_distributed() -> keras.Model:
    x = keras.Input((4, 3))
    y = layers.TimeDistributed(layers.Dense(2))(x)
    return keras.Model(x, layers.TimeDistributed(layers.BatchNormalization())(y))


@case("recurrent-embedding_mask_lstm", inputs=tokens(9, 5), targets=floats(2))
def embedding_mask_lstm() -> keras.Model:
    x = keras.Input((5,), dtype="int32")
    y = layers.Embedding(9, 3, mask_zero=True)(x)
    return keras.Model(x, layers.LSTM(2)(layers.Dropout(0.2)(y)))


@case("recurrent-embedding_mask_shared", inputs=[tokens(9, 5), tokens(9, 5)], targets=floats(1))
def embedding_mask_shared() -> keras.Model:
    a, b = keras.Input((5,), dtype="int32"), keras.Input((5,), dtype="int32")
    embedding = layers.Embedding(9, 3, mask_zero=True)
    encoder = layers.Bidirectional(layers.GRU(2))
    y = layers.Subtract()([encoder(embedding(a)), encoder(embedding(b))])
    return keras.Model([a, b], layers.Dense(1)(y))


@case("recurrent-mask_pooling", inputs=tokens(9, 5), targets=floats(2))
def mask_pooling() -> keras.Model:
    x = keras.Input((5,), dtype="int32")
    y = layers.Embedding(9, 3, mask_zero=True)(x)
    return keras.Model(x, layers.Dense(2)(layers.GlobalAveragePooling1D()(y)))


@case("recurrent-mask_attention", inputs=tokens(9, 5), targets=floats(5, 4))
def mask_attention() -> keras.Model:
    x = keras.Input((5,), dtype="int32")
    y = layers.Embedding(9, 4, mask_zero=True)(x)
    z = layers.MultiHeadAttention(2, 2, dropout=0.1)(y, y)
    return keras.Model(x, layers.LayerNormalization()(layers.Add()([y, z])))


@case("recurrent-mask_dot_attention", inputs=[tokens(9, 5), tokens(9, 4)], targets=floats(5, 3))
def mask_dot_attention() -> keras.Model:
    q, v = keras.Input((5,), dtype="int32"), keras.Input((4,), dtype="int32")
    embedding = layers.Embedding(9, 3, mask_zero=True)
    y = layers.Attention(use_scale=True)([embedding(q), embedding(v)])
    return keras.Model([q, v], layers.AdditiveAttention()([y, embedding(v)]))


@case("recurrent-mask_merge", inputs=[tokens(9, 5), tokens(9, 5)], targets=floats(2))
def mask_merge() -> keras.Model:
    a, b = keras.Input((5,), dtype="int32"), keras.Input((5,), dtype="int32")
    x = layers.Embedding(9, 3, mask_zero=True)(a)
    y = layers.Embedding(9, 3, mask_zero=True)(b)
    return keras.Model([a, b], layers.LSTM(2)(layers.Concatenate()([x, y])))


@case("recurrent-masking_layer", inputs=_masked, targets=floats(2))
def masking_layer() -> keras.Model:
    x = keras.Input((5, 3))
    y = layers.Masking(0.0)(x)
    y = layers.TimeDistributed(layers.Dense(3))(y)
    return keras.Model(x, layers.GRU(2)(y))


@case("recurrent-masking_sequential", inputs=_masked, targets=floats(2))
def masking_sequential() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((None, 3)),
            layers.Masking(),
            layers.LSTM(3, return_sequences=True),
            layers.LSTM(2),
        ]
    )


@case("recurrent-explicit_mask", inputs=[floats(5, 3), tokens(3, 5)], targets=floats(2))
def explicit_mask() -> keras.Model:
    x, ids = keras.Input((5, 3)), keras.Input((5,), dtype="int32")
    return keras.Model([x, ids], layers.LSTM(2)(x, mask=ops.not_equal(ids, 0)))


@case("recurrent-mask_as_output", inputs=tokens(9, 5))
def mask_as_output() -> keras.Model:
    x = keras.Input((5,), dtype="int32")
    embedding = layers.Embedding(9, 3, mask_zero=True)
    y = embedding(x)
    return keras.Model(x, [layers.LSTM(2)(y), embedding.compute_mask(x)])


class Threshold(keras.layers.Layer):
    """Computes its mask with a weight, and passes its input on."""

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape) -> None:  # noqa: ARG002  Keras passes it
        self.limit = self.add_weight(shape=(), initializer="zeros", trainable=False, name="limit")

    def call(self, x):
        return x * 1.0

    def compute_mask(self, x, mask=None):  # noqa: ARG002  Keras passes it
        return ops.any(x > self.limit, axis=-1)


@case("recurrent-mask_reads_weight", inputs=floats(5, 3), targets=floats(2), saveable=False)
def mask_reads_weight() -> keras.Model:
    x = keras.Input((5, 3))
    return keras.Model(x, layers.LSTM(2)(Threshold()(x)))


@case(
    "recurrent-seq2seq",
    inputs={"source": tokens(9, 5), "target": tokens(7, 4)},
    targets=floats(4, 7),
)
def seq2seq() -> keras.Model:
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    _, h, c = layers.LSTM(3, return_state=True, name="encoder")(
        layers.Embedding(9, 3, mask_zero=True)(source)
    )
    embedded = layers.Embedding(7, 3, mask_zero=True)(target)
    decoded, _, _ = layers.LSTM(3, return_sequences=True, return_state=True, name="decoder")(
        embedded, initial_state=[h, c]
    )
    return keras.Model(
        {"source": source, "target": target}, layers.Dense(7, activation="softmax")(decoded)
    )
