"""Models for the mask lint: some with one seeded fault each, some without any."""

import keras
import numpy as np
from keras import layers, ops


def tokens(name="tokens", length=5):
    return keras.Input((length,), dtype="int32", name=name)


def embedding(name="embedding", size=3, **options):
    return layers.Embedding(9, size, **{"mask_zero": True, "name": name, **options})


def model(inputs, outputs):
    return keras.Model(inputs, outputs, name="net")


@keras.saving.register_keras_serializable("masks")
class Plain(keras.layers.Layer):
    """Knows nothing of masks."""

    def call(self, x):
        return x * 2.0

    def compute_output_shape(self, shape):
        return shape


@keras.saving.register_keras_serializable("masks")
class Weighted(keras.layers.Layer):
    """Takes a mask and ends it."""

    def call(self, x, mask=None):
        if mask is not None:
            x = x * ops.cast(ops.expand_dims(mask, -1), x.dtype)
        return ops.sum(x, axis=1)

    def compute_output_shape(self, shape):
        return (shape[0], shape[2])

    def compute_mask(self, _, __=None):
        return None


@keras.saving.register_keras_serializable("masks")
class Halved(keras.layers.Layer):
    """Hands on a mask of the right length."""

    def call(self, x):
        return x[:, ::2]

    def compute_mask(self, _, mask=None):
        return None if mask is None else mask[:, ::2]

    def compute_output_shape(self, shape):
        return (shape[0], (shape[1] + 1) // 2, shape[2])


@keras.saving.register_keras_serializable("masks")
class Wrong(keras.layers.Layer):
    """Hands on a mask of the wrong length."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, x):
        return x[:, ::2]

    def compute_output_shape(self, shape):
        return (shape[0], (shape[1] + 1) // 2, shape[2])


@keras.saving.register_keras_serializable("masks")
class Positive(keras.layers.Layer):
    """Makes a mask of its own."""

    def call(self, x):
        return x

    def compute_mask(self, x, _=None):
        return ops.any(x > 0, axis=-1)

    def compute_output_shape(self, shape):
        return shape


@keras.saving.register_keras_serializable("masks")
class Block(keras.layers.Layer):
    """Uses masks in its parts, without a mask argument."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(1, 2, name="hidden")

    def build(self, shape):
        self.attention.build(shape, shape)

    def call(self, x):
        return self.attention(x, x)

    def compute_output_shape(self, shape):
        return shape


# --- dropped ---


def conv_before_lstm():
    t = tokens()
    x = layers.Conv1D(3, 2, name="conv")(embedding()(t))
    return model(t, layers.LSTM(2, name="lstm")(x))


def operation_before_lstm():
    t = tokens()
    return model(t, layers.LSTM(2, name="lstm")(embedding()(t) * 2.0))


def pooling_before_gru():
    t = tokens()
    x = layers.MaxPooling1D(2, name="pool")(embedding()(t))
    return model(t, layers.GRU(2, name="gru")(layers.Dense(3, name="dense")(x)))


def operation_before_attention():
    t = tokens()
    x = ops.relu(embedding()(t))
    return model(t, layers.MultiHeadAttention(1, 2, name="attention")(x, x))


def unmasked_positions():
    t, p = tokens(), tokens("positions")
    x = layers.Add(name="add")([embedding()(t), embedding("where", mask_zero=False)(p)])
    return model([t, p], layers.MultiHeadAttention(1, 2, name="attention")(x, x))


def lambda_before_bidirectional():
    t = tokens()
    x = layers.Lambda(ops.relu, name="relu")(embedding()(t))
    return model(t, layers.Bidirectional(layers.LSTM(2), name="both")(x))


def conv_before_average():
    t = tokens()
    x = layers.Conv1D(3, 3, padding="same", name="conv")(embedding()(t))
    return model(t, layers.GlobalAveragePooling1D(name="average")(x))


def custom_before_custom():
    t = tokens()
    return model(t, Weighted(name="weighted")(Plain(name="plain")(embedding()(t))))


def slice_before_lstm():
    t = tokens()
    return model(t, layers.LSTM(2, name="lstm")(embedding()(t)[:, 1:]))


def conv_inside_nested():
    start = keras.Input((5, 3), name="start")
    x = layers.LSTM(2, name="lstm")(layers.Conv1D(3, 2, name="conv")(start))
    encoder = keras.Model(start, x, name="encoder")
    t = tokens()
    return model(t, encoder(embedding()(t)))


def nested_loses_for_outer():
    start = keras.Input((5, 3), name="start")
    encoder = keras.Model(start, layers.Conv1D(3, 2, name="conv")(start), name="encoder")
    t = tokens()
    return model(t, layers.LSTM(2, name="lstm")(encoder(embedding()(t))))


def embedding_inside_nested():
    start = tokens("start")
    encoder = keras.Model(start, embedding("inner")(start), name="encoder")
    t = tokens()
    return model(t, layers.LSTM(2, name="lstm")(encoder(t) + 1.0))


def initial_state():
    t, s = tokens(), keras.Input((2,), name="state")
    return model([t, s], layers.GRU(2, name="gru")(embedding()(t), initial_state=s))


def squeezed_before_softmax():
    t = tokens()
    x = layers.Dense(1, name="score")(embedding()(t))
    return model(t, layers.Softmax(name="softmax")(layers.Reshape((5,), name="flat")(x)))


def sequential_conv():
    return keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            embedding(),
            layers.Conv1D(3, 2, name="conv"),
            layers.LSTM(2, name="lstm"),
        ]
    )


