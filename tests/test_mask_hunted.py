"""Small models whose masks once came out wrong."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from sequences import SIGNAL, TOKENS, randomize

pytestmark = pytest.mark.filterwarnings("ignore:Layer .* was passed an input with a mask")


def numbers(value) -> np.ndarray:
    return np.asarray(ops.convert_to_numpy(value))


def plain(tree):
    """Takes values off their tensors, so that no mask rides along."""
    return keras.tree.map_structure(numbers, tree)


def halves(model, at):
    head, tail = ramet.trace(model).split(at)
    return head.build(), tail.build()


def test_halves_agree_on_which_tensor_is_masked():
    signal = keras.Input((6, 3), name="signal")
    masked, bare = layers.Masking(name="b")(signal), layers.Dense(3, name="a")(signal)
    outputs = [layers.GRU(2, name="x")(masked), layers.GRU(2, name="y")(bare)]
    model = randomize(keras.Model(signal, outputs))
    head, tail = halves(model, ["b", "a"])
    for ours, theirs in zip(tail(head(SIGNAL)), model(SIGNAL), strict=True):
        np.testing.assert_allclose(numbers(ours), numbers(theirs), atol=1e-6)


def test_a_cut_above_attention_keeps_the_mask_of_the_query():
    signal = keras.Input((6, 3), name="signal")
    x = layers.Masking(name="masking")(signal)
    model = randomize(keras.Model(signal, layers.MultiHeadAttention(1, 2, name="attend")(x, x)))
    head, tail = halves(model, "masking")
    expected = numbers(model(SIGNAL))
    np.testing.assert_allclose(numbers(tail(plain(head(SIGNAL)))), expected, atol=1e-6)


def inner(*parts, shape=(6, 3), **options) -> keras.Model:
    start = x = keras.Input(shape, **options)
    for part in parts:
        x = part(x)
    return keras.Model(start, x, name="inner")


@pytest.mark.parametrize("at", ["inner", "after"])
def test_a_cut_below_a_nested_model_keeps_the_mask(at):
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    embed = layers.Embedding(9, 3, mask_zero=True)
    x = inner(embed, shape=(6,), dtype="int32")(tokens)
    x = layers.LayerNormalization(name="after")(x)
    model = randomize(keras.Model(tokens, layers.GRU(2, name="gru")(x)))
    head, tail = halves(model, at)
    expected = numbers(model(TOKENS))
    np.testing.assert_allclose(numbers(tail(plain(head(TOKENS)))), expected, atol=1e-6)


@pytest.mark.parametrize("way", [lambda x: x, plain])
def test_a_cut_above_a_nested_model_keeps_the_mask_of_what_it_gives(way):
    signal = keras.Input((6, 3), name="signal")
    x = layers.Masking(name="masking")(signal)
    y = inner(layers.LayerNormalization())(x)
    model = randomize(keras.Model(signal, layers.Attention(name="attend")([x, y])))
    head, tail = halves(model, "masking")
    expected = numbers(model(SIGNAL))
    np.testing.assert_allclose(numbers(tail(way(head(SIGNAL)))), expected, atol=1e-6)


def nested_sequential() -> keras.Model:
    nested = keras.Sequential([keras.Input((6, 3)), layers.Dense(3, name="inside")], name="nested")
    signal = keras.Input((6, 3), name="signal")
    return keras.Model(signal, nested(layers.Masking(name="masking")(signal)))


def test_a_nested_sequential_model_takes_a_shorter_sequence():
    model = randomize(nested_sequential())
    made = ramet.trace(model).insert_after("masking", layers.MaxPooling1D(2)).build()
    by_hand = model.get_layer("nested").layers[0](layers.MaxPooling1D(2)(SIGNAL))
    np.testing.assert_allclose(numbers(made(SIGNAL)), numbers(by_hand), atol=1e-6)


def test_what_a_nested_sequential_model_cannot_take_is_said():
    graph = ramet.trace(nested_sequential()).insert_after("masking", layers.Dense(5))
    message = r"'inside' .* of 'nested' cannot take \(None, 6, 5\)"
    with pytest.raises(ramet.GraphError, match=message):
        graph.build()


def loaded(model, folder) -> keras.Model:
    model.save(folder / "m.keras")
    return keras.saving.load_model(folder / "m.keras")


def test_a_loaded_model_forgets_the_mask_of_a_replaced_layer(tmp_path):
    tokens = keras.Input((6,), dtype="int32", name="tokens")
    x = layers.Embedding(9, 3, mask_zero=True, name="embedding")(tokens)
    model = loaded(randomize(keras.Model(tokens, layers.GRU(2, name="gru")(x))), tmp_path)
    graph = ramet.trace(model).replace("embedding", layers.Embedding(9, 3, name="embedding"))
    made = graph.build()
    by_hand = made.get_layer("gru")(made.get_layer("embedding")(TOKENS))
    np.testing.assert_allclose(numbers(made(TOKENS)), numbers(by_hand), atol=1e-6)


def test_a_loaded_model_forgets_the_mask_of_a_removed_layer(tmp_path):
    signal = keras.Input((6, 3), name="signal")
    x = layers.Masking(name="masking")(signal)
    model = loaded(randomize(keras.Model(signal, layers.GRU(2, name="gru")(x))), tmp_path)
    made = ramet.trace(model).remove("masking").build()
    by_hand = made.get_layer("gru")(SIGNAL)
    np.testing.assert_allclose(numbers(made(SIGNAL)), numbers(by_hand), atol=1e-6)
