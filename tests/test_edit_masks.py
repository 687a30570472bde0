"""Masks below an edit: derived anew, and as if the layers were called by hand."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet

pytestmark = pytest.mark.sampled

VERSION = tuple(int(part) for part in keras.__version__.split(".")[:2])
TOKENS = np.array([[1, 2, 0, 0, 0, 0], [3, 4, 5, 6, 7, 8], [9, 0, 0, 0, 0, 0]])


def array(tensor):
    return ops.convert_to_numpy(tensor)


def close(found, expected):
    np.testing.assert_allclose(array(found), array(expected), atol=1e-6)


def parts(model):
    return {layer.name: layer for layer in model.layers}


def network() -> keras.Model:
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = layers.Embedding(10, 4, mask_zero=True, name="embedding")(tokens)
    y = layers.Bidirectional(layers.LSTM(3, return_sequences=True), name="first")(x)
    y = layers.GRU(3, name="second")(layers.Dropout(0.3, name="drop")(y))
    a = layers.MultiHeadAttention(1, 2, name="attention")(x, x)
    pooled = layers.GlobalAveragePooling1D(name="pool")(a)
    return keras.Model(tokens, layers.Concatenate(name="out")([y, pooled]), name="net")


def by_hand(model, tokens=TOKENS, after=lambda x: x):
    """The layers of a model called one by one, with something after the embedding."""
    at = parts(model)
    x = after(at["embedding"](tokens))
    y = at["second"](at["drop"](at["first"](x)))
    return at["out"]([y, at["pool"](at["attention"](x, x))])


def loaded(model, tmp_path):
    model.save(tmp_path / "m.keras")
    return keras.saving.load_model(tmp_path / "m.keras")


@pytest.mark.parametrize("way", [lambda m, _: m, loaded, lambda m, _: ramet.clone(m)])
def test_switching_masking_off_takes_effect_everywhere_below(way, tmp_path):
    model = way(network(), tmp_path)
    edited = ramet.trace(model).configure("embedding", mask_zero=False).build()
    close(edited(TOKENS), by_hand(edited))
    assert not np.allclose(array(edited(TOKENS)), array(model(TOKENS)), atol=1e-4)
    assert not [op.name for op in edited.operations if "not_equal" in op.name]
    for old, new in zip(model.get_weights(), edited.get_weights(), strict=True):
        assert np.array_equal(old, new)


def test_switching_masking_on_takes_effect_everywhere_below():
    model = network()
    off = ramet.trace(model).configure("embedding", mask_zero=False).build()
    on = ramet.trace(off).configure("embedding", mask_zero=True).build()
    close(on(TOKENS), model(TOKENS))
    close(on(TOKENS), by_hand(on))


TIME_CHANGES = {
    "pool": lambda: layers.AveragePooling1D(2, name="new"),
    "crop": lambda: layers.Cropping1D(1, name="new"),
    "pad": lambda: layers.ZeroPadding1D(2, name="new"),
    "up": lambda: layers.UpSampling1D(2, name="new"),
    "conv": lambda: layers.Conv1D(4, 2, strides=2, name="new"),
}


@pytest.mark.parametrize("kind", TIME_CHANGES)
def test_no_mask_of_the_old_length_is_left(kind):
    graph = ramet.trace(network()).insert_after("embedding", TIME_CHANGES[kind]())
    edited = graph.build()
    close(edited(TOKENS), by_hand(edited, after=parts(edited)["new"]))
    assert ramet.verify(edited, ramet.clone(edited)).ok


def test_a_layer_that_hands_masks_on_keeps_them():
    model = network()
    edited = ramet.trace(model).insert_after("embedding", layers.Dropout(0.5, name="new")).build()
    close(edited(TOKENS), model(TOKENS))
    close(edited(TOKENS), by_hand(edited, after=parts(edited)["new"]))


def floats() -> keras.Model:
    x = keras.Input((5, 2), name="x")
    y = layers.LSTM(3, name="lstm")(layers.Masking(0.0, name="masking")(x))
    return keras.Model(x, layers.Dense(2, name="dense")(y), name="floats")


DATA = np.array([[[1, 2], [0, 0], [3, 3], [0, 0], [0, 0]]], "float32")


def test_replacing_a_masking_layer():
    model = floats()
    graph = ramet.trace(model)
    edited = graph.replace("masking", layers.Masking(3.0, name="threes")).build()
    at = parts(edited)
    close(edited(DATA), at["dense"](at["lstm"](at["threes"](DATA))))
    assert not np.allclose(array(edited(DATA)), array(model(DATA)), atol=1e-5)
    plain = graph.replace("masking", layers.Dropout(0.1, name="drop")).build()
    at = parts(plain)
    close(plain(DATA), at["dense"](at["lstm"](DATA)))


def test_removing_a_masking_layer():
    edited = ramet.trace(floats()).remove("masking").build()
    at = parts(edited)
    assert [layer.name for layer in edited.layers] == ["x", "lstm", "dense"]
    close(edited(DATA), at["dense"](at["lstm"](DATA)))
    assert [type(op).__name__ for op in edited.operations] == ["InputLayer", "LSTM", "Dense"]


@pytest.mark.parametrize("length", [None, 9])
def test_changing_the_input(length):
    model = network()
    edited = ramet.trace(model).with_inputs(shape=(length,)).build()
    tokens = np.concatenate([TOKENS, np.zeros((3, 3), int)], axis=1)
    close(edited(tokens), by_hand(edited, tokens))
    assert edited.inputs[0].name == "tokens"
    assert edited.inputs[0].shape == (None, length)
    if length is None:
        close(edited(TOKENS), model(TOKENS))


class Shift(layers.Layer):
    """Gives the sequence without its first step, and the mask with it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs):
        return inputs[:, 1:]

    def compute_mask(self, inputs, previous_mask):
        del inputs
        return None if previous_mask is None else previous_mask[:, 1:]


