"""Weights that grow: by the meaning of an axis, shown by the numbers that come out.

All weights of the models here start at zero and are then set at random. What an edit adds
is zero again. So a grown model has to compute what the old one does, to the last bit but
for the order of sums, unless a weight went to a wrong place.
"""

import keras
import numpy as np
import pytest
from keras import layers

import ramet

pytestmark = pytest.mark.sampled

ZERO = {"kernel_initializer": "zeros", "bias_initializer": "zeros"}
CELL = {**ZERO, "recurrent_initializer": "zeros"}


def array(value):
    return keras.ops.convert_to_numpy(value)


def scrambled(model, seed=3):
    """Sets all weights at random; variances stay positive."""
    random = np.random.default_rng(seed)
    for variable in model.weights:
        value = random.normal(size=variable.shape)
        positive = "variance" in variable.path
        variable.assign((np.abs(value) + 0.5 if positive else value).astype("float32"))
    return model


def computes_the_same(model, graph, *, units=None, data=None, pad=None):
    """Checks that the grown model gives what the old one gives, on the part both have."""
    edited = graph.build()
    if data is None:
        data = np.random.default_rng(0).normal(size=(2, *model.inputs[0].shape[1:]))
        data = data.astype("float32")
    given = data
    if pad is not None:
        given = np.pad(data, pad)
    expected, found = array(model(data)), array(edited(given))
    np.testing.assert_allclose(found[..., :units], expected, atol=2e-5, rtol=1e-6)
    return edited


def chain(shape, *made, dtype="float32"):
    start = x = keras.Input(shape, dtype=dtype, name="start")
    for layer in made:
        x = layer(x)
    return scrambled(keras.Model(start, x))


def dense(units=3, name="head"):
    return layers.Dense(units, name=name, **ZERO)


# --- gates ---

RECURRENT = {
    "lstm": lambda units: layers.LSTM(units, unit_forget_bias=False, name="rnn", **CELL),
    "gru": lambda units: layers.GRU(units, name="rnn", **CELL),
    "gru before": lambda units: layers.GRU(units, reset_after=False, name="rnn", **CELL),
    "simple": lambda units: layers.SimpleRNN(units, name="rnn", **CELL),
}


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_recurrent_layer_gets_more_units(kind):
    model = chain((5, 3), RECURRENT[kind](4))
    graph = ramet.trace(model).configure("rnn", units=6, weights="grow")
    computes_the_same(model, graph, units=4)


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_recurrent_layer_reads_more(kind):
    model = chain((5, 3), RECURRENT[kind](4), dense())
    graph = ramet.trace(model).with_inputs(shape=(5, 4)).configure("rnn", units=5, weights="grow")
    graph = graph.configure("head", weights="grow")
    computes_the_same(model, graph, pad=((0, 0), (0, 0), (0, 1)))


def test_a_recurrent_layer_loses_units():
    model = chain((5, 3), RECURRENT["lstm"](4))
    edited = ramet.trace(model).configure("rnn", units=2, weights="grow").build()
    old, new = (array(m.get_layer("rnn").cell.kernel) for m in (model, edited))
    assert np.array_equal(new.reshape(3, 4, 2), old.reshape(3, 4, 4)[:, :, :2])


def test_gates_are_repeated_one_by_one():
    model = chain((5, 3), RECURRENT["lstm"](2))
    edited = ramet.trace(model).configure("rnn", units=4, weights="tile").build()
    old, new = (array(m.get_layer("rnn").cell.bias).reshape(4, -1) for m in (model, edited))
    assert np.array_equal(new, np.tile(old, 2))


@pytest.mark.parametrize("mode", ["concat", "sum", None])
def test_both_directions_grow(mode):
    start = keras.Input((5, 3), name="start")
    both = layers.Bidirectional(RECURRENT["lstm"](4), merge_mode=mode, name="both")(start)
    if mode is None:
        both = layers.Concatenate(name="join")(both)
    model = scrambled(keras.Model(start, dense()(both)))
    graph = ramet.trace(model).replace(
        "both",
        layers.Bidirectional(RECURRENT["lstm"](6), merge_mode=mode, name="wider"),
        weights="grow",
    )
    computes_the_same(model, graph.configure("head", weights="grow"))


