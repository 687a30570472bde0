"""`profile`: MACs, weights and memory, against published figures, PyTorch's counter, formulas."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet.profiling import formulas, registry


def model_of(layer, *shapes, dtype=None, **kwargs):
    """Return a model of one layer."""
    inputs = [keras.Input(shape, dtype=dtype) for shape in shapes]
    passed = inputs[0] if len(inputs) == 1 else inputs
    return keras.Model(passed, layer(passed, **kwargs))


def without_values(make):
    """Return what a function makes, a model whose weights have no values."""
    with keras.StatelessScope(initialize_variables=False):
        return make()


def vit(size=224, patch=16, width=768, depth=12, heads=12):
    """Return a vision transformer as published: ViT-B/16."""
    image = keras.Input((size, size, 3))
    x = layers.Conv2D(width, patch, patch)(image)
    x = layers.Reshape((-1, width))(x)
    x = layers.ZeroPadding1D((1, 0))(x)  # in place of the class token
    for _ in range(depth):
        y = layers.LayerNormalization()(x)
        x = layers.Add()([x, layers.MultiHeadAttention(heads, width // heads)(y, y)])
        y = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
        x = layers.Add()([x, layers.Dense(width)(y)])
    return keras.Model(image, layers.Dense(1000)(layers.LayerNormalization()(x)[:, 0]))


@pytest.mark.sampled
def test_published_figures():
    # Keras's ResNet50 strides in the first convolution of a block (3.86 G), as He et al. did
    # (3.8 G); PyTorch's strides in the second, which is 4.09 G, or 4.12 G with biases and norms.
    apps = keras.applications
    resnet = ramet.profile(without_values(lambda: apps.ResNet50(weights=None)))
    assert (resnet.macs, resnet.params) == (3_857_973_248, 25_636_712)
    mobile = ramet.profile(without_values(lambda: apps.MobileNetV2(weights=None)))
    assert (mobile.macs, mobile.params) == (300_774_272, 3_538_984)
    convnext = ramet.profile(without_values(lambda: apps.ConvNeXtTiny(weights=None)))
    assert convnext.ok
    assert round(convnext.macs / 1e9, 2) == 4.46  # 4.5 G


@pytest.mark.sampled
def test_a_vision_transformer():
    # 17.56 G with 197 tokens, as fvcore counts; often given as 17.6 G.
    profile = ramet.profile(without_values(vit))
    assert round(profile.macs / 1e9, 2) == 17.56


# --- against PyTorch's own counter ---


CONVOLUTIONS = {
    "conv1d": lambda: model_of(layers.Conv1D(8, 3, padding="causal", dilation_rate=2), (20, 6)),
    "conv2d": lambda: model_of(layers.Conv2D(8, (3, 2), strides=2, padding="same"), (13, 10, 6)),
    "valid": lambda: model_of(layers.Conv2D(8, 3, dilation_rate=2, use_bias=False), (13, 10, 6)),
    "grouped": lambda: model_of(layers.Conv2D(9, 3, groups=3), (13, 10, 6)),
    "channels_first": lambda: model_of(
        layers.Conv2D(8, 3, padding="same", data_format="channels_first"), (6, 13, 10)
    ),
    "conv3d": lambda: model_of(layers.Conv3D(4, (1, 2, 3), padding="same"), (5, 6, 7, 2)),
    "depthwise": lambda: model_of(
        layers.DepthwiseConv2D(3, strides=2, depth_multiplier=2), (13, 10, 6)
    ),
    "depthwise1d": lambda: model_of(layers.DepthwiseConv1D(3, dilation_rate=2), (13, 6)),
    "separable": lambda: model_of(
        layers.SeparableConv2D(8, 3, strides=2, depth_multiplier=2, padding="same"), (13, 10, 6)
    ),
    "separable1d": lambda: model_of(layers.SeparableConv1D(8, 3), (13, 6)),
    "transposed": lambda: model_of(layers.Conv2DTranspose(8, 3, strides=2), (7, 5, 6)),
    "transposed1d": lambda: model_of(layers.Conv1DTranspose(8, 4, strides=2), (7, 6)),
}

PRODUCTS = {
    "dense": lambda: model_of(layers.Dense(7), (5, 6)),
    "einsum_dense": lambda: model_of(
        layers.EinsumDense("...abx,xyz->...abyz", (5, 6, 2, 3)), (5, 6, 4)
    ),
    "dot": lambda: model_of(layers.Dot((2, 1)), (5, 6), (6, 3)),
    "matmul": lambda: model_of(lambda x: ops.matmul(x, ops.swapaxes(x, 1, 2)), (5, 6)),
    "weights": lambda: model_of(lambda x: ops.matmul(x, np.ones((6, 2), "float32")), (5, 6)),
    "einsum": lambda: model_of(lambda x: ops.einsum("btd,bsd->bts", *x), (5, 6), (4, 6)),
    "ellipsis": lambda: model_of(
        lambda x: ops.einsum("...d,df->...f", x, ops.ones((6, 2))), (5, 6)
    ),
    "tensordot": lambda: model_of(
        lambda x: ops.tensordot(x, np.ones((6, 2), "float32"), 1), (5, 6)
    ),
    "attention": lambda: model_of(layers.Attention(), (5, 6), (4, 6)),
    "attention_op": lambda: model_of(lambda x: ops.dot_product_attention(x, x, x), (5, 2, 8)),
    "heads": lambda: attended(layers.MultiHeadAttention(2, 8, value_dim=6)),
    "heads_with_scores": lambda: attended(layers.MultiHeadAttention(2, 8, dropout=0.1)),
    "two_axes": lambda: attended_image(),
    "grouped_queries": lambda: attended(layers.GroupQueryAttention(8, 4, 2)),
    "conv_op": lambda: model_of(
        lambda x: ops.conv(x, np.ones((3, 3, 6, 8), "float32"), strides=2), (9, 8, 6)
    ),
    "depthwise_op": lambda: model_of(
        lambda x: ops.depthwise_conv(x, np.ones((3, 3, 6, 2), "float32")), (9, 8, 6)
    ),
    "separable_op": lambda: model_of(
        lambda x: ops.separable_conv(
            x, np.ones((3, 3, 6, 2), "float32"), np.ones((1, 1, 12, 5), "float32")
        ),
        (9, 8, 6),
    ),
    "reversed_embedding": lambda: reversed_embedding(),
}

NOT_ON_PYTORCH = {
    "transposed_op": lambda: model_of(
        lambda x: ops.conv_transpose(x, np.ones((3, 3, 5, 6), "float32"), (2, 2)), (9, 8, 6)
    ),
}
"""Keras cannot run this operation in a graph."""

RECURRENT = {
    "lstm": lambda: model_of(layers.LSTM(5), (4, 6)),
    "gru": lambda: model_of(layers.GRU(5, reset_after=False, return_sequences=True), (4, 6)),
    "gru_reset_after": lambda: model_of(layers.GRU(5), (4, 6)),
    "simple": lambda: model_of(layers.SimpleRNN(5), (4, 6)),
    "stacked": lambda: model_of(layers.RNN([layers.LSTMCell(5), layers.GRUCell(3)]), (4, 6)),
    "bidirectional": lambda: model_of(layers.Bidirectional(layers.LSTM(5)), (4, 6)),
    "conv_lstm": lambda: model_of(layers.ConvLSTM2D(3, 3, strides=2), (4, 9, 8, 2)),
    "conv_lstm1d": lambda: model_of(
        layers.ConvLSTM1D(3, 3, padding="same", return_sequences=True), (4, 9, 2)
    ),
    "time_distributed": lambda: model_of(layers.TimeDistributed(layers.Conv2D(3, 2)), (4, 6, 5, 2)),
    "model_per_step": lambda: model_of(layers.TimeDistributed(small()), (4, 6)),
    "normalized": lambda: model_of(layers.SpectralNormalization(layers.Dense(4)), (6,)),
}


TRIED = {"gru": 1, "simple": 1, "stacked": 2, "conv_lstm": 1, "conv_lstm1d": 1}
"""How many of the four steps Keras computes once more on PyTorch, only to learn their shapes."""


def attended(layer):
    x, y = keras.Input((5, 6)), keras.Input((4, 6))
    return keras.Model([x, y], layer(x, y))


def attended_image():
    x = keras.Input((3, 4, 6))
    return keras.Model(x, layers.MultiHeadAttention(2, 8, attention_axes=(1, 2))(x, x))


def reversed_embedding():
    tokens, embedding = keras.Input((5,), dtype="int32"), layers.ReversibleEmbedding(11, 6)
    return keras.Model(tokens, embedding(embedding(tokens), reverse=True))


def small():
    return keras.Sequential([keras.Input((6,)), layers.Dense(3), layers.ReLU(), layers.Dense(2)])


def counted_by_torch(model, batch):
    """Return the MACs that PyTorch sees while the model runs; it counts two FLOPs each."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    shapes = [(batch, *tensor.shape[1:]) for tensor in model.inputs]
    data = [np.ones(shape, "float32") for shape in shapes]
    # Its counter does not know the fused attention of CPUs.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(data[0] if len(data) == 1 else data)
    flops = counter.get_total_flops()
    assert flops % 2 == 0
    return flops // 2


