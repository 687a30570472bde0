"""Adapters on models that broke once."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from adaptmodels import bits, losses, shake
from ramet.errors import FileError, GraphError, OptionError

X = np.random.default_rng(2).standard_normal((8, 6)).astype("float32")


def nested():
    x = keras.Input((6,))
    inner = keras.Sequential([keras.Input((6,)), layers.Dense(6, name="i")], name="inner")
    deep = keras.Model(x, layers.Dense(6, name="below")(inner(x)), name="deep")
    i = keras.Input((6,))
    return keras.Model(i, layers.Dense(3, name="head")(deep(i)), name="net")


def flags(model):
    return [(layer.name, layer.trainable) for layer in model._flatten_layers(include_self=False)]


@pytest.mark.sampled
@pytest.mark.parametrize("frozen", ["net", "deep", "deep/inner"])
def test_models_inside_that_were_frozen_as_a_whole(frozen):
    model = nested()
    part = model
    for step in frozen.split("/") if frozen != "net" else ():
        part = part.get_layer(step)
    part.trainable = False
    before = flags(model)
    adapted = ramet.adapt.lora(model, ["deep/inner/i", "head"], rank=2).build()
    assert len(adapted.trainable_variables) == 4
    assert all("/adapters/" in variable.path for variable in adapted.trainable_variables)
    shake(adapted)
    for base in (ramet.adapt.remove(adapted).build(), ramet.adapt.merge(adapted).build()):
        assert flags(base) == before
    assert flags(model) == before


def test_a_frozen_base_can_be_shared():
    model = nested()
    with pytest.raises(OptionError, match=r"would stop training there too|model.trainable = False"):
        ramet.adapt.lora(model, "i", rank=2).build(weights="share")
    with pytest.raises(OptionError, match=r"freeze the source: model.trainable = False"):
        ramet.adapt.lora(model, "*", rank=2).build(weights="share")
    model.trainable = False
    start = bits(model)
    adapted = ramet.adapt.lora(model, ["i", "head"], rank=2).build(weights="share")
    own = {id(variable) for variable in model.variables}
    assert sum(id(variable) in own for variable in adapted.variables) == len(own)
    base = model.predict(X, verbose=0)
    assert np.array_equal(adapted.predict(X, verbose=0), base)
    adapted.compile(keras.optimizers.Adam(0.05), "mse")
    first = losses(adapted, X)
    assert first[-1] < first[0]
    assert bits(model) == start
    assert np.array_equal(model.predict(X, verbose=0), base)
    assert not model.trainable_variables
    for edit in (ramet.adapt.merge, ramet.adapt.remove):
        with pytest.raises(OptionError, match="has variables that change"):
            edit(adapted).build(weights="share")
    with pytest.raises(OptionError, match="has variables that change"):
        ramet.adapt.lora(adapted, "head", rank=1, name="b").build(weights="share")
    merged = ramet.adapt.merge(adapted).build()
    assert np.allclose(merged.predict(X, verbose=0), adapted.predict(X, verbose=0), atol=1e-6)
    assert bits(model) == start


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_layers_of_low_precision_stay_so(dtype):
    x = keras.Input((6,))
    model = keras.Model(x, layers.Dense(4, activation="tanh", name="d", dtype=dtype)(x))
    adapted = ramet.adapt.lora(model, "d", rank=2).build()
    outputs = [each(X) for each in (model, adapted)]
    assert {keras.backend.standardize_dtype(each.dtype) for each in outputs} == {dtype}
    assert np.array_equal(*(each.predict(X, verbose=0) for each in (model, adapted)))
    assert "norm" not in str(ramet.adapt.merge(ramet.adapt.lora(model, "d", rank=2)).journal)
    shake(adapted)
    graph = ramet.adapt.merge(adapted)
    text = " ".join(str(graph.journal).split())
    assert f"1 kernel rounded to {dtype}, by up to" in text
    merged = graph.build()
    assert np.array_equal(*(each.predict(X, verbose=0) for each in (adapted, merged)))
    layer, kernel = adapted.get_layer("d"), merged.get_layer("d").kernel
    adapters = layer.adapters.by_kernel()["", "kernel"]
    exact, now = (
        keras.ops.convert_to_numpy(keras.ops.cast(each, "float32")).astype("float64")
        for each in (layer.adapters.adapted(layer.kernel, adapters), kernel)
    )
    error = np.linalg.norm(now - exact) / np.linalg.norm(exact)
    assert f"{error:.1e}" in text
    assert 0 < error < 1e-2
    assert "0.0e+00" in str(ramet.adapt.merge(adapted, {"default": 0.0}).journal)


@pytest.mark.sampled
def test_convolutional_recurrence(tmp_path):
    x = keras.Input((2, 3, 3, 2))
    y = layers.GlobalAveragePooling2D()(layers.ConvLSTM2D(2, 2, name="rnn")(x))
    model = keras.Model(x, layers.Dense(3, name="head")(y))
    data = np.random.default_rng(0).standard_normal((8, 2, 3, 3, 2)).astype("float32")
    adapted = ramet.adapt.lora(model, "rnn", rank=1).build()
    assert [v.path.split("/")[-1] for v in adapted.trainable_variables] == [
        f"default_{number}_{role}" for number in (0, 1) for role in ("down", "up")
    ]
    assert np.array_equal(*(each.predict(data, verbose=0) for each in (model, adapted)))
    shake(adapted)
    merged = ramet.adapt.merge(adapted).build()
    assert np.array_equal(*(each.predict(data, verbose=0) for each in (merged, adapted)))
    adapted.save(tmp_path / "a.keras")
    loaded = keras.models.load_model(tmp_path / "a.keras")
    assert [v.trainable for v in loaded.variables] == [v.trainable for v in adapted.variables]


@keras.saving.register_keras_serializable("hunted")
class Late(layers.Layer):
    """A user's layer that builds what it has when it is called first."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units, self.dense, self.norm = units, layers.Dense(units), layers.LayerNormalization()

    def call(self, x):
        return self.norm(self.dense(x))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


