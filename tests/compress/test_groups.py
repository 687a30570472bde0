"""Groups of channels: what stands or falls together, and that removing is masking."""

import json
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from masking_by_hand import apart, masked, samples, scattered
from ramet.compress import channel_rule, groups, prune_channels

pytestmark = pytest.mark.sampled


def gated() -> keras.Model:
    image = keras.Input((8, 8, 3))
    x = layers.Conv2D(8, 3, padding="same", use_bias=False, name="conv")(image)
    x = layers.ReLU()(layers.BatchNormalization(name="norm")(x))
    x = layers.Add()([x, layers.Conv2D(8, 3, padding="same", name="branch")(x)])
    gate = layers.Dense(4, activation="relu", name="squeeze")(layers.GlobalAveragePooling2D()(x))
    gate = layers.Reshape((1, 1, 8))(layers.Dense(8, activation="sigmoid", name="excite")(gate))
    x = layers.Multiply()([x, gate])
    x = layers.DepthwiseConv2D(3, depth_multiplier=2, name="depthwise")(x)
    x = layers.PReLU(shared_axes=(1, 2), name="slopes")(x)
    x = layers.Conv2D(12, 1, groups=2, name="grouped")(x)
    return keras.Model(image, layers.Dense(5, name="head")(layers.Flatten()(x)))


def shuffled() -> keras.Model:
    image = keras.Input((6, 6, 3))
    x = layers.Conv2D(12, 3, padding="same", name="conv")(image)
    x = layers.Permute((1, 2, 4, 3))(layers.Reshape((6, 6, 3, 4))(x))
    x = layers.Conv2D(16, 1, groups=4, name="grouped")(layers.Reshape((6, 6, 12))(x))
    x = layers.Permute((1, 3, 2, 4, 5))(layers.Reshape((6, 6, 2, 2, 4))(x))
    return keras.Model(image, layers.Conv2D(2, 3, name="head")(layers.Reshape((12, 12, 4))(x)))


def normalized() -> keras.Model:
    image = keras.Input((8, 8, 3))
    x = layers.Conv2D(8, 3, name="first")(image)
    x = layers.GroupNormalization(4, name="by_groups")(x)
    x = layers.GroupNormalization(-1, name="each")(layers.Conv2D(8, 3, name="second")(x))
    x = layers.SeparableConv2D(6, 3, depth_multiplier=2, name="separable")(x)
    x = layers.Conv2DTranspose(8, 3, strides=2, name="transposed")(x)
    x = layers.Softmax()(layers.Conv2D(6, 1, name="mixed")(x))
    x = layers.Conv2D(6, 1, activation="softplus", name="lifted")(x)
    x = layers.GlobalMaxPooling2D()(layers.Conv2D(6, 1, name="last")(x))
    return keras.Model(image, layers.Dense(2, name="head")(x))


def recurrent() -> keras.Model:
    tokens = keras.Input((5,), dtype="int32")
    x = layers.Embedding(9, 8, mask_zero=True, name="embedding")(tokens)
    x = layers.Bidirectional(layers.LSTM(6, return_sequences=True), name="both")(x)
    x = layers.GRU(6, return_sequences=True, name="gru")(x)
    cells = [layers.LSTMCell(4), layers.SimpleRNNCell(4)]
    x = layers.RNN(cells, return_sequences=True, name="cells")(x)
    x = layers.TimeDistributed(layers.Dense(6, activation="relu"), name="steps")(x)
    return keras.Model(tokens, layers.Dense(3, name="head")(x))


def attentive() -> keras.Model:
    steps = keras.Input((5, 7))
    x = layers.Dense(8, name="stem")(steps)
    x = layers.Add()([x, layers.MultiHeadAttention(4, 6, name="many")(x, x)])
    x = layers.Add()([x, layers.GroupQueryAttention(4, 6, 3, name="grouped")(x, x)])
    y = layers.Dense(16, activation="gelu", name="up")(layers.LayerNormalization(name="norm")(x))
    x = layers.Add()([x, layers.Dense(8, name="down")(y)])
    return keras.Model(steps, layers.Dense(3, name="head")(x))