def test_a_layer_that_transforms_masks():
    edited = ramet.trace(network()).insert_after("embedding", Shift(name="new")).build()
    close(edited(TOKENS), by_hand(edited, after=parts(edited)["new"]))
    off = ramet.trace(edited).configure("embedding", mask_zero=False).build()
    close(off(TOKENS), by_hand(off, after=parts(off)["new"]))
    assert not np.allclose(array(off(TOKENS)), array(edited(TOKENS)), atol=1e-5)


class Threshold(layers.Layer):
    """Masks the steps whose first feature is below a weight."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def build(self, input_shape):
        del input_shape
        self.limit = self.add_weight(shape=(), initializer="zeros", name="limit")

    def call(self, inputs):
        return inputs * 1.0

    def compute_mask(self, inputs, previous_mask):
        del previous_mask
        return ops.greater(inputs[:, :, 0], self.limit)


def test_a_mask_that_reads_a_weight_reads_that_of_the_new_layer():
    x = keras.Input((5, 2), name="x")
    y = layers.GRU(3, name="gru")(Threshold(name="limit")(x))
    model = keras.Model(x, y)
    edited = ramet.trace(model).insert_after("x", layers.Rescaling(2.0, name="twice")).build()
    model.get_layer("limit").limit.assign(100.0)
    at = parts(edited)
    close(edited(DATA), at["gru"](at["limit"](at["twice"](DATA))))
    at["limit"].limit.assign(4.0)
    close(edited(DATA), at["gru"](at["limit"](at["twice"](DATA))))


def test_masks_inside_a_nested_model_are_derived_again():
    inner_in = keras.Input((6,), dtype="int32", name="inner_tokens")
    x = layers.Embedding(10, 4, mask_zero=True, name="embedding")(inner_in)
    inner = keras.Model(inner_in, layers.LSTM(3, return_sequences=True, name="lstm")(x), name="enc")
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    model = keras.Model(tokens, layers.GlobalAveragePooling1D(name="pool")(inner(tokens)))
    edited = ramet.trace(model).configure("enc/embedding", mask_zero=False).build()
    at = parts(edited)
    inside = parts(at["enc"])
    close(edited(TOKENS), at["pool"](inside["lstm"](inside["embedding"](TOKENS))))
    assert not np.allclose(array(edited(TOKENS)), array(model(TOKENS)), atol=1e-5)


def test_clone_model_derives_masks_again_too():
    model = network()

    def new_time(layer, *args, **kwargs):
        outputs = layer(*args, **kwargs)
        return layers.MaxPooling1D(2, name="new")(outputs) if layer.name == "embedding" else outputs

    edited = ramet.clone_model(model, call_function=new_time)
    edited.set_weights(model.get_weights())
    close(edited(TOKENS), by_hand(edited, after=parts(edited)["new"]))


# --- cuts ---


CUTS = [
    "embedding",
    ["first", "attention"],
    ["first", "embedding"],
    ["drop", "pool"],
    ["second", "attention"],
    ["second", "pool"],
    "out",
]


@pytest.mark.parametrize("at", CUTS, ids=str)
@pytest.mark.parametrize("way", [lambda m, _: m, loaded], ids=["built", "loaded"])
def test_a_cut_carries_its_mask(at, way, tmp_path):
    model = way(network(), tmp_path)
    head, tail = (graph.build() for graph in ramet.trace(model).split(at))
    expected = model(TOKENS)
    close(tail(head(TOKENS)), expected)
    between = keras.tree.map_structure(array, head(TOKENS))
    close(tail(between), expected)
    close(tail.predict(head.predict(TOKENS, verbose=0), verbose=0), expected)
    close(ramet.clone(tail)(between), expected)
    if at != "out" or VERSION >= (3, 14):  # Before, Keras loaded no model with an unused input.
        close(loaded(tail, tmp_path)(between), expected)


def recurrent() -> keras.Model:
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = layers.Embedding(10, 4, mask_zero=True, name="embedding")(tokens)
    y = layers.LSTM(3, return_sequences=True, name="first")(x)
    return keras.Model(tokens, layers.GRU(3, name="second")(layers.Dropout(0.3, name="drop")(y)))


def test_a_cut_model_takes_a_mask_or_none():
    tail = ramet.trace(recurrent()).extract(inputs="embedding").build()
    assert [*tail.input] == ["embedding", "embedding_mask"]
    assert tail.input["embedding_mask"].dtype == "bool"
    x = np.random.default_rng(0).standard_normal((3, 6, 4)).astype("float32")
    mask = TOKENS != 0
    at = parts(tail)

    def below(mask):
        return at["second"](at["drop"](at["first"](x, mask=mask)), mask=mask)

    close(tail({"embedding": x, "embedding_mask": mask}), below(mask))
    close(tail({"embedding": x, "embedding_mask": None}), below(None))
    assert not np.allclose(array(below(mask)), array(below(None)), atol=1e-4)


def test_masks_that_come_out_of_nested_models_are_found_at_a_cut():
    start = keras.Input((6,), dtype="int32", name="inner_tokens")
    inner = keras.Model(start, layers.Embedding(10, 4, mask_zero=True)(start), name="inner")
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = layers.LayerNormalization(name="after")(inner(tokens))
    model = keras.Model(tokens, layers.GRU(2, name="gru")(x))
    for at in ("inner", "after"):
        head, tail = (graph.build() for graph in ramet.trace(model).split(at))
        between = keras.tree.map_structure(array, head(TOKENS))
        close(tail(between), model(TOKENS))
    flat = ramet.trace(model).flatten().build()
    close(flat(TOKENS), model(TOKENS))


def test_a_mask_that_operations_compute_with_is_required():
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = layers.Embedding(10, 4, mask_zero=True, name="embedding")(tokens)
    both = layers.Concatenate(axis=1, name="both")([x, x])
    model = keras.Model(tokens, layers.LSTM(3, name="lstm")(both))
    head, tail = (graph.build() for graph in ramet.trace(model).split("embedding"))
    between = keras.tree.map_structure(array, head(TOKENS))
    close(tail(between), model(TOKENS))
    with pytest.raises(ValueError, match="embedding_mask"):
        tail({"embedding": between["embedding"], "embedding_mask": None})


# --- what cannot be ---


def test_a_mask_that_the_author_passed_must_fit():
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = layers.Embedding(10, 4, name="embedding")(tokens)
    own = ops.not_equal(tokens, 0)
    model = keras.Model(tokens, layers.GRU(3, name="gru")(x, mask=own))
    graph = ramet.trace(model).insert_after("embedding", layers.MaxPooling1D(2, name="half"))
    with pytest.raises(ramet.GraphError) as caught:
        graph.build()
    message = str(caught.value)
    for word in ("'not_equal", "'gru'", "'half'", "(None, 6)", "(None, 3, 4)", "edit 1"):
        assert word in message


class Sloppy(layers.Layer):
    """Halves the time and hands on the mask of the whole."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs):
        return inputs[:, ::2]


