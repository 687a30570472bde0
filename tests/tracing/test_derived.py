"""Masks that Keras filled in, told from those that the author passed."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet import keras_internals as internals
from ramet.graph import Ref
from ramet.tracing.derived import same_computation
from ramet.tracing.mask_slots import mask_slots

TOKENS = np.array([[1, 2, 0, 0, 0], [3, 4, 5, 6, 7]])


def as_built(model, _):
    return model


def loaded(model, tmp_path):
    model.save(tmp_path / "m.keras")
    return keras.saving.load_model(tmp_path / "m.keras")


def cloned_by_keras(model, _):
    twin = keras.models.clone_model(model)
    twin.set_weights(model.get_weights())
    return twin


def cloned_by_us(model, _):
    return ramet.clone(model)


EVERY_WAY = pytest.mark.parametrize("way", [as_built, loaded, cloned_by_keras, cloned_by_us])


def masked() -> keras.Model:
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 3, mask_zero=True, name="embedding")(tokens)
    y = layers.LSTM(3, name="second")(layers.LSTM(3, return_sequences=True, name="first")(x))
    z = layers.LSTM(2, name="third")(layers.Concatenate(axis=1, name="twice")([x, x]))
    a = layers.MultiHeadAttention(1, 2, name="attention")(x, x)
    pooled = layers.GlobalAveragePooling1D(name="pool")(a)
    return keras.Model(tokens, layers.Concatenate(name="out")([y, z, pooled]), name="net")


GOLDEN = [
    "tokens: int32[None, 5] = InputLayer()",
    "embedding: float32[None, 5, 3] = Embedding(tokens)",
    "first: float32[None, 5, 3] = LSTM(embedding)",
    "second: float32[None, 3] = LSTM(first)",
    "twice: float32[None, 10, 3] = Concatenate([embedding, embedding])",
    "third: float32[None, 2] = LSTM(twice)",
    "attention: float32[None, 5, 3] = MultiHeadAttention(embedding, embedding)",
    "pool: float32[None, 3] = GlobalAveragePooling1D(attention)",
    "out: float32[None, 8] = Concatenate([second, third, pool])",
    "return out",
]


@EVERY_WAY
def test_a_graph_shows_what_the_author_wrote(way, tmp_path):
    graph = ramet.trace(way(masked(), tmp_path))
    lines = [" ".join(line.split()) for line in str(graph).splitlines()[1:]]
    assert sorted(lines) == sorted(GOLDEN)
    for name in ("first", "second", "third", "pool"):
        assert "mask" in graph.calls[name].derived


def test_derived_parts_are_shown_on_demand():
    graph = ramet.trace(masked())
    assert "derived" in str(graph).splitlines()[0]
    shown = graph.text(derived=True)
    assert "NotEqual(tokens, 0)" in shown
    assert "NotEqual" not in str(graph)
    assert "mask=not_equal" in shown


@EVERY_WAY
def test_masks_that_the_author_passed_stay(way, tmp_path):
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 3, mask_zero=True, name="embedding")(tokens)
    own = ops.not_equal(tokens, 1)
    model = keras.Model(tokens, [layers.GRU(2, name="own")(x, mask=own), ops.cast(own, "float32")])
    graph = ramet.trace(way(model, tmp_path))
    assert "mask" not in graph.calls["own"].derived
    assert "mask=not_equal" in str(graph)


def test_the_same_mask_passed_by_hand_stays_where_keras_filled_in_its_own():
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 3, mask_zero=True, name="embedding")(tokens)
    own = ops.not_equal(tokens, 0)
    model = keras.Model(
        tokens, [layers.GRU(2, name="implicit")(x), layers.GRU(2, name="explicit")(x, mask=own)]
    )
    graph = ramet.trace(model)
    assert "mask" in graph.calls["implicit"].derived
    assert "mask" not in graph.calls["explicit"].derived


def test_a_mask_that_keras_does_not_fill_in_is_the_authors():
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    state = keras.Input((2,), name="state")
    embedding = layers.Embedding(9, 3, mask_zero=True, name="embedding")
    x = embedding(tokens)
    y = layers.GRU(2, name="gru")(x, initial_state=state, mask=x._keras_mask)
    model = keras.Model([tokens, state], y)
    assert "mask" not in ramet.trace(model).calls["gru"].derived
    twin = ramet.clone_model(
        model, clone_function=lambda old: type(old).from_config(old.get_config())
    )
    twin.set_weights(model.get_weights())
    data = [TOKENS, np.ones((2, 2), "float32")]
    assert np.array_equal(*(ops.convert_to_numpy(m(data)) for m in (model, twin)))


def test_a_training_argument_is_derived_only_at_its_default():
    x = keras.Input((3,))
    y = layers.BatchNormalization(name="frozen")(x, training=False)
    y = layers.Dropout(0.5, name="plain")(y)
    y = layers.Dropout(0.5, name="always")(y, training=True)
    graph = ramet.trace(keras.Model(x, y))
    assert {n: sorted(graph.calls[n].derived) for n in ("frozen", "plain", "always")} == {
        "frozen": [],
        "plain": ["training"],
        "always": [],
    }


def test_same_computation():
    x = keras.Input((5,), dtype="int32")
    dense = layers.Dense(2)
    assert same_computation(ops.not_equal(x, 0), ops.not_equal(x, 0))
    assert same_computation(ops.expand_dims(x > 1, 1), ops.expand_dims(x > 1, 1))
    assert not same_computation(ops.expand_dims(x > 1, 1), ops.expand_dims(x > 1, 2))
    assert not same_computation(ops.not_equal(x, 0), ops.not_equal(x, 1))
    assert not same_computation(ops.not_equal(x, 0), ops.equal(x, 0))
    assert not same_computation(dense(x), dense(x))
    assert not same_computation(x, keras.Input((5,), dtype="int32"))
    assert same_computation(x + np.ones(5, "int32"), x + np.ones(5, "int32"))
    assert not same_computation(x + np.ones(5, "int32"), x + np.zeros(5, "int32"))


def without_masking(layer):
    config = layer.get_config()
    if isinstance(layer, layers.Embedding):
        config["mask_zero"] = False
    return type(layer).from_config(config)


@EVERY_WAY
def test_switching_masking_off_takes_effect_everywhere_below(way, tmp_path):
    model = way(masked(), tmp_path)
    twin = ramet.clone_model(model, clone_function=without_masking)
    twin.set_weights(model.get_weights())
    named = {layer.name: layer for layer in twin.layers}
    x = named["embedding"](TOKENS)
    y = named["second"](named["first"](x))
    z = named["third"](ops.concatenate([x, x], axis=1))
    pooled = ops.mean(named["attention"](x, x), axis=1)
    by_hand = ops.convert_to_numpy(ops.concatenate([y, z, pooled], axis=-1))
    np.testing.assert_allclose(ops.convert_to_numpy(twin(TOKENS)), by_hand, atol=1e-6)
    assert not np.allclose(ops.convert_to_numpy(model(TOKENS)), by_hand, atol=1e-4)
    assert not [op for op in twin.operations if type(op).__name__ == "NotEqual"]


class TwoMasks(layers.Layer):
    """Keras fills in `mask` only where no other mask is passed."""

    def call(self, x, weight_mask=None, mask=None):
        for each in (weight_mask, mask):
            if each is not None:
                x = x * ops.cast(ops.expand_dims(each, -1), x.dtype)
        return x


@pytest.mark.parametrize("both", [True, False])
def test_a_mask_that_keras_would_not_have_filled_in_was_written(both):
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 3, mask_zero=True, name="embedding")(tokens)
    mask = internals.get_keras_mask(x)
    given = {"weight_mask": ops.not_equal(tokens, 1), "mask": mask} if both else {}
    y = layers.Dense(3, name="dense")(TwoMasks(name="two")(x, **given))
    model = keras.Model(tokens, y)
    graph = ramet.trace(model)
    assert ("mask" in graph.calls["two"].written) == both
    edited = graph.insert_after("two", layers.Identity(name="same")).build()
    expected = ops.convert_to_numpy(model(TOKENS))
    np.testing.assert_array_equal(ops.convert_to_numpy(edited(TOKENS)), expected)
    # Called, not replayed: with other weights above it.
    called = graph.configure("embedding", embeddings_initializer="ones").build()
    np.testing.assert_array_equal(ops.convert_to_numpy(called(TOKENS)), expected)


def test_the_slots_of_masks_are_those_that_keras_fills_in():
    x, m = keras.Input((5, 3)), keras.Input((5,), dtype="bool")

    def slots(layer, *args, **kwargs):
        return [(s.name, s.filled) for s in mask_slots(layer, args, kwargs)]

    attention = layers.MultiHeadAttention(1, 2)
    assert slots(layers.LSTM(2), x) == [("mask", True)]
    assert slots(layers.LSTM(2), x, mask=m) == [("mask", False)]
    assert slots(layers.LSTM(2), x, initial_state=[x, x]) == [("mask", False)]
    assert slots(attention, x, x) == [("query_mask", True), ("value_mask", True)]
    assert slots(attention, Ref("x"), Ref("x"), training=True) == slots(attention, x, x)
    assert slots(TwoMasks(), x) == [("mask", True)]
    assert slots(TwoMasks(), x, weight_mask=m) == [("mask", False)]
    assert slots(TwoMasks(), np.ones((1, 5, 3))) == [("mask", True)]
    assert slots(layers.Dense(2), x) == []