def by_hand() -> keras.Model:
    """Attention of two heads, slices and splits, written with operations."""
    steps = keras.Input((4, 6))
    x = layers.Dense(16, name="dense")(steps)
    heads = ops.transpose(ops.reshape(x, (-1, 4, 2, 8)), (0, 2, 1, 3))
    scores = ops.softmax(ops.matmul(heads, ops.transpose(heads, (0, 1, 3, 2))) * 0.5)
    mixed = ops.reshape(ops.transpose(ops.matmul(scores, heads), (0, 2, 1, 3)), (-1, 4, 16))
    y = layers.Dense(10, name="other")(mixed)
    first, second = ops.split(y, [4], axis=-1)
    return keras.Model(steps, [layers.Dense(2)(t) for t in (y[..., 2:7], y[:, 0], first, second)])


def nested() -> keras.Model:
    seen = keras.Input((8,))
    inner = keras.Model(seen, layers.Dense(6, activation="relu", name="inside")(seen), name="inner")
    first, second = keras.Input((5,)), keras.Input((5,))
    tower = layers.Dense(8, name="tower")
    both = layers.Concatenate()([inner(tower(first)), inner(tower(second))])
    return keras.Model([first, second], layers.Dense(2, name="head")(both))


def tied() -> keras.Model:
    tokens = keras.Input((5,), dtype="int32")
    words = layers.ReversibleEmbedding(9, 8, name="words")
    x = words(tokens)
    x = x + layers.Dense(8, name="down")(layers.Dense(6, activation="silu", name="up")(x))
    return keras.Model(tokens, words(x, reverse=True))


def spatial() -> keras.Model:
    video = keras.Input((3, 6, 6, 2))
    x = layers.BatchNormalization()(layers.ConvLSTM2D(4, 3, name="film")(video))
    x = layers.Concatenate()([layers.UpSampling2D()(layers.MaxPooling2D()(x)), x])
    x = layers.Dense(4 * 4 * 6, name="wide")(layers.Flatten()(x))
    x = layers.Conv2DTranspose(4, 3, name="up")(layers.Reshape((4, 4, 6))(x))
    return keras.Model(video, layers.Conv2D(1, 3, name="head")(x))


def mixing() -> keras.Model:
    """Constants, a second axis of channels, and layers that Keras requires to be of one width."""
    image = keras.Input((8, 8, 3))
    x = layers.Reshape((4, 12))(layers.Conv2D(12, 4, strides=4, name="patches")(image))
    x = x * np.arange(1, 13, dtype="float32")
    y = layers.Permute((2, 1))(layers.Dense(10, name="wide")(x))
    y = layers.Permute((2, 1))(layers.Dense(4, use_bias=False, name="across")(y))
    y = layers.Dense(12, name="narrow")(y)
    x = layers.GroupQueryAttention(4, 4, 2, name="attention")(x, y)
    x = x + np.ones((1, 4, 12), "float32")
    return keras.Model(image, layers.Dense(2, name="head")(x))


def decoding() -> keras.Model:
    steps = keras.Input((6, 8))
    seen, h, c = layers.LSTM(5, return_sequences=True, return_state=True, name="encoder")(steps)
    x = layers.LSTM(5, return_sequences=True, name="decoder")(steps, initial_state=[h, c])
    x = layers.Concatenate()(
        [x, layers.Attention()([x, seen]), layers.AdditiveAttention()([x, seen])]
    )
    scores = layers.Dot(axes=(2, 2))([layers.Dense(4, name="a")(x), layers.Dense(4, name="b")(x)])
    e = layers.EinsumDense("abc,cde->abde", (None, 4, 3), bias_axes="de", name="heads")(x)
    e = layers.EinsumDense("abde,def->abf", (None, 2), bias_axes="f", name="joined")(e)
    return keras.Model(steps, [layers.Dense(2)(scores), e])