def masking_then_reshape():
    s = keras.Input((5, 4), name="series")
    x = layers.Reshape((5, 2, 2), name="reshape")(layers.Masking(name="masking")(s))
    return model(s, layers.ConvLSTM1D(2, 1, name="lstm")(x))


def two_readers():
    t = tokens()
    x = layers.Conv1D(3, 2, name="conv")(embedding()(t))
    return model(t, [layers.LSTM(2, name="a")(x), layers.LSTM(2, name="b")(x)])


def residual_conv():
    t = tokens()
    x = embedding()(t)
    y = layers.Conv1D(3, 3, padding="same", name="conv")(x)
    return model(t, layers.LSTM(2, name="lstm")(layers.Add(name="add")([x, y])))


# --- unused ---


def flattened():
    t = tokens()
    x = layers.Flatten(name="flatten")(embedding()(t))
    return model(t, layers.Dense(2, name="dense")(x))


def maximum_of_all():
    t = tokens()
    return model(t, layers.GlobalMaxPooling1D(name="max")(embedding()(t)))


def text_cnn():
    t = tokens()
    x = layers.Conv1D(3, 2, name="conv")(embedding()(t))
    return model(t, layers.Dense(2, name="out")(layers.GlobalMaxPooling1D(name="max")(x)))


def masking_flattened():
    s = keras.Input((5, 4), name="series")
    x = layers.Dense(2, name="dense")(layers.Masking(name="masking")(s))
    return model(s, layers.Flatten(name="flatten")(x))


def time_distributed_flattened():
    t = tokens()
    x = layers.TimeDistributed(layers.Dense(2), name="each")(embedding()(t))
    return model(t, layers.Flatten(name="flatten")(x))


def shared_and_unused():
    a, b = tokens("a"), tokens("b")
    shared = embedding()
    x = layers.Concatenate(name="join")([shared(a), shared(b)])
    return model([a, b], layers.Flatten(name="flatten")(x))


def custom_maker_unused():
    s = keras.Input((5, 4), name="series")
    return model(s, layers.Flatten(name="flatten")(Positive(name="positive")(s)))


def nested_unused():
    start = tokens("start")
    encoder = keras.Model(start, embedding("inner")(start), name="encoder")
    t = tokens()
    return model(t, layers.Flatten(name="flatten")(encoder(t)))


def autoencoder_unused():
    t = tokens()
    x = layers.Dense(4, name="code")(layers.Flatten(name="flatten")(embedding()(t)))
    return model(t, layers.LSTM(2, name="lstm")(layers.RepeatVector(5, name="repeat")(x)))