def test_a_layer_that_hands_on_a_mask_of_the_wrong_length_is_named():
    graph = ramet.trace(network()).insert_after("embedding", Sloppy(name="sloppy"))
    with pytest.raises(ramet.GraphError, match=r"'sloppy', has shape \(None, 3, 4\).*edit 1"):
        graph.build()


def explicit() -> keras.Model:
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = layers.Embedding(10, 4, mask_zero=True, name="embedding")(tokens)
    mask = x._keras_mask
    y = layers.GRU(3, name="gru")(ops.multiply(x, 2.0), mask=mask)
    return keras.Model(tokens, y)


def test_a_mask_that_is_passed_on_needs_its_maker():
    graph = ramet.trace(explicit())
    with pytest.raises(ramet.GraphError, match=r"'embedding' .* mask .* passed to 'gru'"):
        graph.remove("embedding")
    with pytest.raises(ramet.GraphError, match=r"'embedding' .* no longer makes the mask .* 'gru'"):
        graph.configure("embedding", mask_zero=False).build()
    other = graph.replace("embedding", layers.Embedding(10, 4, mask_zero=True, name="other"))
    close(other.build()(TOKENS), explicit_by_hand(other.build()))


def explicit_by_hand(model):
    at = parts(model)
    return at["gru"](at["other"](TOKENS) * 2.0, mask=ops.not_equal(TOKENS, 0))