MODELS: dict[str, tuple[Callable[[], keras.Model], dict[str, str]]] = {
    "gated": (gated, {"squeeze": "exact", "grouped:width": "exact"}),
    "shuffled": (shuffled, {}),
    "normalized": (
        normalized,
        {
            "by_groups:blocks": "exact",
            "by_groups:width": "lossy",
            "second": "exact",
            "separable": "exact",
            "transposed": "exact",
            "mixed": "lossy",
            "lifted": "lossy",
            "last": "exact",
        },
    ),
    "recurrent": (
        recurrent,
        dict.fromkeys(["embedding", "both", "gru", "cells", "cells#2", "steps"], "exact"),
    ),
    "attentive": (
        attentive,
        {
            "stem": "lossy",
            "many:heads": "exact",
            "many:key_dim": "lossy",
            "grouped:heads": "exact",
            "grouped:repeats": "lossy",
            "up": "exact",
        },
    ),
    "by_hand": (by_hand, {"other": "exact"}),
    "nested": (nested, {"tower": "exact", "inner/inside": "exact"}),
    "tied": (tied, {"words": "exact", "up": "exact"}),
    "spatial": (spatial, {"film": "exact", "up": "exact"}),
    "mixing": (mixing, {"patches": "lossy", "wide": "exact", "attention:heads": "exact"}),
    "decoding": (decoding, {"encoder": "exact", "a": "exact", "heads:d": "exact"}),
}


@pytest.mark.parametrize("name", MODELS)
def test_removing_channels_of_exact_groups_is_masking_them(name: str) -> None:
    make, states = MODELS[name]
    model = scattered(make())
    listing = groups(model)
    known = {group.name: group.state for group in listing}
    assert {key: known.get(key) for key in states} == states
    free = [group for group in listing.free if group.exact and group.size > 1]
    removed = {group.name: [*range(0, group.size - 1, 2)] for group in free}
    assert removed
    pruned = prune_channels(model, removed).build()
    data = samples(model)
    assert apart(pruned, masked(model, listing, removed), data) < 1e-5
    assert apart(pruned, model, data) > 1e-4
    assert pruned.count_params() < model.count_params()
    for group in listing.free:
        if not group.exact:
            removed = {group.name: [0]}
            pruned = prune_channels(model, removed).build()
            assert apart(pruned, masked(model, listing, removed), data) > 1e-6


def test_a_group_says_where_its_channels_are() -> None:
    x = keras.Input((4, 4, 3))
    a, b = (layers.Conv2D(n, 1, name=name)(x) for n, name in ((2, "a"), (3, "b")))
    y = layers.Flatten()(layers.Concatenate()([a, b]))
    listing = groups(keras.Model(x, layers.Dense(1, name="head")(y)))
    kernel, bias, read = listing["b"].members
    assert (kernel.variable, kernel.axis, kernel.kind) == ("kernel", 3, "made")
    assert (bias.variable, bias.indices) == ("bias", ((0,), (1,), (2,)))
    assert (read.layer, read.axis, read.kind) == ("head", 0, "read")
    assert read.indices[1] == tuple(range(3, 80, 5))
    assert listing["head"].locked == ("it reaches the output 'head' of the model",)
    assert json.loads(json.dumps(listing.to_dict()))["groups"][0]["name"] == "a"
    assert "3 groups, 2 free, 2 of them exact" in str(listing)
    assert repr(listing["b"]) == "<Group 'b': 3 channels, exact>"


def test_layers_without_a_rule_stay_with_their_neighbors() -> None:
    class Sums(layers.Layer):
        def call(self, x: Any) -> Any:
            return ops.cumsum(x, axis=-1)

    class Odd(layers.Dense):
        def call(self, inputs: Any) -> Any:
            return super().call(inputs[..., ::-1])

    x = keras.Input((4,))
    y = Sums(name="sums")(layers.Dense(4, name="a")(x))
    y = layers.Dense(4, name="c")(Odd(4, name="odd")(layers.Dense(4, name="b")(y)))
    listing = groups(keras.Model(x, layers.Dense(4, name="head")(y)))
    assert [group.name for group in listing.free] == ["c"]
    (reason,) = listing["a"].locked
    assert reason.startswith("how channels flow through 'sums' (Sums) is not known (ramet.")
    assert "'odd' (Odd)" in listing["b"].locked[0]


def test_a_layer_whose_rule_gives_up_stays() -> None:
    x = keras.Input((4,))
    y = layers.Dense(6, activation=lambda t: t + 1, name="odd")(layers.Dense(4, name="a")(x))
    listing = groups(keras.Model(x, layers.Dense(2, name="head")(layers.Dense(4, name="b")(y))))
    assert [group.name for group in listing.free] == ["b"]
    assert listing["odd"].locked == ("how channels flow through 'odd' (Dense) is not known",)