def test_cells_on_top_of_each_other_grow():
    def stack(*units):
        cells = [layers.LSTMCell(n, unit_forget_bias=False, **CELL) for n in units]
        return layers.RNN(layers.StackedRNNCells(cells), name="stack")

    model = chain((5, 3), stack(4, 2), dense())
    graph = ramet.trace(model).replace("stack", stack(5, 4), weights="grow")
    computes_the_same(model, graph.configure("head", weights="grow"))


def test_a_recurrent_convolution_grows():
    made = layers.ConvLSTM2D(
        2, 3, padding="same", unit_forget_bias=False, name="rnn", return_sequences=True, **CELL
    )
    model = chain((3, 6, 6, 2), made)
    graph = ramet.trace(model).configure("rnn", filters=3, kernel_size=5, weights="grow")
    computes_the_same(model, graph, units=2)


# --- convolutions ---

PICTURE = {"padding": "same", **ZERO}


def test_filters_before_flattening_grow():
    model = chain(
        (6, 6, 2), layers.Conv2D(3, 3, name="conv", **ZERO), layers.Flatten(name="flat"), dense()
    )
    graph = ramet.trace(model).configure("conv", filters=5, weights="grow")
    computes_the_same(model, graph.configure("head", weights="grow"))


def test_a_larger_picture_before_flattening():
    model = chain((4, 5, 2), layers.Flatten(name="flat"), dense())
    graph = ramet.trace(model).with_inputs(shape=(6, 7, 3)).configure("head", weights="grow")
    computes_the_same(model, graph, pad=((0, 0), (0, 2), (0, 2), (0, 1)))


def test_channels_first_before_flattening():
    first = {"data_format": "channels_first"}
    model = chain((2, 4, 5), layers.Flatten(name="flat", **first), dense())
    graph = ramet.trace(model).with_inputs(shape=(3, 4, 6)).configure("head", weights="grow")
    computes_the_same(model, graph, pad=((0, 0), (0, 1), (0, 0), (0, 1)))


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_a_larger_kernel_reads_the_same_places(padding):
    model = chain((9, 9, 2), layers.Conv2D(3, 3, padding=padding, name="conv", **ZERO))
    graph = ramet.trace(model).configure("conv", kernel_size=5, weights="grow")
    edited, data = graph.build(), np.ones((1, 9, 9, 2), "float32")
    size = 9 if padding == "same" else 5
    expected = array(model(data))[:, :size, :size]
    np.testing.assert_allclose(array(edited(data)), expected, atol=1e-5)


@pytest.mark.parametrize(("size", "strides"), [(4, 1), (5, 2), (2, 1)])
def test_a_kernel_of_another_size_with_padding(size, strides):
    model = chain((8, 2), layers.Conv1D(3, 3, strides=strides, name="conv", **PICTURE))
    if size == 2:  # cut: the last tap goes away
        kernel = array(model.get_layer("conv").kernel).copy()
        kernel[0] = 0
        model.get_layer("conv").kernel.assign(kernel)
    graph = ramet.trace(model).configure("conv", kernel_size=size, weights="grow")
    computes_the_same(model, graph)


def test_a_causal_kernel_grows_into_the_past():
    model = chain((8, 2), layers.Conv1D(3, 3, padding="causal", name="conv", **ZERO))
    computes_the_same(model, ramet.trace(model).configure("conv", kernel_size=4, weights="grow"))


def test_a_kernel_whose_padding_is_unclear_is_refused():
    model = chain((8, 2), layers.Conv1D(3, 3, strides=2, name="conv", **PICTURE))
    graph = ramet.trace(model).configure("conv", kernel_size=4, weights="grow")
    with pytest.raises(ramet.StateError, match=r"'conv' \(Conv1D\).*axis 0 of its kernel.*'fit'"):
        graph.build()