def test_operations_that_only_serve_masks_are_not_edited():
    graph = ramet.trace(network())
    name = next(name for name in graph.layers if "not_equal" in name)
    with pytest.raises(ramet.GraphError, match=r"only computes masks.*'embedding'"):
        graph.remove(name)


# --- masks that are computed from what an edit changed ---


class FromWeight(layers.Layer):
    """Makes a mask from its input and its weight."""

    def build(self, shape):
        del shape
        self.limit = self.add_weight(shape=(), initializer="zeros", name="limit")

    def call(self, x):
        return x + self.limit

    def compute_mask(self, inputs, mask=None):
        del mask
        return ops.any(inputs > self.limit, axis=-1)


class Zeroed(layers.Layer):
    """Puts zeros in the place of fives, and keeps the dtype."""

    def call(self, x):
        return ops.where(ops.equal(x, 5), ops.zeros_like(x), x)

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)


def two_rows():
    rng = np.random.default_rng(3)
    rows = [rng.integers(0, 6, (4, 6)).astype("int32") for _ in range(2)]
    rows[0][1] = 0  # all of it masked
    rows[1][2] = 0
    return rows


def masked_model():
    a, b = (keras.Input((6,), dtype="int32", name=name) for name in "ab")
    embedded = layers.Embedding(9, 4, mask_zero=True, name="embed")(a)
    dropped = layers.Dropout(0.1, name="drop")(embedded)
    return keras.Model([a, b], layers.LSTM(3, name="lstm")(dropped))


@pytest.mark.since_keras(3, 14)  # Before, Keras refused a model with an unused input.
def test_a_mask_is_computed_from_the_new_input():
    model, (a, b) = masked_model(), two_rows()
    embed, lstm = model.get_layer("embed"), model.get_layer("lstm")
    graph = ramet.trace(model)

    def by_hand(x):
        return array(lstm(embed(x)))

    zeroed = np.where(a == 5, 0, a)
    for edited, x in (
        (graph.rewire("embed", 0, "b"), b),
        (graph.insert_before("embed", Zeroed()), zeroed),
        (graph.insert_after("a", Zeroed()), zeroed),
        (graph.insert_on("embed", 0, Zeroed()).insert_before("embed", Zeroed()), zeroed),
    ):
        assert np.array_equal(array(edited.build()([a, b])), by_hand(x)), edited.journal
    other = graph.rewire("embed", 0, "b").flatten().prefix("p_").build()
    assert np.array_equal(array(other([a, b])), by_hand(b))