def test_a_bias_does_not_keep_zeros_along_another_axis() -> None:
    steps = keras.Input((4, 6))
    x = layers.Permute((2, 1))(layers.Dense(8, name="dense")(steps))
    x = layers.Permute((2, 1))(layers.Dense(5, name="across")(x))
    listing = groups(keras.Model(steps, layers.Dense(2, name="head")(x)))
    assert "a channel is not zero after 'across' (Dense)" in listing["dense"].lossy[0]


def test_a_rule_for_a_class_of_a_user() -> None:
    class Scale(layers.Layer):
        def build(self, input_shape: Any) -> None:
            self.scale = self.add_weight(shape=(input_shape[-1],), name="scale")

        def call(self, x: Any) -> Any:
            return x * self.scale

    x = keras.Input((4,))
    y = Scale(name="scale")(layers.Dense(6, name="dense")(x))
    model = scattered(keras.Model(x, layers.Dense(2)(y)))
    assert not groups(model)["dense"].free

    @channel_rule(Scale)
    def _(site: Any) -> Any:
        seen = site.tensor()
        site.weight("scale", (seen[-1], "carried"))
        return [seen]

    listing = groups(model)
    assert listing["dense"].exact
    pruned = prune_channels(model, {"dense": [0, 4]}).build()
    data = samples(model)
    assert apart(pruned, masked(model, listing, {"dense": [0, 4]}), data) < 1e-5
    with pytest.raises(ramet.errors.OptionError, match="Dense is a class of Keras"):
        channel_rule(layers.Dense)
    with pytest.raises(ramet.errors.OptionError, match="kind must be a class of layers, got 3"):
        channel_rule(3)  # type: ignore[arg-type] the point of the test


def test_what_cannot_be_removed_is_an_error_before_anything_is_built() -> None:
    model = attentive()
    for channels, message in (
        ({"head": [0]}, "channels of 'head' cannot be removed: it reaches the output 'head'"),
        ({"many:heads": [4]}, "'many:heads' has no channel 4; it has 4, from 0"),
        ({"many:heads": range(4)}, "all 4 channels of group 'many:heads' would be removed; leave"),
        ({"norm": [0]}, "layer 'norm' makes no channels of its own; name the .*: 'stem'"),
        ({"grouped": [0.5]}, "must be a list of indices, but has 0.5"),
        ({"stem": 3}, r"channels\['stem'\] must be a list of indices, got 3"),
        ({"stm": [0]}, "no layer 'stm' .* makes channels; did you mean 'stem'"),
        ([1], "channels must be a dict of lists of indices"),
    ):
        with pytest.raises(ramet.errors.OptionError, match=message):
            prune_channels(model, channels)  # type: ignore[arg-type] the point of the test
    with pytest.raises(ramet.errors.OptionError, match="has no group of channels 'stm'; did you"):
        groups(model)["stm"]
    with pytest.raises(ramet.errors.OptionError, match="channel 0 of 'conv' can only be"):
        prune_channels(shuffled(), {"conv": [0]})


def test_slots_state_and_sharing_follow_and_the_result_is_plain(tmp_path: Any) -> None:
    model = gated()
    model.compile(keras.optimizers.Adam(name="adam"), "mse")
    data, target = samples(model), np.zeros((2, 5), "float32")
    model.fit(data, target, verbose=0)
    graph = prune_channels(model, {"squeeze": [1], "grouped": [0, 6, 5, 11]})
    assert str(graph.journal).startswith("1. prune 3 channels of 2 groups [changed]")
    report = graph.transfer_report()
    assert not report.of("fresh")
    assert "moved with their variables" in report.optimizer
    pruned = graph.build()
    pruned.fit(data, target, verbose=0)
    assert ramet.verify(ramet.clone(pruned), pruned).ok
    pruned.save(tmp_path / "pruned.keras")
    loaded = keras.models.load_model(tmp_path / "pruned.keras")
    assert apart(loaded, pruned, data) == 0


def test_graphs_that_are_edited_already() -> None:
    model = scattered(gated())
    once = prune_channels(model, {"squeeze": [1]}).configure("excite", activation="tanh")
    twice = prune_channels(once, {"squeeze": [0], "grouped:width": [2]})
    built = prune_channels(once.build(), {"squeeze": [0], "grouped:width": [2]})
    assert apart(twice.build(), built.build(), samples(model)) == 0
    assert twice.build().get_layer("squeeze").units == 2
