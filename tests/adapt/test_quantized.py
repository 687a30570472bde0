"""Adapters over integers: exact at the start, trained, saved, merged on request."""

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from adaptmodels import data_for, losses, shake, texts
from ramet.errors import GraphError


def model_of(mode):
    model = texts()
    model.quantize(mode)
    return model


def flat(mode):
    """A model that Keras can load: it fails on quantized attention layers, adapted or not."""
    tokens = keras.Input((5,), dtype="int32")
    x = layers.Embedding(7, 8, name="embedding")(tokens)
    x = layers.EinsumDense("abc,cde->abde", (None, 2, 4), name="heads")(x)
    x = layers.EinsumDense("abcd,cde->abe", (None, 8), name="joined")(x)
    x = layers.Dense(6, activation="relu", name="hidden")(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(tokens, layers.Dense(3, name="head")(x))
    model.quantize(mode)
    return model


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.since_keras(3, 15)
def test_adapters_over_integers(mode, tmp_path):
    model = flat(mode)
    x = data_for(model)
    base = model.predict(x, verbose=0)
    adapted = ramet.adapt.lora(model, "*", rank=2, seed=0).build()
    assert np.array_equal(adapted.predict(x, verbose=0), base)
    adapted.compile(keras.optimizers.Adam(0.01), "mse")
    first = losses(adapted, x, 3)
    assert first[-1] < first[0]
    values = map(keras.ops.convert_to_numpy, adapted.trainable_variables)
    assert all(map(np.any, values))
    adapted.save(tmp_path / "a.keras")
    loaded = ramet.files.load(tmp_path / "a.keras")
    assert np.array_equal(loaded.predict(x, verbose=0), adapted.predict(x, verbose=0))
    assert losses(loaded, x) == losses(adapted, x)
    ramet.adapt.use(adapted, None)
    assert np.array_equal(adapted.predict(x, verbose=0), base)


@pytest.mark.sampled
@pytest.mark.since_keras(3, 15)
def test_merging_into_integers():
    model = model_of("int8")
    x = data_for(model)
    adapted = ramet.adapt.lora(model, ["embedding", "hidden", "block/mha"], rank=2).build()
    shake(adapted)
    want = adapted.predict(x, verbose=0)
    with pytest.raises(
        GraphError, match=r"embedding/embeddings, .* are quantized, so that merging"
    ):
        ramet.adapt.merge(adapted)
    graph = ramet.adapt.merge(adapted, requantize=True)
    assert graph.journal[-1].promise == "changed"
    merged = graph.build()
    assert type(merged.get_layer("hidden")) is layers.Dense
    far = np.abs(merged.predict(x, verbose=0) - want).max()
    assert far < 0.2 * np.abs(model.predict(x, verbose=0) - want).max()
    with pytest.raises(GraphError, match="use remove on the adapted model"):
        ramet.adapt.unmerge(merged, adapted)


@pytest.mark.sampled
def test_what_integers_cannot_do():
    with pytest.raises(GraphError, match=r"is quantized \(int8\), so the lengths"):
        ramet.adapt.lora(model_of("int8"), "hidden", rank=2, variant="dora")
    with pytest.raises(GraphError, match=r"is quantized \(float8\) in a way"):
        ramet.adapt.lora(model_of("float8"), "hidden", rank=2)