DEPTH = {
    "kernel": {"depthwise_initializer": "zeros", "bias_initializer": "zeros"},
    "both": {
        "depthwise_initializer": "zeros",
        "pointwise_initializer": "zeros",
        "bias_initializer": "zeros",
    },
}


def test_a_depthwise_convolution_makes_more_of_each_channel():
    made = layers.DepthwiseConv2D(3, depth_multiplier=2, name="deep", **DEPTH["kernel"])
    model = chain((6, 6, 3), made, layers.Conv2D(2, 1, name="mix", **ZERO))
    graph = ramet.trace(model).configure("deep", depth_multiplier=3, weights="grow")
    computes_the_same(model, graph.configure("mix", weights="grow"))


def test_a_depthwise_convolution_reads_more_channels():
    made = layers.DepthwiseConv2D(3, depth_multiplier=2, name="deep", **DEPTH["kernel"])
    first = layers.Conv2D(3, 1, name="first", **ZERO)
    model = chain((6, 6, 3), first, made, layers.Conv2D(2, 1, name="mix", **ZERO))
    graph = ramet.trace(model).configure("first", filters=4, weights="grow")
    graph = graph.configure("deep", weights="grow").configure("mix", weights="grow")
    computes_the_same(model, graph)


def test_a_separable_convolution_grows():
    made = layers.SeparableConv2D(2, 3, depth_multiplier=2, name="sep", **DEPTH["both"])
    first = layers.Conv2D(3, 1, name="first", **ZERO)
    model = chain((6, 6, 3), first, made)
    graph = ramet.trace(model).configure("first", filters=4, weights="grow")
    graph = graph.configure("sep", depth_multiplier=3, filters=4, weights="grow")
    computes_the_same(model, graph, units=2)


def test_a_transposed_convolution_grows():
    first = layers.Conv2D(3, 1, name="first", **ZERO)
    made = layers.Conv2DTranspose(2, 3, strides=2, name="up", **ZERO)
    model = chain((4, 4, 2), first, made)
    graph = ramet.trace(model).configure("first", filters=5, weights="grow")
    computes_the_same(model, graph.configure("up", filters=4, weights="grow"), units=2)


def test_a_grouped_convolution_grows_group_by_group():
    made = layers.Conv2D(4, 3, groups=2, name="grouped", **ZERO)
    model = chain((6, 6, 4), made, layers.Conv2D(2, 1, name="mix", **ZERO))
    graph = ramet.trace(model).configure("grouped", filters=6, weights="grow")
    computes_the_same(model, graph.configure("mix", weights="grow"))


def test_groups_behind_groups():
    made = [layers.Conv2D(4, 3, groups=2, name=f"grouped{i}", **ZERO) for i in range(2)]
    model = chain((8, 8, 4), *made, layers.Conv2D(2, 1, name="mix", **ZERO))
    graph = ramet.trace(model).configure("grouped0", filters=6, weights="grow")
    graph = graph.configure("grouped1", weights="grow").configure("mix", weights="grow")
    computes_the_same(model, graph)


def test_groups_of_other_channels_are_refused():
    first = layers.Conv2D(4, 1, name="first", **ZERO)
    model = chain((6, 6, 4), first, layers.Conv2D(4, 3, groups=2, name="grouped", **ZERO))
    graph = ramet.trace(model).configure("first", filters=6, weights="grow")
    with pytest.raises(ramet.StateError, match=r"'grouped'.*axis 2.*in 2 groups"):
        graph.configure("grouped", weights="grow").build()


# --- attention ---


def attended(**options):
    start = keras.Input((4, 6), name="start")
    x = dense(6, "first")(start)
    y = layers.MultiHeadAttention(name="look", **{"num_heads": 2, "key_dim": 3, **ZERO, **options})(
        x, x
    )
    y = layers.Add(name="sum")([x, y])
    return scrambled(keras.Model(start, dense()(y)))