@pytest.mark.parametrize("name", [*CONVOLUTIONS, *PRODUCTS, *RECURRENT])
def test_macs_are_those_that_pytorch_counts(name, backend):
    if backend != "torch":
        pytest.skip("PyTorch's counter watches PyTorch")
    model = {**CONVOLUTIONS, **PRODUCTS, **RECURRENT}[name]()
    profile = ramet.profile(model, batch=3)
    assert profile.ok, profile.uncounted
    macs = profile.macs * (4 + TRIED.get(name, 0)) // 4
    assert macs == counted_by_torch(model, 3) > 0


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", ["conv2d", "grouped", "heads", "two_axes", "lstm", "conv_lstm", "transposed_op"]
)
def test_formulas_do_not_depend_on_the_backend(name):
    expected = {
        "conv2d": 7 * 5 * 8 * 3 * 2 * 6,
        "grouped": 11 * 8 * 9 * 3 * 3 * 2,
        "heads": 2 * (5 * 6 * 8 + 4 * 6 * (8 + 6) + 5 * 4 * (8 + 6) + 5 * 6 * 6),
        "two_axes": 2 * (4 * 12 * 6 * 8 + 12 * 12 * 16),
        "lstm": 4 * 4 * 5 * (6 + 5),
        "transposed_op": 9 * 8 * 6 * 3 * 3 * 5,
        "conv_lstm": 4 * 4 * 4 * 3 * 9 * (2 + 3) * 3,
    }
    model = {**CONVOLUTIONS, **PRODUCTS, **NOT_ON_PYTORCH, **RECURRENT}[name]()
    assert ramet.profile(model).macs == expected[name]


