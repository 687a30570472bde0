"""One decoder on its way: wider, pruned, fine-tuned, merged, quantized and saved."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet

TOKENS = np.random.default_rng(0).integers(0, 40, (3, 12)).astype("int32")


def decoder() -> keras.Model:
    tokens = keras.Input((12,), dtype="int32", name="tokens")
    embedding = layers.ReversibleEmbedding(40, 24, name="embedding")
    x = embedding(tokens)
    h = layers.RMSNormalization(name="norm_1")(x)
    h = layers.GroupQueryAttention(6, 4, 2, name="attention")(h, h, use_causal_mask=True)
    x = layers.Add(name="add_1")([x, h])
    h = layers.RMSNormalization(name="norm_2")(x)
    gate = layers.Dense(32, activation="silu", name="gate")(h)
    h = layers.Multiply(name="gated")([gate, layers.Dense(32, name="up")(h)])
    x = layers.Add(name="add_2")([x, layers.Dense(24, name="down")(h)])
    x = layers.RMSNormalization(name="norm_3")(x)
    return keras.Model(tokens, embedding(x, reverse=True), name="decoder")


def compiled(model: keras.Model) -> keras.Model:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    return model


def outputs(model: keras.Model) -> np.ndarray:
    return ops.convert_to_numpy(model(TOKENS))


@pytest.mark.since_keras(3, 15)
def test_a_decoder_goes_all_the_way(tmp_path):
    model = compiled(decoder())
    model.fit(TOKENS, TOKENS, verbose=0)

    wider = ramet.compress.widen(model, "embedding", 30)
    ramet.prove(wider).raise_if_broken()
    wide = wider.build()
    np.testing.assert_allclose(outputs(wide), outputs(model), atol=1e-5)
    assert np.isfinite(wide.fit(TOKENS, TOKENS, verbose=0).history["loss"][0])

    smaller = ramet.compress.prune(wide, ratio=0.3)
    ramet.prove(smaller).raise_if_broken()
    small = smaller.build()
    assert small.count_params() < wide.count_params()

    at = ["up", "down", "**/query*"]
    adapted = compiled(ramet.adapt.lora(small, at, rank=2, dropout=0.1).build())
    np.testing.assert_array_equal(outputs(adapted), outputs(small))
    adapted.fit(TOKENS, TOKENS, epochs=2, verbose=0)
    assert not np.array_equal(outputs(adapted), outputs(small))
    merged = ramet.adapt.merge(adapted).build()
    np.testing.assert_allclose(outputs(merged), outputs(adapted), atol=1e-6)

    modes = {"up": "gptq", "*": "int8"}
    tiny = ramet.adapt.quantize(merged, modes, skip="embedding", data=TOKENS).build()
    assert np.abs(outputs(tiny) - outputs(merged)).max() < 0.2 * np.abs(outputs(merged)).max()
    ramet.files.save(tiny, tmp_path / "tiny.keras")
    loaded = ramet.files.load(tmp_path / "tiny.keras")
    np.testing.assert_array_equal(outputs(loaded), outputs(tiny))
    assert ramet.verify(tiny, loaded, only=["sharing", "state", "outputs", "training"])