def test_attention_gets_more_heads_and_longer_values():
    model = attended(value_dim=2, dropout=0.1)  # without, JAX wants keys as long as values
    graph = ramet.trace(model).configure("look", num_heads=3, value_dim=4, weights="grow")
    computes_the_same(model, graph)


def test_attention_in_a_wider_residual_stream():
    model = attended()
    graph = ramet.trace(model).configure("first", units=9, weights="grow")
    graph = graph.configure("look", weights="grow").configure("head", weights="grow")
    computes_the_same(model, graph)


def test_attention_with_an_output_of_its_own():
    start = keras.Input((4, 6), name="start")
    y = layers.MultiHeadAttention(2, 3, output_shape=5, name="look", **ZERO)(start, start)
    model = scrambled(keras.Model(start, dense()(y)))
    graph = ramet.trace(model).configure("look", output_shape=7, weights="grow")
    computes_the_same(model, graph.configure("head", weights="grow"))


@pytest.mark.parametrize("heads", [(4, 4), (6, 2), (6, 3)])
def test_grouped_heads_stay_with_their_group(heads):
    start = keras.Input((4, 6), name="start")
    made = layers.GroupQueryAttention(3, 4, 2, name="look", **ZERO)
    model = scrambled(keras.Model(start, made(start, start)))
    query, few = heads
    graph = ramet.trace(model).configure(
        "look", num_query_heads=query, num_key_value_heads=few, weights="grow"
    )
    if query // few == 2 or few == 2:
        computes_the_same(model, graph)
    else:  # fewer queries per head: each keeps those that it had
        assert graph.build() is not None


def test_an_einsum_grows_axis_by_axis():
    made = layers.EinsumDense("abc,cde->abde", (None, 2, 3), bias_axes="de", name="heads", **ZERO)
    model = chain((4, 5), dense(5, "first"), made)
    graph = ramet.trace(model).configure("first", units=6, weights="grow")
    graph = graph.configure("heads", output_shape=(None, 2, 4), weights="grow")
    computes_the_same(model, graph, units=3)


# --- parts that are joined ---


def branches(*behind, join=None):
    """Two branches of which the first is to grow, joined."""
    start = keras.Input((4, 4, 2), name="start")
    a = layers.Conv2D(3, 3, name="a", **PICTURE)(start)
    b = layers.Conv2D(2, 3, name="b", **PICTURE)(start)
    x = (join or layers.Concatenate(name="join"))([a, b])
    for layer in behind:
        x = layer(x)
    return scrambled(keras.Model(start, x))


def behind(name):
    conv = layers.Conv2D(2, 3, name="head", **PICTURE)
    norm = layers.BatchNormalization(name="norm")
    return {
        "conv": [conv],
        "batch norm": [norm, conv],
        "relu": [layers.ReLU(name="relu"), layers.Dropout(0.5, name="drop"), conv],
        "prelu": [layers.PReLU(shared_axes=[1, 2], name="norm"), conv],
        "pooling": [layers.GlobalAveragePooling2D(name="pool"), dense()],
        "flat": [layers.MaxPooling2D(name="pool"), layers.Flatten(name="flat"), dense()],
        "padding": [layers.ZeroPadding2D(1, name="pad"), layers.Cropping2D(1, name="crop"), conv],
        "reshape": [layers.Reshape((16, -1), name="shape"), dense()],
        "permute": [layers.Permute((2, 1, 3), name="turn"), conv],
        "depthwise": [layers.DepthwiseConv2D(3, name="norm", **DEPTH["kernel"]), conv],
        "upsampling": [layers.UpSampling2D(name="up"), conv],
        "distributed": [layers.TimeDistributed(dense(), name="head")],
        "lstm": [layers.Reshape((16, -1), name="shape"), RECURRENT["lstm"](2)],
    }[name]