@pytest.mark.sampled
def test_a_layer_that_is_built_late(tmp_path):
    def make():
        x = keras.Input((6,))
        return keras.Model(x, layers.Dense(3, name="head")(Late(5, name="late")(x)), name="net")

    model = make()
    adapted = ramet.adapt.lora(model, "late", rank=2).build()
    shake(adapted)
    adapted.compile("sgd", "mse")
    adapted.save(tmp_path / "a.keras")
    loaded = keras.models.load_model(tmp_path / "a.keras")
    assert [v.trainable for v in loaded.variables] == [v.trainable for v in adapted.variables]
    assert losses(loaded, X, 1) == losses(adapted, X, 1)
    ramet.adapt.save(adapted, tmp_path / "a.safetensors")
    other = make()  # Keras gives the Dense layer inside another name
    other.set_weights(model.get_weights())
    twin = ramet.adapt.load(other, tmp_path / "a.safetensors").build()
    assert np.array_equal(*(each.predict(X, verbose=0) for each in (adapted, twin)))


def with_peft(tmp_path, model, at="*", **options):
    adapted = ramet.adapt.lora(model, at, rank=1, **options).build()
    shake(adapted)
    ramet.adapt.save(adapted, tmp_path / "a", format="peft")
    config = tmp_path / "a" / "adapter_config.json"
    return adapted, config, json.loads(Path(config).read_text())


@pytest.mark.one_backend
def test_entries_of_peft_that_change_what_is_computed(tmp_path):
    model = nested()
    _, config, plain = with_peft(tmp_path, model, "head")
    for key, value in {
        "init_lora_weights": "pissa",  # it changes the kernels of the base
        "trainable_token_indices": {"emb": [1]},
        "alora_invocation_tokens": [3],
        "use_something_new": True,
        "peft_type": None,
    }.items():
        config.write_text(json.dumps(plain | {key: value}))
        with pytest.raises(FileError, match=f"with {key}=.*merge it with PEFT"):
            ramet.adapt.load(model, tmp_path / "a")
    config.write_text(json.dumps(plain | {"something_new": None, "fan_in_fan_out": True}))
    assert ramet.adapt.load(model, tmp_path / "a")


@pytest.mark.one_backend
def test_the_first_pattern_of_peft_counts(tmp_path):
    model = nested()
    _, config, plain = with_peft(tmp_path, model, "below")
    patterns = {"below": 3, "deep.below": 5}
    config.write_text(json.dumps(plain | {"alpha_pattern": patterns}))
    loaded = ramet.adapt.load(model, tmp_path / "a").build()
    assert loaded.get_layer("deep").get_layer("below").adapters.entries[0].alpha == 3


@pytest.mark.one_backend
def test_convolutions_in_the_form_of_peft(tmp_path):
    x = keras.Input((5, 4))
    y = layers.Conv1D(4, 2, groups=2, name="grouped")(layers.Conv1D(4, 2, name="conv")(x))
    model = keras.Model(x, y)
    data = np.random.default_rng(0).standard_normal((2, 5, 4)).astype("float32")
    adapted, _, _ = with_peft(tmp_path, model, "conv", variant="dora")
    again = ramet.adapt.load(model, tmp_path / "a").build()
    assert np.allclose(*(each.predict(data, verbose=0) for each in (adapted, again)), atol=1e-6)
    grouped = ramet.adapt.lora(model, "grouped", rank=1).build()
    with pytest.raises(GraphError, match="PEFT cannot represent the kernel 'grouped/kernel'"):
        ramet.adapt.save(grouped, tmp_path / "b", format="peft")


@pytest.mark.one_backend
def test_other_tools_on_adapted_models():
    x = keras.Input((6,))
    model = keras.Model(x, layers.Dense(3, name="d")(x), name="net")
    adapted = ramet.adapt.lora(model, "d", rank=2).build()
    assert ramet.profile(adapted).macs == 6 * 3 + 6 * 3 * 2  # and the product of the factors
    for graph in (adapted, ramet.adapt.merge(adapted)):
        with pytest.raises(GraphError, match="it has adapters; merge them and build the graph"):
            ramet.adapt.quantize(graph, {"d": "int8"})
        with pytest.raises(GraphError, match="it has adapters; merge them and build the graph"):
            ramet.adapt.cast(graph, "d", "mixed_bfloat16")