# --- every layer and operation of Keras ---

UNCOUNTED_LAYERS = {
    *("FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper", "Lambda", "Wrapper", "Layer"),
    *("MelSpectrogram", "STFTSpectrogram"),
}
UNCOUNTED_OPERATIONS = {
    *("Map", "Scan", "AssociativeScan", "WhileLoop", "ForiLoop", "Cond", "Switch", "JVP"),
    *("VectorizedMap", "CTCLoss", "CTCDecode", "SSIM", "Correlate", "Corrcoef", "Function"),
    *("FFT", "FFT2", "IFFT2", "RFFT", "IRFFT", "STFT", "ISTFT", "Cholesky", "CholeskyInverse"),
    *("Det", "Eig", "Eigh", "Inv", "LuFactor", "Qr", "Solve", "SolveTriangular", "SVD", "Lstsq"),
    *("MatrixRank", "Pinv", "Logdet", "Slogdet"),
}


@pytest.mark.one_backend
def test_every_layer_and_operation_of_keras_has_a_rule_or_is_known_to_have_none():
    classes = [c for c in vars(layers).values() if isinstance(c, type)]
    without = {c.__name__ for c in classes if issubclass(c, keras.Layer) and not ruled(c)}
    assert without <= UNCOUNTED_LAYERS
    operations = {c for c in below(keras.Operation) if not issubclass(c, keras.Layer)}
    own = {c for c in operations if c.__module__.startswith("keras.src.ops")}
    assert len(own) > 200
    assert {c.__name__ for c in own if not ruled(c)} <= UNCOUNTED_OPERATIONS