@pytest.mark.parametrize(
    "name",
    [
        "conv",
        "batch norm",
        "relu",
        "prelu",
        "pooling",
        "flat",
        "padding",
        "reshape",
        "permute",
        "depthwise",
        "upsampling",
        "distributed",
        "lstm",
    ],
)
@pytest.mark.parametrize("operation", [False, True])
def test_a_branch_grows_before_others(name, operation):
    join = (lambda tensors: keras.ops.concatenate(tensors, axis=-1)) if operation else None
    model = branches(*behind(name), join=join)
    graph = ramet.trace(model).configure("a", filters=5, weights="grow")
    for layer in ("norm", "head", "rnn"):
        if layer in graph.layers:
            graph = graph.configure(layer, weights="grow")
    computes_the_same(model, graph)


def test_a_sum_of_branches_that_grow_alike():
    model = branches(dense())
    start = keras.Input((4,), name="start")
    x = dense(5, "a")(start)
    y = dense(5, "b")(start)
    model = scrambled(keras.Model(start, dense()(layers.Add(name="sum")([x, y]))))
    graph = ramet.trace(model).configure("a", units=7, weights="grow")
    graph = graph.configure("b", units=7, weights="grow").configure("head", weights="grow")
    computes_the_same(model, graph)


def test_a_sum_of_branches_that_grow_in_different_places_is_refused():
    start = keras.Input((4,), name="start")
    joined = layers.Concatenate(name="join")([dense(2, "a")(start), dense(3, "b")(start)])
    x = layers.Add(name="sum")([joined, dense(5, "c")(start)])
    model = scrambled(keras.Model(start, dense()(x)))
    graph = ramet.trace(model).configure("a", units=4, weights="grow")
    graph = graph.configure("c", units=7, weights="grow").configure("head", weights="grow")
    with pytest.raises(ramet.StateError, match=r"'head'.*grew in different places"):
        graph.build()


def test_joined_more_than_once_and_inside_a_nested_model():
    inner_start = keras.Input((3,), name="inner_start")
    parts = [dense(2, "a")(inner_start), dense(3, "b")(inner_start)]
    inner = keras.Model(inner_start, layers.Concatenate(name="join")(parts), name="inner")
    start = keras.Input((3,), name="start")
    y = inner(start)
    z = layers.Concatenate(name="more")([dense(2, "c")(y), y, dense(2, "d")(start)])
    model = scrambled(keras.Model(start, dense()(z)))
    graph = ramet.trace(model).configure("inner/a", units=4, weights="grow")
    graph = graph.configure("c", units=3, weights="grow").configure("head", weights="grow")
    computes_the_same(model, graph)


def test_a_branch_is_added_and_another_removed():
    start = keras.Input((3,), name="start")
    parts = [dense(2, "a")(start), dense(3, "b")(start), dense(2, "c")(start)]
    model = scrambled(keras.Model(start, dense()(layers.Concatenate(name="join")(parts))))
    head = model.get_layer("head")
    kernel = array(head.kernel)
    kernel[:2] = 0  # what goes away must have said nothing
    head.kernel.assign(kernel)
    graph = ramet.trace(model).rewire("join", 0, "b").configure("head", weights="grow")
    with pytest.raises(ramet.StateError, match="more or less often"):
        graph.configure("b", units=4, weights="grow").build()


def test_a_layer_called_on_tensors_that_grew_differently_is_refused():
    start = keras.Input((3,), name="start")
    head = dense()
    first = layers.Concatenate(name="first")([dense(2, "a")(start), dense(3, "b")(start)])
    second = layers.Concatenate(name="second")([dense(3, "c")(start), dense(2, "d")(start)])
    model = scrambled(keras.Model(start, [head(first), head(second)]))
    graph = ramet.trace(model).configure("a", units=4, weights="grow")
    graph = graph.configure("d", units=4, weights="grow").configure("head", weights="grow")
    with pytest.raises(ramet.StateError, match=r"'head'.*different places"):
        graph.build()