@pytest.mark.since_keras(3, 14)  # Before, Keras refused a model with an unused input.
def test_a_mask_that_a_loaded_model_computes_follows_too(tmp_path):
    masked_model().save(tmp_path / "m.keras")
    model, (a, b) = keras.models.load_model(tmp_path / "m.keras"), two_rows()
    edited = ramet.trace(model).rewire("embed", 0, "b").build()
    expected = model.get_layer("lstm")(model.get_layer("embed")(b))
    assert np.array_equal(array(edited([a, b])), array(expected))


@pytest.mark.since_keras(3, 14)  # Before, Keras refused a model with an unused input.
def test_a_mask_that_is_read_by_hand_follows():
    a, b = (keras.Input((6,), dtype="int32", name=name) for name in "ab")
    embedded = layers.Embedding(9, 4, mask_zero=True, name="embed")(a)
    weight = ops.expand_dims(ops.cast(embedded._keras_mask, "float32"), -1)
    model = keras.Model([a, b], ops.sum(embedded * weight, axis=1))
    x, y = two_rows()
    embed = array(model.get_layer("embed")(y))
    edited = ramet.trace(model).rewire("embed", 0, "b").build()
    np.testing.assert_allclose(array(edited([x, y])), (embed * (y != 0)[..., None]).sum(1), 1e-5)


def test_a_mask_that_depends_on_weights_is_that_of_its_own_layer():
    a, b = (keras.Input((6, 3), name=name) for name in "ab")
    shared = FromWeight(name="shared")
    outputs = [layers.LSTM(2, name=f"lstm_{x.name}")(shared(x)) for x in (a, b)]
    graph = ramet.trace(keras.Model([a, b], outputs))
    data = np.random.default_rng(0).standard_normal((2, 6, 3)).astype("float32")
    for edited, names in (
        (graph.unshare("shared"), ("shared", "shared_1")),
        (graph.rewire("shared#2", 0, "a"), ("shared", "shared")),
    ):
        built = edited.build()
        built.get_layer(names[1]).limit.assign(0.7)
        found = built([data, data])[1]
        expected = built.get_layer("lstm_b")(built.get_layer(names[1])(data))
        assert np.array_equal(array(found), array(expected))


def test_masks_by_value_inside_a_nested_model():
    i = keras.Input((6,), dtype="int32", name="i")
    inner = keras.Model(i, layers.Embedding(9, 4, mask_zero=True, name="embed")(i), name="inner")
    a = keras.Input((6,), dtype="int32", name="a")
    model = keras.Model(a, layers.LSTM(3, name="lstm")(inner(a)))
    x, _ = two_rows()
    zeroed = np.where(x == 5, 0, x)
    expected = model.get_layer("lstm")(inner.get_layer("embed")(zeroed))
    for at in ("inner/embed", "inner"):
        edited = ramet.trace(model).insert_before(at, Zeroed())
        assert np.array_equal(array(edited.build()(x)), array(expected))
        assert np.array_equal(array(edited.flatten().build()(x)), array(expected))


@pytest.mark.since_keras(3, 14)  # Before, Keras refused a model with an unused input.
def test_an_input_that_comes_back_brings_its_mask_back():
    model, (a, b) = masked_model(), two_rows()
    graph = ramet.trace(model).insert_after("a", Zeroed()).rewire("embed", 0, "a")
    assert np.array_equal(array(graph.build()([a, b])), array(model([a, b])))


class Shifted(layers.Layer):
    """Makes other tokens of tokens."""

    def build(self, _):
        self.offset = self.add_weight(shape=(), initializer="zeros", name="offset")

    def call(self, x):
        return ops.mod(x + ops.cast(self.offset, x.dtype) + 1, 10)


def test_a_layer_that_only_a_former_mask_needed_is_not_tracked():
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    embedding = layers.Embedding(10, 4, mask_zero=True, name="embedding")
    first = embedding(Shifted(name="shifted")(tokens))
    model = keras.Model(tokens, [first, embedding(tokens)])
    built = ramet.trace(model).rewire("embedding#1", 0, "tokens").build()
    assert "shifted" not in {layer.name for layer in built._flatten_layers()}
    assert [weight.path for weight in built.weights] == ["embedding/embeddings"]