def ruled(cls):
    return registry.rule_of(cls) is not None


def below(cls):
    for inner in cls.__subclasses__():
        yield inner
        yield from below(inner)


@pytest.mark.one_backend
def test_no_name_is_both_free_and_counted():
    free = {*formulas.nothing.LAYERS.split()}
    counted = {c.__name__ for c, rule in registry._LAYERS.items() if rule is not registry.nothing}
    assert not free & counted


# --- what is not known ---


class Scores(layers.Layer):
    """A layer of the user's own."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(shape[-1],))

    def call(self, x):
        return ops.matmul(x * self.scale, ops.swapaxes(x, 1, 2))


class Scaled(layers.Dense):
    """A layer of Keras with a call of the user's own."""

    def call(self, x):
        return super().call(super().call(x))


def test_what_has_no_rule_is_listed_and_the_total_is_a_lower_bound():
    x = keras.Input((5, 8))
    y = Scaled(8, name="scaled")(layers.Dense(8, name="dense")(x))
    y = layers.Lambda(lambda t: t * 2, name="function")(Scores(name="scores")(y))
    profile = ramet.profile(keras.Model(x, y, name="own"))
    assert not profile.ok
    assert [call.path for call in profile.uncounted] == ["scaled", "scores", "function"]
    assert profile.macs == 5 * 8 * 8
    assert profile.params == 72 + 72 + 8
    assert profile.title == "'own': at least 320 MACs, 152 params"
    assert "these are not counted: scaled (Scaled, there is no rule for it);" in str(profile)
    assert profile.to_dict()["uncounted"] == ["scaled", "scores", "function"]


def test_rules_of_the_users_own(monkeypatch):
    monkeypatch.setattr(registry, "_LAYERS", {**registry._LAYERS})

    @ramet.profiling.counts(Scores)
    def scores(called):
        batch, rows, width = called.inputs[0].shape
        assert isinstance(called.layer, Scores)
        return batch * rows * rows * width

    model = model_of(Scores(), (5, 8))
    assert ramet.profile(model, batch=2).macs == 2 * 5 * 5 * 8
    inside = model_of(layers.TimeDistributed(model), (3, 5, 8))
    assert ramet.profile(inside).macs == 3 * 5 * 5 * 8
    ramet.profiling.counts(Scores)(lambda _: 1.5)
    with pytest.raises(ramet.errors.OptionError, match=r"Scores must return .* got 1.5; return an"):
        ramet.profile(model)
    with pytest.raises(ramet.errors.OptionError, match=r"counts a class of Keras .* got 3"):
        ramet.profiling.counts(3)
    with pytest.raises(ramet.errors.OptionError, match="counts needs a class"):
        ramet.profiling.counts()