def test_a_shuffled_channel_is_refused():
    @keras.saving.register_keras_serializable("growth")
    class Shuffle(layers.Layer):
        def call(self, x):
            return keras.ops.flip(x, -1)

    model = chain((4,), dense(5, "a"), Shuffle(name="mix"), dense())
    graph = ramet.trace(model).configure("a", units=7, weights="grow")
    with pytest.raises(ramet.StateError, match=r"axis 0 of its kernel has size 7.*'mix' \(Shuffle"):
        graph.configure("head", weights="grow").build()
    fit = graph.configure("head", weights="fit", activation="relu")
    notes = {t.path: t.note for t in fit.transfer_report().of("fresh")}
    assert notes == {"head/kernel": "was (5, 3)"}


# --- a user's own layers ---


@keras.saving.register_keras_serializable("growth")
class Scaled(layers.Layer):
    """A dense layer with a scale for each input, and one for the gates of an author."""

    def __init__(self, units, gates=1, **kwargs):
        super().__init__(**kwargs)
        self.units, self.gates = units, gates

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], self.gates * self.units), initializer="zeros")
        self.scale = self.add_weight(shape=(shape[-1],), initializer="zeros", name="scale")

    def call(self, x):
        y = keras.ops.matmul(x * self.scale, self.w)
        return keras.ops.sum(keras.ops.reshape(y, (-1, self.gates, self.units)), axis=1)

    def get_config(self):
        return {**super().get_config(), "units": self.units, "gates": self.gates}


def test_a_users_own_layer_grows_where_sizes_leave_no_doubt():
    model = chain((4,), dense(5, "a"), Scaled(3, name="own"), dense())
    graph = ramet.trace(model).configure("a", units=7, weights="grow")
    graph = graph.configure("own", units=6, weights="grow").configure("head", weights="grow")
    computes_the_same(model, graph)


@pytest.mark.parametrize("case", ["gates", "parts"])
def test_a_users_own_layer_is_refused_where_it_is_unclear(case):
    if case == "gates":
        model = chain((4,), Scaled(3, gates=2, name="own"))
        graph = ramet.trace(model).configure("own", units=5, weights="grow")
    else:
        start = keras.Input((3,), name="start")
        x = layers.Concatenate(name="join")([dense(2, "a")(start), dense(3, "b")(start)])
        model = scrambled(keras.Model(start, Scaled(3, name="own")(x)))
        graph = ramet.trace(model).configure("a", units=4, weights="grow")
        graph = graph.configure("own", weights="grow")
    with pytest.raises(ramet.StateError, match=r"'own' \(Scaled\).*axis"):
        graph.build()


# --- neighbours ---


def test_the_last_step_of_a_sequence():
    start = keras.Input((4, 3), name="start")
    x = layers.Concatenate(name="join")([dense(2, "a")(start), dense(3, "b")(start)])
    model = scrambled(keras.Model(start, dense()(x[:, -1])))
    graph = ramet.trace(model).configure("a", units=4, weights="grow")
    computes_the_same(model, graph.configure("head", weights="grow"))


def test_half_of_the_channels_is_refused():
    start = keras.Input((4, 3), name="start")
    model = scrambled(keras.Model(start, dense()(dense(4, "a")(start)[..., ::2])))
    graph = ramet.trace(model).configure("a", units=6, weights="grow")
    with pytest.raises(ramet.StateError, match=r"'head'.*axis 0"):
        graph.configure("head", weights="grow").build()


@pytest.mark.parametrize("kind", [layers.LayerNormalization, layers.RMSNormalization])
def test_a_norm_behind_parts(kind):
    start = keras.Input((3,), name="start")
    x = layers.Concatenate(name="join")([dense(2, "a")(start), dense(3, "b")(start)])
    model = scrambled(keras.Model(start, kind(name="norm")(x)))
    graph = ramet.trace(model).configure("a", units=4, weights="grow")
    edited = graph.configure("norm", weights="grow").build()
    for old, new in zip(
        model.get_layer("norm").weights, edited.get_layer("norm").weights, strict=True
    ):
        assert np.array_equal(array(new)[[0, 1, 4, 5, 6]], array(old))