# --- mismatched ---


def wrong_attached():
    t = tokens()
    return model(t, Wrong(name="wrong")(embedding()(t)))


def wrong_attached_and_read():
    t = tokens()
    x = layers.Dropout(0.1, name="dropout")(Wrong(name="wrong")(embedding()(t)))
    return model(t, layers.LSTM(2, name="lstm")(x))


def wrong_argument():
    t, s = tokens(length=7), keras.Input((5, 3), name="series")
    return model([t, s], layers.LSTM(2, name="lstm")(s, mask=ops.not_equal(t, 0)))


def wrong_value_mask():
    q, v = keras.Input((4, 3), name="query"), keras.Input((5, 3), name="value")
    mask = keras.Input((4,), dtype="bool", name="mask")
    y = layers.MultiHeadAttention(1, 2, name="attention")(q, v, value_mask=mask)
    return model([q, v, mask], y)


def too_many_dimensions():
    s = keras.Input((5, 3), name="series")
    mask = keras.Input((5, 3, 1), dtype="bool", name="mask")
    return model([s, mask], layers.LSTM(2, name="lstm")(s, mask=mask))


def wrong_inside_nested():
    start = keras.Input((5, 3), name="start")
    encoder = keras.Model(start, Wrong(name="wrong")(start), name="encoder")
    t = tokens()
    return model(t, encoder(embedding()(t)))


# --- overridden ---


def own_mask_hides():
    t = tokens()
    return model(t, layers.LSTM(2, name="lstm")(embedding()(t), mask=ops.not_equal(t, 1)))


def input_mask_hides():
    t, mask = tokens(), keras.Input((5,), dtype="bool", name="mask")
    return model(
        [t, mask], layers.GlobalAveragePooling1D(name="average")(embedding()(t), mask=mask)
    )


def own_value_mask_hides():
    t, mask = tokens(), keras.Input((5,), dtype="bool", name="mask")
    x = embedding()(t)
    return model(
        [t, mask], layers.MultiHeadAttention(1, 2, name="attention")(x, x, value_mask=mask)
    )


def mask_for_nested_hides():
    start = keras.Input((5, 3), name="start")
    encoder = keras.Model(start, layers.LSTM(2, name="lstm")(start), name="encoder")
    t = tokens()
    return model(t, encoder(embedding()(t), mask=ops.not_equal(t, 1)))


def mask_of_another_hides():
    a, b = tokens("a"), tokens("b")
    x, y = embedding("first")(a), embedding("second")(b)
    read = layers.LSTM(2, name="lstm")(x, mask=ops.not_equal(b, 0))
    return model([a, b], [read, layers.LSTM(2, name="other")(y)])


# --- frozen ---


def changed(source, kind, **options):
    """Clones with Keras, and gives the layers of a kind other options."""

    def exchange(layer):
        config = layer.get_config()
        if isinstance(layer, kind):
            config.update(options)
        return type(layer).from_config(config)

    return keras.models.clone_model(source, clone_function=exchange)


def embedding_switched_off():
    t = tokens()
    source = model(t, layers.LSTM(2, name="lstm")(embedding()(t)))
    return changed(source, layers.Embedding, mask_zero=False)


def switched_off_far_above():
    t = tokens()
    x = layers.Dropout(0.1, name="dropout")(layers.Dense(3, name="dense")(embedding()(t)))
    source = model(t, layers.GlobalAveragePooling1D(name="average")(x))
    return changed(source, layers.Embedding, mask_zero=False)


def switched_off_two_lstms():
    t = tokens()
    x = layers.LSTM(3, return_sequences=True, name="lstm")(embedding()(t))
    return changed(model(t, layers.LSTM(2, name="next")(x)), layers.Embedding, mask_zero=False)


def masking_value_changed():
    s = keras.Input((5, 4), name="series")
    source = model(s, layers.LSTM(2, name="lstm")(layers.Masking(name="masking")(s)))
    return changed(source, layers.Masking, mask_value=9.0)