def test_sizes_that_the_model_leaves_open():
    image = keras.Input((None, None, 3), name="image")
    x = layers.Conv2D(4, 3, name="conv")(image)
    x = layers.MaxPooling2D(name="pool")(x)
    heads = layers.Conv2D(2, 1, name="head")
    small, large = heads(layers.AveragePooling2D(2, name="half")(x)), heads(x)
    x = ops.concatenate([ops.reshape(small, (-1, 2)), ops.reshape(large, (-1, 2))], 0)
    model = keras.Model(image, layers.Dense(5, name="score")(x), name="open")
    unknown = ramet.profile(model)
    assert [call.path for call in unknown.uncounted] == ["conv", "head#1", "head#2", "score"]
    assert unknown.params == model.count_params()
    assert "the size of axes 1, 2 of input 'image' is not known; pass shapes" in str(unknown)
    known = ramet.profile(model, batch=2, shapes=(18, 18, 3))
    assert known.ok
    assert known.call("conv").macs == 2 * 16 * 16 * 4 * 27
    assert [known.call(f"head#{n}").outputs for n in (1, 2)] == [((2, 4, 4, 2),), ((2, 8, 8, 2),)]
    assert known.call("score").macs == 2 * (16 + 64) * 2 * 5
    assert ramet.profile(model, batch=2, shapes={"image": (18, 18, 3)}).macs == known.macs


WRONG_SHAPES = [
    ((18, 18), r"shape \(18, 18\) does not fit input 'image' .* which is \(\?, \?, 3\) without"),
    ((18, 18, 4), "does not fit input 'image'"),
    ((0, 18, 3), "must be a tuple of positive integers, without the batch axis, got a tuple"),
    ({"image": "18"}, "must be a tuple of positive integers"),
    ({"imag": (1, 1, 3)}, "has no input 'imag'; did you mean 'image'?"),
    (7, "shapes must be a dict of shapes by the names of inputs, got 7"),
]


@pytest.mark.sampled
def test_wrong_options():
    image = keras.Input((None, None, 3), name="image")
    model = keras.Model(image, layers.Conv2D(4, 3)(image))
    for shapes, message in WRONG_SHAPES:
        with pytest.raises(ramet.RametError, match=message):
            ramet.profile(model, shapes=shapes)
    for batch in (0, -1, 1.5, True, "2", None):
        with pytest.raises(ramet.errors.OptionError, match="batch must be a positive integer, got"):
            ramet.profile(model, batch=batch)
    two = model_of(layers.Add(), (3,), (3,))
    with pytest.raises(ramet.errors.OptionError, match="has 2 inputs; pass shapes by their names"):
        ramet.profile(two, shapes=(3,))
    profile = ramet.profile(two)
    with pytest.raises(ramet.errors.OptionError, match="unknown by='size'; expected one of 'macs'"):
        profile.table(by="size")
    with pytest.raises(ramet.errors.OptionError, match="no times were measured for"):
        profile.top(by="time")
    with pytest.raises(ramet.errors.OptionError, match="no call 'ad' in the profile"):
        profile.call("ad")


def test_a_model_without_a_graph_is_refused():
    class Plain(keras.Model):
        def call(self, x):
            return x

    with pytest.raises(ramet.errors.ModelError, match="graph"):
        ramet.profile(Plain())


# --- weights, sharing, nesting, memory ---


def encoder():
    x = keras.Input((6, 8), name="x")
    return keras.Model(x, layers.Dense(8, name="inner")(x), name="encoder")


def test_shared_layers_count_weights_once_and_macs_per_call():
    x, inner, dense = keras.Input((6, 8)), encoder(), layers.Dense(8, name="dense")
    y = dense(inner(dense(inner(x))))
    y = inner.get_layer("inner")(y)
    model = keras.Model(x, [y, layers.Dense(2, dtype="float16", name="last")(y)], name="shared")
    profile = ramet.profile(model)
    one = 6 * 8 * 8
    assert profile.macs == 5 * one + 6 * 8 * 2
    assert profile.params == model.count_params() == 72 + 72 + 18
    assert profile.weight_bytes == 4 * (72 + 72) + 2 * 18
    paths = ["encoder#1", "encoder#1/inner", "dense#1", "encoder#2", "encoder#2/inner", "dense#2"]
    assert [call.path for call in profile.walk()] == [*paths, "inner", "last"]
    assert [c.new_params for c in profile.walk()] == [72, 72, 72, 0, 0, 0, 0, 18]
    assert profile.call("encoder#2").macs == one
    assert "shared" in str(profile)
    flat = ramet.profile(ramet.trace(model).flatten())
    assert (flat.macs, flat.params) == (profile.macs, profile.params)


