"""Widening through layers that compute statistics of all channels, and through attention."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet.compress import widen

pytestmark = pytest.mark.sampled


def data(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def tokens(*shape):
    return np.random.default_rng(0).integers(0, 9, shape)


def trained_like(model):
    rng = np.random.default_rng(3)
    for weight in model.weights:
        if weight.path.endswith(("gamma", "scale", "moving_variance")):
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
        elif len(weight.shape) == 1 and "seed" not in weight.path:
            weight.assign(rng.normal(size=weight.shape) * 0.3)
        elif len(weight.shape) > 1:
            weight.assign(rng.normal(size=weight.shape) / np.sqrt(np.prod(weight.shape[:-1])))
    return model


def encoder(norm=layers.LayerNormalization, *, last=True):
    """A transformer with norms before each part, as ViT has them."""
    image = keras.Input((8, 8, 3))
    x = layers.Reshape((4, 12))(layers.Conv2D(12, 4, strides=4, name="embedding")(image))
    y = norm(epsilon=1e-2)(x)
    x = layers.Add()([x, layers.MultiHeadAttention(2, 4, name="mha")(y, y)])
    y = layers.Dense(20, activation="gelu", name="up")(norm()(x))
    x = layers.Add()([x, layers.Dense(12, name="down")(y)])
    x = layers.Flatten()(norm()(x) if last else x)
    return trained_like(keras.Model(image, layers.Dense(3, name="head")(x))), data(3, 8, 8, 3)


def rms_encoder():
    return encoder(layers.RMSNormalization)


def raw_encoder():
    return encoder(last=False)


def nested_blocks():
    start, inside = keras.Input((5, 6)), keras.Input((5, 8))
    y = layers.LayerNormalization()(inside)
    block = keras.Model(inside, layers.Add()([inside, layers.Dense(8)(y)]), name="block")
    x = layers.LayerNormalization()(block(block(layers.Dense(8, name="embed")(start))))
    return trained_like(keras.Model(start, layers.Dense(2)(x))), data(3, 5, 6)


def constant_positions():
    start = keras.Input((5, 6))
    x = layers.Dropout(0.5)(layers.Dense(8, name="embed")(start) + data(5, 8))
    x = layers.LayerNormalization(center=False)(x)
    return trained_like(keras.Model(start, layers.Dense(2)(x))), data(3, 5, 6)


def gated():
    start = keras.Input((5, 6))
    x = layers.Dense(8, name="embed")(start) * layers.Dense(1, activation="sigmoid")(start)
    x = layers.Dense(2)(layers.UnitNormalization()(x))
    return trained_like(keras.Model(start, x)), data(3, 5, 6)


def norm_and_relu():
    start = keras.Input((6,))
    x = layers.ReLU()(layers.LayerNormalization()(layers.Dense(8, name="embed")(start)))
    return trained_like(keras.Model(start, layers.Dense(2)(x))), data(9, 6)


def dropping():
    start = keras.Input((5, 6))
    x = layers.LSTM(4, dropout=0.2, name="lstm")(start)
    return trained_like(keras.Model(start, layers.Dense(2)(x))), data(3, 5, 6)


def averaged():
    start = keras.Input((5, 6))
    x = layers.Dense(8, name="embed")(start)
    parts = [ops.mean(x, axis=-1), layers.Flatten()(x)]
    return trained_like(keras.Model(start, layers.Dense(2)(layers.Concatenate()(parts)))), data(
        3, 5, 6
    )


def grouped_queries():
    words = keras.Input((5,), dtype="int32")
    x = layers.Embedding(9, 12, name="embed")(words)
    y = layers.RMSNormalization()(x)
    x = x + layers.GroupQueryAttention(4, 4, 2, name="gqa")(y, y)
    x = layers.Dense(2)(layers.RMSNormalization()(x))
    return trained_like(keras.Model(words, x)), tokens(3, 5)


def tied_words():
    words = keras.Input((5,), dtype="int32")
    table = layers.ReversibleEmbedding(9, 8, name="embed")
    x = table(words)
    x = x + layers.Dense(8)(layers.Dense(9, activation="gelu")(layers.LayerNormalization()(x)))
    x = table(layers.LayerNormalization()(x), reverse=True)
    return trained_like(keras.Model(words, x)), tokens(3, 5)


def after_each():
    """A transformer with norms after each part, as BERT has them."""
    start = keras.Input((5, 8))
    x = layers.LayerNormalization(name="first")(layers.Dense(8, name="embed")(start))
    x = layers.LayerNormalization(name="second")(layers.Add(name="sum")([x, layers.Dense(8)(x)]))
    return trained_like(keras.Model(start, layers.Dense(2)(x))), data(3, 5, 8)


def channel_groups():
    image = keras.Input((6, 6, 3))
    x = layers.GroupNormalization(2, name="norm")(layers.Conv2D(8, 3, name="conv")(image))
    x = layers.GlobalAveragePooling2D()(layers.Activation("gelu")(x))
    return trained_like(keras.Model(image, layers.Dense(2)(x))), data(3, 6, 6, 3)


CASES = [
    (encoder, "embedding", 16, None, "averages [equal]"),
    (encoder, "embedding", 13, None, "averages [equal]"),
    (raw_encoder, "embedding", 16, None, "averages [equal]"),
    (encoder, "embedding", 24, "copies", "copies [equal]"),
    (rms_encoder, "embedding", 16, None, "averages [equal]"),
    (nested_blocks, "embed", 11, None, "averages [equal]"),
    (constant_positions, "embed", 11, None, "averages [inference-equal]"),
    (constant_positions, "embed", 16, "copies", "copies [inference-equal]"),
    (gated, "embed", 11, None, "averages [equal]"),
    (norm_and_relu, "embed", 11, None, "averages [equal]"),
    (averaged, "embed", 11, None, "averages [equal]"),
    (dropping, "lstm", 8, "zeros", "zeros [equal]"),
    (dropping, "lstm", 8, "copies", "copies [inference-equal]"),
    (tied_words, "embed", 11, None, "averages [equal]"),
    (after_each, "embed", 16, None, "copies [equal]"),
    (channel_groups, "norm:width", 8, None, "copies [equal]"),
    (encoder, "mha:key_dim", 7, None, "zeros [equal]"),
    (encoder, "mha:key_dim", 7, "copies", "copies [equal]"),
    (encoder, "mha:heads", 3, None, "zeros [equal]"),
    (grouped_queries, "embed", 16, None, "averages [equal]"),
    (grouped_queries, "gqa:head_dim", 6, None, "zeros [equal]"),
    (grouped_queries, "gqa:head_dim", 6, "copies", "copies [equal]"),
    (grouped_queries, "gqa:heads", 3, None, "zeros [equal]"),
]


def values(model):
    return {each.path: ops.convert_to_numpy(each).copy() for each in model.trainable_weights}


def frozen_parts(before, after, sizes):
    """List the indices of grown axes that training did not move."""
    frozen = []
    for path, new in after.items():
        old = sizes[path]
        for axis in (i for i, size in enumerate(new.shape) if size != old[i]):
            others = tuple(i for i in range(new.ndim) if i != axis)
            moved = np.abs(new - before[path]).max(axis=others)
            # The bias of keys does not matter to a softmax.
            if "key/bias" not in path and (moved == 0).any():
                frozen.append((path, axis))
    return frozen


@pytest.mark.parametrize(("make", "at", "size", "method", "entry"), CASES)
def test_a_wider_model_computes_the_same_and_every_new_channel_learns(
    make, at, size, method, entry
):
    model, x = make()
    graph = widen(model, at, size, method=method)
    assert str(graph.journal).endswith(f"→ {size} channels, {entry}")
    wide = graph.build()
    expected, outputs = (ops.convert_to_numpy(each(x)) for each in (model, wide))
    assert np.abs(expected - outputs).max() < 1e-5 * np.abs(expected).max()
    before = values(wide)
    wide.compile(keras.optimizers.SGD(0.05), "mse")
    wide.fit(x, data(*outputs.shape), epochs=3, verbose=0)
    sizes = {each.path: tuple(each.shape) for each in model.weights}
    assert frozen_parts(before, values(wide), sizes) == []


def test_a_norm_sees_a_smaller_variance_and_a_smaller_epsilon(tmp_path):
    model, x = encoder()
    wide = widen(model, "embedding", 16).build()
    name = "layer_normalization"
    old, new = (next(e for e in m.layers if e.name.startswith(name)) for m in (model, wide))
    assert new.epsilon == pytest.approx(old.epsilon * 12 / 16)
    gamma = ops.convert_to_numpy(new.gamma)
    assert np.allclose(gamma[:12], ops.convert_to_numpy(old.gamma) * np.sqrt(12 / 16))
    embedded = ops.convert_to_numpy(wide.get_layer("embedding")(x))
    average = embedded[..., :12].mean(-1, keepdims=True)
    assert np.allclose(embedded[..., 12:], average, atol=1e-6)
    wide.save(tmp_path / "wide.keras")
    again = keras.models.load_model(tmp_path / "wide.keras")
    assert (ops.convert_to_numpy(again(x)) == ops.convert_to_numpy(wide(x))).all()


def test_the_proof_holds():
    model, _ = encoder()
    assert ramet.prove(widen(model, "embedding", 16)).ok


def sharing_a_norm():
    start = keras.Input((6,))
    x = layers.Concatenate()([layers.Dense(8, name="embed")(start), layers.Dense(3)(start)])
    x = layers.LayerNormalization(name="norm")(x)
    return keras.Model(start, layers.Dense(2)(x))


def activated():
    start = keras.Input((6,))
    x = layers.LayerNormalization(name="norm")(
        layers.Dense(8, activation="relu", name="embed")(start)
    )
    return keras.Model(start, layers.Dense(2)(x))


def several_axes():
    start = keras.Input((5, 6))
    x = layers.LayerNormalization(axis=(1, 2), name="norm")(layers.Dense(8, name="embed")(start))
    return keras.Model(start, layers.Dense(2)(x))


def unscaled():
    start = keras.Input((6,))
    x = layers.LayerNormalization(scale=False, name="norm")(layers.Dense(8, name="embed")(start))
    return keras.Model(start, layers.Dense(2)(x))


def rounded():
    start = keras.Input((6,))
    x = ops.cast(ops.cast(layers.Dense(8, name="embed")(start), "int32"), "float32")
    return keras.Model(start, layers.Dense(2)(layers.LayerNormalization()(x)))


MULTIPLE = r"pass method='copies' and a multiple of 8, such as 16"


@pytest.mark.parametrize(
    ("make", "method", "message"),
    [
        (sharing_a_norm, None, r"'norm' \(LayerNormalization\) normalizes other channels together"),
        (sharing_a_norm, "copies", r"computes statistics of all channels; widen another group"),
        (activated, None, rf"hold something else after the relu of 'embed' \(Dense\); {MULTIPLE}"),
        (activated, "averages", r"after the relu of 'embed'"),
        (rounded, None, rf"hold something else after 'cast\w*' \(Cast\); {MULTIPLE}"),
        (several_axes, None, rf"normalizes several axes together; {MULTIPLE}"),
        (unscaled, None, rf"has no gamma to be scaled; {MULTIPLE}"),
        (
            lambda: after_each()[0],
            None,
            r"'second' .* something else after 'sum' \(Add\), which adds zeros after 'first'",
        ),
        (lambda: tied_words()[0], "copies", r"goes over all channels; pass method='averages'"),
        (lambda: encoder()[0], "zeros", r"statistics of all channels; pass method='averages'"),
    ],
)
def test_what_would_not_be_the_same_is_refused(make, method, message):
    at = "embedding" if "embedding" in [layer.name for layer in make().layers] else "embed"
    size = 16 if method == "copies" else 11 if at == "embed" else 16
    with pytest.raises(ramet.errors.OptionError, match=message):
        widen(make(), at, size, method=method)


def test_constants_that_channels_are_divided_by_are_not_zero():
    start = keras.Input((6,))
    x = layers.Dense(4, name="embed")(start) / np.array([1.0, -2.0, 3.0, -2.0], "float32")
    model = keras.Model(start, layers.Dense(2)(x))
    wide = widen(model, "embed", 7).build()
    expected, outputs = (ops.convert_to_numpy(each(data(3, 6))) for each in (model, wide))
    assert np.abs(expected - outputs).max() < 1e-6