def switched_off_above_nested():
    start = keras.Input((5, 3), name="start")
    encoder = keras.Model(start, layers.LSTM(2, name="lstm")(start), name="encoder")
    t = tokens()
    source = model(t, encoder(embedding()(t)))
    return changed(source, layers.Embedding, mask_zero=False)


FAULTS = {
    conv_before_lstm: ("dropped", ("embedding", "conv", "lstm")),
    operation_before_lstm: ("dropped", ("embedding", "multiply", "lstm")),
    pooling_before_gru: ("dropped", ("embedding", "pool", "gru")),
    operation_before_attention: ("dropped", ("embedding", "relu", "attention")),
    unmasked_positions: ("dropped", ("embedding", "add", "attention")),
    lambda_before_bidirectional: ("dropped", ("embedding", "relu", "both")),
    conv_before_average: ("dropped", ("embedding", "conv", "average")),
    custom_before_custom: ("dropped", ("embedding", "plain", "weighted")),
    slice_before_lstm: ("dropped", ("embedding", "get_item", "lstm")),
    conv_inside_nested: ("dropped", ("embedding", "encoder/conv", "encoder/lstm")),
    nested_loses_for_outer: ("dropped", ("embedding", "encoder/conv", "lstm")),
    embedding_inside_nested: ("dropped", ("encoder/inner", "add", "lstm")),
    initial_state: ("dropped", ("embedding", "gru")),
    squeezed_before_softmax: ("dropped", ("embedding", "flat", "softmax")),
    sequential_conv: ("dropped", ("embedding", "conv", "lstm")),
    masking_then_reshape: ("dropped", ("masking", "reshape", "lstm")),
    two_readers: ("dropped", ("embedding", "conv", "a", "b")),
    residual_conv: ("dropped", ("embedding", "conv", "lstm")),
    flattened: ("unused", ("embedding",)),
    maximum_of_all: ("unused", ("embedding",)),
    text_cnn: ("unused", ("embedding",)),
    masking_flattened: ("unused", ("masking",)),
    time_distributed_flattened: ("unused", ("embedding",)),
    shared_and_unused: ("unused", ("embedding", "embedding#2")),
    custom_maker_unused: ("unused", ("positive",)),
    nested_unused: ("unused", ("encoder/inner",)),
    autoencoder_unused: ("unused", ("embedding",)),
    wrong_attached: ("mismatched", ("embedding", "wrong")),
    wrong_attached_and_read: ("mismatched", ("embedding", "wrong")),
    wrong_argument: ("mismatched", ("lstm",)),
    wrong_value_mask: ("mismatched", ("attention",)),
    too_many_dimensions: ("mismatched", ("lstm",)),
    wrong_inside_nested: ("mismatched", ("embedding", "encoder/wrong")),
    own_mask_hides: ("overridden", ("embedding", "lstm")),
    input_mask_hides: ("overridden", ("embedding", "average")),
    own_value_mask_hides: ("overridden", ("embedding", "attention")),
    mask_for_nested_hides: ("overridden", ("embedding", "encoder")),
    mask_of_another_hides: ("overridden", ("first", "lstm")),
    embedding_switched_off: ("frozen", ("embedding", "lstm")),
    switched_off_far_above: ("frozen", ("embedding", "average")),
    switched_off_two_lstms: ("frozen", ("embedding", "lstm")),
    masking_value_changed: ("frozen", ("masking", "lstm")),
    switched_off_above_nested: ("frozen", ("embedding", "encoder")),
}
"""Models with one fault each: the kind of the one finding, and the layers it names."""


# --- nothing wrong ---


def lstm_stack():
    t = tokens()
    x = layers.LSTM(3, return_sequences=True, name="lstm")(embedding()(t))
    return model(t, layers.Dense(2)(layers.LSTM(2, name="next")(layers.Dropout(0.1)(x))))


def masking_gru():
    s = keras.Input((5, 4), name="series")
    return model(s, layers.GRU(2)(layers.Masking()(s)))


def bidirectional():
    t = tokens()
    x = layers.Bidirectional(layers.LSTM(2, return_sequences=True))(embedding()(t))
    return model(t, layers.Bidirectional(layers.GRU(2))(x))