def test_masks_several_outputs_and_dtypes():
    tokens = keras.Input((7,), dtype="int32", name="tokens")
    x = layers.Embedding(20, 8, mask_zero=True)(tokens)
    whole, *states = layers.LSTM(4, return_state=True, return_sequences=True, name="lstm")(x)
    model = keras.Model(tokens, {"all": whole, "last": ops.concatenate(states)})
    profile = ramet.profile(model, batch=2)
    assert profile.call("lstm").outputs == ((2, 7, 4), (2, 4), (2, 4))
    assert profile.macs == 2 * 7 * 4 * 4 * (8 + 4)
    assert profile.params == model.count_params()
    half = model_of(layers.Dense(4, dtype="mixed_float16"), (8,))
    assert ramet.profile(half).call(half.layers[1].name).activation_bytes == 2 * 4


def test_memory_follows_the_order_of_execution():
    x = keras.Input((100,), name="x")
    a = layers.Dense(200, name="a")(x)
    b = layers.Reshape((20, 10), name="view")(a)
    c = layers.Dense(30, name="c")(b)
    d = layers.Dense(5, name="d")(layers.Flatten(name="flat")(c))
    profile = ramet.profile(keras.Model(x, [d, layers.ReLU(name="e")(a)]))
    alive = {call.path: call.live_bytes // 4 for call in profile.calls}
    # The second output needs `a` to the end; a view takes no memory.
    assert alive == {"a": 300, "view": 200, "c": 800, "flat": 800, "d": 805, "e": 405}
    assert profile.peak_bytes == 4 * 805
    assert [call.activation_bytes for call in profile.calls][:2] == [800, 0]


def test_a_fixed_batch_and_merged_batches():
    x = keras.Input(batch_shape=(4, 6, 8), name="x")
    profile = ramet.profile(keras.Model(x, layers.Dense(2)(x)), batch=2)
    assert profile.macs == 4 * 6 * 8 * 2
    assert "input 'x' has a fixed batch size of 4" in str(profile)
    x = keras.Input((6, 8))
    y = layers.Dense(2)(ops.reshape(x, (-1, 8)))
    y = layers.Dense(3, name="after")(ops.reshape(y, (-1, 6, 2)))
    assert ramet.profile(keras.Model(x, y), batch=5).call("after").macs == 5 * 6 * 2 * 3


def test_adapters_inside_layers():
    model = model_of(layers.Dense(6, lora_rank=2), (8,))
    assert ramet.profile(model, batch=3).macs == 3 * 8 * 6 + 8 * 2 * 6
    model = model_of(layers.Conv2D(6, 3, lora_rank=2), (5, 5, 4))
    assert ramet.profile(model).macs == 9 * 6 * 9 * 4 + 9 * 4 * 2 * 6


# --- edited graphs ---


def test_edited_graphs_count_what_they_build():
    graph = ramet.trace(
        keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(4, 3, name="conv")])
    )
    edited = graph.configure("conv", filters=2).insert_after(
        "conv", layers.Conv2D(5, 1, name="new")
    )
    profile = ramet.profile(edited)
    assert profile.macs == 36 * 2 * 27 + 36 * 5 * 2
    assert profile.params == (27 + 1) * 2 + (2 + 1) * 5 == edited.build().count_params()
    assert ramet.profile(graph).macs == 36 * 4 * 27


# --- two side by side ---


