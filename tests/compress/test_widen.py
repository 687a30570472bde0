"""Wider and deeper networks: the same outputs, and the new channels learn."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet.compress import deepen, widen


def data(*shape):
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def trained_like(model):
    rng = np.random.default_rng(3)
    for weight in model.weights:
        if weight.path.endswith(("gamma", "moving_variance")):
            weight.assign(rng.uniform(0.5, 1.5, weight.shape))
        elif len(weight.shape) == 1:
            weight.assign(rng.normal(size=weight.shape) * 0.1)
    return model


def residual():
    start = keras.Input((8, 8, 3), name="image")
    x = layers.Conv2D(4, 3, padding="same", name="stem")(start)
    y = layers.Conv2D(6, 3, padding="same", use_bias=False, name="wide")(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.DepthwiseConv2D(3, padding="same")(y)
    x = layers.Add()([x, layers.Conv2D(4, 1, name="back")(y)])
    x = layers.GlobalAveragePooling2D()(x)
    return trained_like(keras.Model(start, layers.Dense(3, name="head")(x))), data(4, 8, 8, 3)


def transformer():
    start = keras.Input((5, 8))
    x = layers.Dense(8, name="embed")(start)
    y = layers.LayerNormalization()(x)
    x = layers.Add()([x, layers.MultiHeadAttention(2, 4, name="mha")(y, y)])
    y = layers.Dense(12, activation="gelu", name="up")(layers.LayerNormalization()(x))
    x = layers.LayerNormalization()(layers.Add()([x, layers.Dense(8, name="down")(y)]))
    return trained_like(keras.Model(start, layers.Dense(2, name="head")(x))), data(4, 5, 8)


def recurrent():
    start = keras.Input((6, 4))
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True), name="both")(start)
    x = layers.GRU(4, name="gru")(x)
    return trained_like(keras.Model(start, layers.Dense(2, name="head")(x))), data(4, 6, 4)


def nested():
    start = keras.Input((6,))
    inner = keras.Sequential([keras.Input((6,)), layers.Dense(5, name="in"), layers.ReLU()])
    inner.name = "inner"
    shared = layers.Dense(4, name="shared")
    x = layers.Add()([shared(inner(start)), shared(inner(start))])
    return keras.Model(start, layers.Dense(2, name="head")(x)), data(4, 6)


def tied():
    start = keras.Input((6,))
    shared = layers.Dense(4, name="shared")
    x = shared(shared(layers.Dense(4, name="first")(start)))
    return keras.Model(start, layers.Dense(2, name="head")(x)), data(4, 6)


CASES = [
    *(
        (residual, at, size, how)
        for how in ("zeros", "copies")
        for at, size in (("stem", 7), ("wide", 9))
    ),
    (transformer, "up", 17, "zeros"),
    (transformer, "up", 17, "copies"),
    (transformer, "embed", 16, "copies"),
    (transformer, "mha:heads", 3, "zeros"),
    (transformer, "mha:heads", 3, "copies"),
    (recurrent, "both", 5, "zeros"),
    (recurrent, "gru", 7, "zeros"),
    (recurrent, "gru", 7, "copies"),
    (nested, "inner/in", 8, "zeros"),
    (nested, "inner/in", 8, "copies"),
    (nested, "shared", 6, "copies"),
    (tied, "shared", 6, "zeros"),
]


def difference(first, second, x):
    one, other = (ops.convert_to_numpy(model(x)) for model in (first, second))
    return np.abs(one - other).max() / np.abs(one).max()


def assert_learns(model, x):
    """Every weight moves, every new channel included."""
    before = [ops.convert_to_numpy(weight).copy() for weight in model.trainable_weights]
    model.compile("sgd", "mse")
    model.fit(x, data(*model(x).shape), epochs=2, verbose=0)
    for weight, old in zip(model.trainable_weights, before, strict=True):
        # The bias of keys does not matter to a softmax, and hardly moves.
        assert (ops.convert_to_numpy(weight) != old).any(), weight.path


@pytest.mark.sampled
@pytest.mark.parametrize(("make", "at", "size", "how"), CASES)
def test_a_wider_model_computes_the_same_and_learns(make, at, size, how):
    model, x = make()
    graph = widen(model, at, size, method=how)
    assert graph.journal[-1].promise == "equal"
    assert f"→ {size} channels, {how} [equal]" in str(graph.journal)
    wide = graph.build()
    assert size in [group.size for group in ramet.compress.groups(wide)]
    assert difference(model, wide, x) < 1e-5
    assert wide.count_params() > model.count_params()
    assert_learns(wide, x)


def test_new_channels_that_are_read_with_zeros_learn(tmp_path):
    model, x = residual()
    wide = widen(model, "wide", 9).build()
    kernel = ops.convert_to_numpy(wide.get_layer("back").kernel)
    assert (kernel[:, :, 6:] == 0).all()
    assert (kernel[:, :, :6] == ops.convert_to_numpy(model.get_layer("back").kernel)).all()
    wide.compile("sgd", "mse")
    wide.fit(x, data(4, 3), epochs=2, verbose=0)
    after = ops.convert_to_numpy(wide.get_layer("back").kernel)
    assert (np.abs(after[:, :, 6:]).max(axis=(0, 1, 3)) > 0).all()
    wide.save(tmp_path / "wide.keras")
    again = keras.models.load_model(tmp_path / "wide.keras")
    assert difference(wide, again, x) == 0


def test_copies_are_read_in_unequal_parts():
    model, _ = residual()
    wide = widen(model, "wide", 12, method="copies").build()
    old = ops.convert_to_numpy(model.get_layer("back").kernel)
    new = ops.convert_to_numpy(wide.get_layer("back").kernel)
    assert np.allclose(new[:, :, :6] + new[:, :, 6:], old, atol=1e-7)
    assert not np.allclose(new[:, :, :6], new[:, :, 6:])


def softmaxed():
    start = keras.Input((4,))
    x = layers.Softmax(name="mix")(layers.Dense(5, name="scores")(start))
    return keras.Model(start, layers.Dense(2, name="head")(x))


REFUSED = [
    (lambda: widen(residual()[0], "head", 9), r"'head' cannot be widened: it reaches the output"),
    (lambda: widen(residual()[0], "stem", 4), r"has 4 channels, and would have 4; pass a larger"),
    (lambda: widen(residual()[0], "stem", "9"), r"size must be a number of channels, got '9'"),
    (
        lambda: widen(residual()[0], "stim", 9),
        r"no layer 'stim' makes channels; did you mean 'stem'",
    ),
    (
        lambda: widen(transformer()[0], "embed", 9, method="copies"),
        r"statistics of all channels; pass method='averages'",
    ),
    (lambda: widen(softmaxed(), "scores", 9), r"goes over all channels; widen another group"),
    (lambda: widen(residual()[0], "stem", 9, method="no"), r"unknown method='no'"),
    (lambda: deepen(residual()[0], "stem", []), r"no layers to add; pass a layer or a list"),
    (lambda: deepen(residual()[0], "stem", 3), r"must be a layer or a list of layers, but has 3"),
    (lambda: deepen(residual()[0], "stem", layers.ReLU()), r"got ReLU; end with a Dense layer"),
    (lambda: deepen(residual()[0], "re_lu"), r"no layer|for which there is no identity"),
    (
        lambda: deepen(residual()[0], "stem", layers.Conv2D(4, 1, activation="sigmoid")),
        r"the last new layer '\w+' has the activation sigmoid",
    ),
    (lambda: deepen(transformer()[0], "up"), r"Dense with gelu, for which there is no identity"),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refusals_say_why(call, message):
    with pytest.raises(ramet.RametError, match=message):
        call()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("make", "at", "new"),
    [
        (residual, "stem", None),
        (residual, "back", lambda: [layers.Conv2D(8, 3, padding="same"), layers.Conv2D(4, 1)]),
        (transformer, "embed", lambda: [layers.LayerNormalization(), layers.Dense(8)]),
        (nested, "inner/in", None),
        (nested, "shared", lambda: layers.Dense(4)),
    ],
)
def test_a_deeper_model_computes_the_same_and_learns(make, at, new, tmp_path):
    model, x = make()
    if at == "shared":
        at = "shared#2"
    graph = deepen(model, at, None if new is None else new())
    assert str(graph.journal).startswith(f"1. deepen '{at}' by ")
    assert graph.journal[-1].promise == "equal"
    deep = graph.build()
    assert difference(model, deep, x) < 1e-6
    assert_learns(deep, x)
    deep.save(tmp_path / "deep.keras")
    assert difference(deep, keras.models.load_model(tmp_path / "deep.keras"), x) < 1e-6


@pytest.mark.parametrize("how", ["zeros", "copies"])
@pytest.mark.parametrize(("at", "size"), [("g:width", 4), ("g:input:width", 4)])
@pytest.mark.sampled
def test_groups_of_a_convolution_get_wider(at, size, how):
    start = keras.Input((6, 6, 3))
    x = layers.Conv2D(8, 3, name="c")(start)
    x = layers.Flatten()(layers.Conv2D(8, 3, groups=4, name="g")(x))
    model = keras.Model(start, layers.Dense(2)(x))
    wide = widen(model, at, size, method=how).build()
    assert wide.count_params() > model.count_params()
    assert difference(model, wide, data(2, 6, 6, 3)) < 1e-5


@pytest.mark.sampled
def test_stacked_cells_get_wider_each_time_that_the_graph_is_built():
    start = keras.Input((5, 4))
    x = layers.RNN([layers.LSTMCell(4), layers.GRUCell(3)], name="rnn")(start)
    model = keras.Model(start, layers.Dense(2)(x))
    graph = widen(widen(model, "rnn", 6), "rnn#2", 5)
    for wide in (graph.build(), graph.build()):
        assert [cell.units for cell in wide.get_layer("rnn").cell.cells] == [6, 5]
        assert difference(model, wide, data(2, 5, 4)) < 1e-5


def shared_twice():
    image = keras.Input((8, 8, 3))
    conv = layers.Conv2D(4, (4, 2), activation="relu", name="conv")
    x = layers.Add()([conv(image), conv(ops.flip(image, axis=1))])
    x = layers.GlobalAveragePooling2D()(x)
    return trained_like(keras.Model(image, layers.Dense(2)(x))), data(2, 8, 8, 3)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("make", "edits"),
    [
        (shared_twice, [lambda graph: deepen(graph, "conv#2")]),
        (transformer, [lambda graph: deepen(graph, "embed"), lambda g: widen(g, "embed", 11)]),
        (
            transformer,
            [
                lambda graph: widen(graph, "embed", 11),
                lambda graph: deepen(
                    graph, "embed", [layers.Dense(5, name="new"), layers.Dense(11)]
                ),
                lambda graph: widen(graph, "new", 9),
                lambda graph: widen(graph, "mha:key_dim", 6),
                lambda graph: widen(graph, "up", 36, method="copies"),
            ],
        ),
        (
            residual,
            [
                ramet.compress.fold,
                lambda graph: widen(graph, "stem", 7),
                lambda graph: widen(graph, "wide", 9),
                lambda graph: ramet.compress.prune_channels(graph, {"stem": [4, 5, 6]}),
            ],
        ),
    ],
)
def test_networks_grow_before_and_after_other_edits(make, edits):
    model, x = make()
    graph = ramet.trace(model)
    for edit in edits:
        graph = edit(graph)
    assert difference(model, graph.build(), x) < 1e-5