def bidirectional_apart():
    t = tokens()
    both = layers.Bidirectional(layers.LSTM(2, return_sequences=True), merge_mode=None)
    a, b = both(embedding()(t))
    return model(t, [layers.LSTM(2, name="a")(a), layers.LSTM(2, name="b")(b)])


def time_distributed():
    t = tokens()
    x = layers.TimeDistributed(layers.Dense(2))(embedding()(t))
    return model(t, layers.LSTM(2)(x))


def attention():
    q, v = tokens("q"), tokens("v", 7)
    x, y = embedding("query")(q), embedding("value")(v)
    z = layers.Attention(name="attention")([x, y])
    return model([q, v], layers.GlobalAveragePooling1D()(z))


def attention_value_only():
    q, v = keras.Input((4, 3), name="q"), tokens("v", 7)
    z = layers.AdditiveAttention()([q, embedding()(v)])
    return model([q, v], layers.GlobalMaxPooling1D()(z))


def transformer():
    t = tokens()
    x = embedding(size=4)(t)
    y = layers.MultiHeadAttention(2, 2)(x, x)
    x = layers.LayerNormalization()(layers.Add()([x, y]))
    y = layers.Dense(4)(layers.Dense(8, activation="relu")(x))
    x = layers.LayerNormalization()(layers.Add()([x, y]))
    return model(t, layers.Dense(1)(layers.GlobalAveragePooling1D()(x)))


def cross_attention():
    q, v = tokens("q"), tokens("v", 7)
    x = layers.MultiHeadAttention(1, 2)(embedding("query")(q), embedding("value")(v))
    return model([q, v], layers.LSTM(2)(x))


def state_with_mask():
    t, s = tokens(), keras.Input((2,), name="state")
    layer = embedding()
    x = layers.GRU(2)(layer(t), initial_state=s, mask=layer.compute_mask(t))
    return model([t, s], x)


def encoder_decoder():
    t, s = tokens(), keras.Input((6, 3), name="target")
    _, h, c = layers.LSTM(2, return_state=True, name="encoder")(embedding()(t))
    x = layers.LSTM(2, return_sequences=True, name="decoder")(s, initial_state=[h, c])
    return model([t, s], layers.Dense(3)(x))


def autoencoder():
    t = tokens()
    x = layers.RepeatVector(5)(layers.LSTM(2)(embedding()(t)))
    return model(t, layers.LSTM(2, return_sequences=True)(x))


def shared_layers():
    a, b = tokens("a"), tokens("b")
    layer, read = embedding(), layers.LSTM(2)
    return model([a, b], layers.Concatenate()([read(layer(a)), read(layer(b))]))


def nested():
    start = keras.Input((5, 3), name="start")
    x = layers.LSTM(2, name="lstm")(layers.Dense(3, name="dense")(start))
    encoder = keras.Model(start, x, name="encoder")
    t = tokens()
    return model(t, layers.Dense(2)(encoder(embedding()(t))))


def nested_twice():
    start = tokens("start")
    encoder = keras.Model(start, embedding("inner")(start), name="encoder")
    a, b = tokens("a"), tokens("b")
    x = layers.Concatenate(axis=1)([encoder(a), encoder(b)])
    return model([a, b], layers.LSTM(2)(x))


def nested_in_nested():
    start = keras.Input((5, 3), name="start")
    deep = keras.Model(start, Halved(name="halved")(start), name="deep")
    middle = keras.Input((5, 3), name="middle")
    encoder = keras.Model(middle, layers.GRU(2, name="gru")(deep(middle)), name="encoder")
    t = tokens()
    return model(t, encoder(embedding()(t)))


def nested_with_two_inputs():
    a, b = keras.Input((5, 3), name="one"), keras.Input((5, 3), name="two")
    y = layers.LSTM(2, name="lstm")(layers.Add(name="add")([a, b]))
    pair = keras.Model({"one": a, "two": b}, y, name="pair")
    s, t = tokens("s"), tokens("t")
    return model([s, t], pair({"two": embedding("e1")(s), "one": embedding("e2")(t)}))