@pytest.mark.sampled
def test_two_profiles_side_by_side():
    x = keras.Input((8,), name="x")
    y = layers.Dense(6, name="b")(layers.Dropout(0.1, name="drop")(layers.Dense(4, name="a")(x)))
    graph = ramet.trace(keras.Model(x, layers.Dense(2, name="c")(y), name="net"))
    edited = graph.configure("b", units=3, weights="fresh").configure("c", weights="grow")
    edited = edited.insert_after("a", layers.Dense(4, name="new")).remove("drop")
    comparison = ramet.profile(graph).against(ramet.profile(edited))
    assert comparison.title == "'net': MACs 68 → 66 (97.1 %), params 80 → 79 (98.8 %)"
    assert comparison.table().rows == [
        ("new", "none", "16", "", "none", "20", ""),
        ("b", "24", "12", "50", "30", "15", "50"),
        ("c", "12", "6", "50", "14", "8", "57"),
    ]
    assert [row[0] for row in comparison.table(every=True).rows] == ["a", "drop", "new", "b", "c"]
    assert "68 → 66 MACs, 80 → 79 params (320 bytes → 316 bytes)" in str(comparison)
    assert comparison.macs_ratio == 66 / 68
    assert comparison.ok
    assert comparison.to_dict()["second"]["macs"] == 66
    empty = ramet.profile(model_of(layers.ReLU(), (2,)))
    assert (empty.against(empty).params_ratio, empty.against(empty).table().rows) == (None, [])
    with pytest.raises(ramet.errors.OptionError, match="of batch 1 and 2; profile both with the"):
        empty.against(ramet.profile(edited, batch=2))
    with pytest.raises(
        ramet.errors.OptionError, match=r"other must be a Profile, got 3; pass ramet"
    ):
        empty.against(3)


# --- time ---


def test_time_is_measured_call_by_call():
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 8, mask_zero=True, name="embedding")(tokens)
    inner = keras.Input((None, 8))
    block = keras.Model(inner, layers.Dense(8, name="dense")(inner), name="block")
    x = layers.GlobalAveragePooling1D(name="pool")(layers.Dropout(0.5, name="drop")(block(x)))
    model = keras.Model(tokens, layers.BatchNormalization(name="norm")(x), name="timed")
    before = [ops.convert_to_numpy(variable).tobytes() for variable in model.variables]
    profile = ramet.profile(model, batch=3, time=True, shapes=(5,))
    assert all(cost.seconds > 0 for cost in profile.walk())
    assert profile.call("block").seconds > profile.call("block/dense").seconds
    assert profile.seconds == sum(call.seconds for call in profile.calls)
    assert profile.table(by="time").columns[-1] == "ms"
    assert "times are medians of eager calls" in str(profile)
    assert before == [ops.convert_to_numpy(variable).tobytes() for variable in model.variables]
    with pytest.raises(ramet.errors.OptionError, match="cannot be measured, since the size of inp"):
        ramet.profile(model, time=True)


# --- how it is printed ---


def test_print():
    profile = ramet.profile(without_values(lambda: keras.applications.MobileNet(weights=None)))
    lines = str(profile).splitlines()
    assert lines[0] == "'mobilenet_1.00_224': 569 M MACs, 4.25 M params"
    assert "total for one example: 568,740,352 MACs (1,137,480,704 FLOPs), 4,253,864" in str(
        profile
    )
    assert repr(profile) == "<Profile: 'mobilenet_1.00_224': 569 M MACs, 4.25 M params>"
    assert profile.table(by="params").rows[0][0] == "conv_pw_13"
    assert [call.path for call in profile.top(1, by="memory")] == ["conv_pad_2"]
    assert "<table>" in profile._repr_html_()
    assert len(profile.table(every=True).rows) == len(profile.calls)
    data = profile.to_dict()
    assert (data["macs"], data["flops"]) == (568_740_352, 1_137_480_704)
    assert len(data["calls"]) == len(profile.calls)


def test_print_in_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    outer = keras.Input((6, 8), name="outer")
    model = keras.Model(outer, encoder()(outer), name="model")
    profile = ramet.profile(model)
    assert max(map(len, str(profile).splitlines())) <= 80
    assert "encoder (" not in str(profile)
    assert [row[0] for row in profile.table().rows] == ["encoder"]
    assert [row[0] for row in profile.table(depth=1).rows] == ["encoder/inner"]
    assert profile.table().rows[0][1] == "Functional (1 call)"