def test_parts_in_another_order_are_followed():
    start = keras.Input((3,), name="start")
    x = layers.Concatenate(name="join")([dense(2, "a")(start), dense(3, "b")(start)])
    model = scrambled(keras.Model(start, dense()(x)))
    graph = ramet.trace(model).rewire("join", 0, "b").rewire("join", 1, "a")
    graph = graph.configure("head", weights="grow")
    computes_the_same(model, graph)
    assert [t.path for t in graph.transfer_report().of("moved")] == ["head/kernel"]


def test_a_layer_between_that_nobody_knows_is_refused():
    start = keras.Input((3,), name="start")
    x = layers.Concatenate(name="join")([dense(2, "a")(start), dense(3, "b")(start)])
    model = scrambled(keras.Model(start, dense()(x)))
    graph = ramet.trace(model).insert_before("head", Wide(name="wide"))
    with pytest.raises(ramet.StateError, match=r"'wide' \(Wide\)"):
        graph.configure("head", weights="grow").build()


@keras.saving.register_keras_serializable("growth")
class Wide(layers.Layer):
    def call(self, x):
        return keras.ops.concatenate([x, x], axis=-1)


def test_a_model_inside_a_wrapper_grows_inside():
    def around(width, name):
        parts = [layers.Dense(width, **ZERO), layers.ReLU(), layers.Dense(3, **ZERO)]
        return layers.TimeDistributed(keras.Sequential(parts), name=name)

    model = chain((4, 3), around(4, "old"))
    graph = ramet.trace(model).replace("old", around(6, "new"), weights="grow")
    computes_the_same(model, graph)
    assert len(graph.transfer_report().of("grown")) == 3


@pytest.mark.parametrize("layout", ["channels_first", "channels_last"])
def test_layouts_of_pictures(layout, backend):
    if layout == "channels_first" and backend == "tensorflow":
        pytest.skip("TensorFlow has no such convolutions on a CPU")
    axis = 1 if layout == "channels_first" else -1
    shape = (2, 6, 6) if layout == "channels_first" else (6, 6, 2)
    options = {"data_format": layout, "padding": "same", **ZERO}
    start = keras.Input(shape, name="start")
    parts = [layers.Conv2D(n, 3, name=name, **options)(start) for name, n in (("a", 2), ("b", 3))]
    x = layers.Concatenate(axis=axis, name="join")(parts)
    x = layers.BatchNormalization(axis=axis, name="norm")(x)
    x = layers.MaxPooling2D(data_format=layout, name="pool")(x)
    x = layers.Flatten(data_format=layout, name="flat")(x)
    model = scrambled(keras.Model(start, dense()(x)))
    graph = ramet.trace(model).configure("a", filters=4, weights="grow")
    graph = graph.configure("norm", weights="grow").configure("head", weights="grow")
    computes_the_same(model, graph)


def test_a_function_sees_the_layer_as_it_was_edited():
    model = chain((3,), dense(4, "a"), dense())
    seen = []

    def new(old):
        seen.append(array(old.kernel))
        return layers.Dense(5, activation="relu", name="head", **ZERO)

    graph = ramet.trace(model).configure("head", units=5, weights="grow")
    graph.configure("head", activation="tanh").replace("head", new, weights="grow")
    assert np.array_equal(seen[0][:, :3], array(model.get_layer("head").kernel))
    assert np.all(seen[0][:, 3:] == 0)


# --- whole models, widened in one place ---


def _unet(start):
    down = layers.Conv2D(3, 3, name="wide", **PICTURE)(start)
    x = layers.MaxPooling2D(name="pool")(down)
    x = layers.Conv2D(4, 3, name="deep", **PICTURE)(x)
    x = layers.Conv2DTranspose(2, 2, strides=2, name="up", **ZERO)(x)
    x = layers.Concatenate(name="skip")([x, down, start])
    return layers.Conv2D(2, 3, name="last", **PICTURE)(x)