def sequential():
    return keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            embedding(),
            layers.Dense(3),
            layers.Activation("relu"),
            layers.LSTM(2),
            layers.Dense(2),
        ]
    )


def sequential_in_functional():
    head = keras.Sequential([layers.Dense(3), layers.GRU(2)], name="head")
    t = tokens()
    return model(t, head(embedding()(t)))


def merged():
    a, b = tokens("a"), tokens("b")
    x = layers.Average()([embedding("e1")(a), embedding("e2")(b)])
    return model([a, b], layers.LSTM(2)(x))


def concatenated():
    t, s = tokens(), keras.Input((5, 2), name="series")
    x = layers.Concatenate()([embedding()(t), s])
    return model([t, s], layers.LSTM(2)(x))


def custom_with_mask():
    t = tokens()
    return model(t, Weighted()(layers.BatchNormalization()(embedding()(t))))


def custom_that_halves():
    t = tokens()
    return model(t, layers.LSTM(2)(Halved()(embedding()(t))))


def custom_maker():
    s = keras.Input((5, 4), name="series")
    return model(s, layers.LSTM(2)(Positive()(s)))


def custom_block():
    t = tokens()
    return model(t, layers.Flatten()(Block()(embedding()(t))))


def mask_computed_for_conv():
    t = tokens()
    layer = embedding()
    mask = layer.compute_mask(t)[:, 1:]
    return model(t, layers.LSTM(2)(layers.Conv1D(3, 2)(layer(t)), mask=mask))


def refined_mask():
    t = tokens()
    layer = embedding()
    mask = ops.logical_and(layer.compute_mask(t), ops.not_equal(t, 1))
    return model(t, layers.LSTM(2)(layer(t), mask=mask))


def explicit_mask():
    t, s = tokens(), keras.Input((5, 3), name="series")
    return model([t, s], layers.LSTM(2)(s, mask=ops.not_equal(t, 0)))


def masked_softmax():
    s, mask = (
        keras.Input((2, 5, 5), name="scores"),
        keras.Input((1, 1, 5), dtype="bool", name="mask"),
    )
    return model([s, mask], layers.Softmax()(s, mask=mask))


def tagger():
    t = tokens()
    return model(t, layers.Dense(4, activation="softmax")(embedding()(t)))


def classifier_head():
    t = tokens()
    x = layers.LSTM(3, return_sequences=True)(embedding()(t))
    return model(t, layers.Softmax()(layers.Dense(3)(layers.Flatten()(x))))


def last_step():
    t = tokens()
    x = layers.LSTM(3, return_sequences=True)(embedding()(t))
    return model(t, layers.BatchNormalization()(layers.Dense(3)(x[:, -1])))


def unmasked_text():
    t = tokens()
    x = layers.Conv1D(3, 2)(embedding(mask_zero=False)(t))
    return model(t, layers.LSTM(2)(x))


def multilayer_perceptron():
    s = keras.Input((4,), name="features")
    return model(s, layers.Dense(2)(layers.BatchNormalization()(layers.Dense(3)(s))))


def constant_first():
    t = tokens()
    x = ops.add(np.ones((1, 5, 3), "float32"), embedding(mask_zero=False)(t))
    return model(t, layers.LSTM(2)(x))


CLEAN = [
    constant_first,
    lstm_stack,
    masking_gru,
    bidirectional,
    bidirectional_apart,
    time_distributed,
    attention,
    attention_value_only,
    transformer,
    cross_attention,
    state_with_mask,
    encoder_decoder,
    autoencoder,
    shared_layers,
    nested,
    nested_twice,
    nested_in_nested,
    nested_with_two_inputs,
    sequential,
    sequential_in_functional,
    merged,
    concatenated,
    custom_with_mask,
    custom_that_halves,
    custom_maker,
    custom_block,
    mask_computed_for_conv,
    refined_mask,
    explicit_mask,
    masked_softmax,
    tagger,
    classifier_head,
    last_step,
    unmasked_text,
    multilayer_perceptron,
]
"""Models in which nothing is wrong."""