def _operations(start):
    x = dense(3, "wide")(start)
    y = keras.ops.concatenate([start, keras.ops.relu(x) * 2.0, x + 1.0 - 1.0], axis=-1)
    y = keras.ops.transpose(y, (0, 2, 1))
    return dense(2, "last")(layers.Flatten(name="flat")(y))


def _pooled(start):
    x = layers.Bidirectional(layers.GRU(3, return_sequences=True, **CELL), name="both")(start)
    x = layers.Concatenate(name="join")([dense(3, "wide")(start), x])
    x = keras.ops.mean(layers.Conv1D(4, 3, name="mix", **PICTURE)(x), axis=1, keepdims=True)
    return dense(2, "last")(keras.ops.squeeze(x, axis=1))


def _attention(start):
    x = dense(3, "wide")(start)
    x = layers.Attention(name="look")([start, layers.Concatenate(name="join")([x, start]), start])
    return dense(2, "last")(layers.GlobalMaxPooling1D(name="pool")(x))


def _spectral(start):
    x = dense(3, "wide")(start)
    x = layers.Concatenate(name="join")([x, start])
    return layers.SpectralNormalization(dense(2, "inner"), name="last")(x)


def _residual(start):
    x = dense(4, "wide")(start)
    for number in range(3):
        y = layers.LeakyReLU(name=f"act_{number}")(x)
        x = layers.Add(name=f"sum_{number}")([x, dense(4, f"res_{number}")(y)])
    return dense(2, "last")(x)


def _prelu(start):
    x = layers.Concatenate(name="join")([dense(3, "wide")(start), start])
    x = layers.PReLU(name="slopes")(x)
    return dense(2, "last")(layers.Flatten(name="flat")(x))


def _shared(start):
    twice = dense(4, "twice")
    wide = dense(3, "wide")
    x = layers.Concatenate(name="join")([twice(wide(start)), twice(wide(start * 2.0))])
    return dense(2, "last")(x)


WHOLE = {
    "unet": ((8, 8, 2), _unet, {"wide": {"filters": 5}, "deep": {}, "last": {}}),
    "operations": ((4, 3), _operations, {"wide": {"units": 5}, "last": {}}),
    "pooled": ((6, 3), _pooled, {"wide": {"units": 5}, "mix": {"filters": 6}, "last": {}}),
    "attention": ((4, 3), _attention, {"wide": {"units": 4}, "last": {}}),
    "residual": (
        (5,),
        _residual,
        {"wide": {"units": 6}, **{f"res_{i}": {"units": 6} for i in range(3)}, "last": {}},
    ),
    "prelu": ((4, 3), _prelu, {"wide": {"units": 5}, "slopes": {}, "last": {}}),
    "shared": ((5,), _shared, {"wide": {"units": 5}, "twice": {"units": 6}, "last": {}}),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_whole_model_is_widened(name, reverse):
    shape, body, edits = WHOLE[name]
    start = keras.Input(shape, name="start")
    model = scrambled(keras.Model(start, body(start)))
    graph = ramet.trace(model)
    order = [*edits.items()]
    for layer, changes in reversed(order) if reverse else order:
        graph = graph.configure(layer, weights="grow", **changes)
    edited = computes_the_same(model, graph)
    assert edited.count_params() > model.count_params()
    # and back: what was added is cut off again
    narrow = ramet.trace(edited)
    for layer, changes in order:
        config = model.get_layer(layer).get_config()
        back = {key: config[key] for key in changes}
        narrow = narrow.configure(layer, weights="grow", **back)
    for old, new in zip(model.weights, narrow.build().weights, strict=True):
        assert np.array_equal(array(old), array(new)), old.path


def test_a_spectral_norm_grows_with_its_layer():
    start = keras.Input((4,), name="start")
    model = scrambled(keras.Model(start, _spectral(start)))
    graph = ramet.trace(model).configure("wide", units=5, weights="grow")
    edited = graph.configure("last", weights="grow").build()
    old, new = (array(m.get_layer("last").layer.kernel) for m in (model, edited))
    assert np.array_equal(new[[0, 1, 2, 5, 6, 7, 8]], old)
