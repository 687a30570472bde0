"""Dropout of adapters: in training, on what the updates read, and nowhere else."""

import json

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from adaptmodels import bits, losses, shake
from ramet.errors import FileError, GraphError, OptionError

X = np.random.default_rng(0).standard_normal((8, 6)).astype("float32")


def dense(**options):
    x = keras.Input((6,), name="x")
    y = layers.Dense(5, activation="tanh", name="d", **options)(x)
    return keras.Model(x, layers.Dense(3, name="head")(y), name="net")


def attention():
    x = keras.Input((4, 6), name="x")
    y = layers.MultiHeadAttention(2, 3, name="mha")(x, x)
    y = layers.Conv1D(4, 2, padding="causal", activation="relu", name="conv")(y)
    y = layers.DepthwiseConv1D(2, depth_multiplier=2, name="depthwise")(y)
    y = layers.Conv1DTranspose(4, 2, activation="gelu", name="transpose")(y)
    y = layers.Conv1D(4, 1, groups=2, name="grouped")(y)
    y = layers.EinsumDense("abc,cd->abd", (None, 4), bias_axes="d", name="einsum")(y)
    return keras.Model(
        x, layers.Dense(3, name="head")(layers.GlobalAveragePooling1D()(y)), name="net"
    )


def called(model, x, training):
    return keras.ops.convert_to_numpy(model(x, training=training))


def test_the_formula():
    adapted = ramet.adapt.lora(dense(), "d", rank=2, alpha=4, dropout=0.5, seed=3).build()
    shake(adapted)
    layer = adapted.get_layer("d")
    twin = keras.random.SeedGenerator(0)
    twin.state.assign(layer.adapters.seed_generator.state)
    dropped = keras.ops.convert_to_numpy(
        keras.random.dropout(keras.ops.convert_to_tensor(X), 0.5, seed=twin)
    )
    values = {v.name: keras.ops.convert_to_numpy(v) for v in layer.variables}
    update = 2 * values["default_0_down"] @ values["default_0_up"]
    want = np.tanh(X @ values["kernel"] + dropped @ update + values["bias"])
    have = keras.ops.convert_to_numpy(layer(X, training=True))
    assert np.allclose(have, want, atol=1e-5)
    assert 0 < np.sum(dropped == 0) < dropped.size
    assert not np.array_equal(keras.ops.convert_to_numpy(layer(X, training=True)), have)
    without = ramet.adapt.lora(dense(), "d", rank=2, alpha=4, seed=3).build()
    without.set_weights([each for each in adapted.get_weights() if each.dtype == "float32"])
    assert np.array_equal(called(adapted, X, training=False), called(without, X, training=False))


QUANTIZED = pytest.param("int8", marks=pytest.mark.sampled)


@pytest.mark.parametrize(
    "variant", ["lora", pytest.param("dora", marks=pytest.mark.sampled), QUANTIZED]
)
def test_every_layer_has_two_paths(variant, monkeypatch):
    """With all inputs kept, training computes what inference does; with none, the base."""
    keras.utils.set_random_seed(0)
    model = attention()
    x = 3 * np.random.default_rng(1).standard_normal((2, 4, 6)).astype("float32")
    at = "*"
    if variant == "int8":
        at = ["einsum", "head"]
        model = ramet.adapt.quantize(model, {"einsum": "int8", "head": "int8"}).build()
        variant = "lora"
    adapted = ramet.adapt.lora(model, at, rank=1, variant=variant, dropout=0.4).build()
    shake(adapted)
    want, base = called(adapted, x, training=False), called(model, x, training=False)
    assert not np.allclose(want, base, atol=1e-3)
    assert not np.allclose(called(adapted, x, training=True), want, atol=1e-4)
    monkeypatch.setattr(keras.random, "dropout", lambda inputs, *_, **__: inputs)
    assert np.allclose(called(adapted, x, training=True), want, atol=2e-5)
    monkeypatch.setattr(keras.random, "dropout", lambda inputs, *_, **__: inputs * 0)
    assert np.allclose(called(adapted, x, training=True), base, atol=2e-5)


def test_training_goes_on_after_saving_as_without(tmp_path):
    model = attention()
    x = np.random.default_rng(1).standard_normal((8, 4, 6)).astype("float32")
    graph = ramet.adapt.lora(model, ["**/query", "head"], rank=2, dropout=0.3)
    assert graph.journal[-1].promise == "equal"
    adapted = graph.build()
    assert np.array_equal(called(adapted, x, training=True), called(model, x, training=True))
    paths = [
        v.path for v in adapted.variables if "seed_generator" in v.path and "/adapters/" in v.path
    ]
    assert sorted(each.partition("/")[0] for each in paths) == ["head", "mha"]
    adapted.compile(keras.optimizers.Adam(0.01), "mse")
    losses(adapted, x, 1)
    adapted.save(tmp_path / "a.keras")
    loaded, checked = keras.models.load_model(tmp_path / "a.keras"), ramet.clone(adapted)
    assert ramet.files.load(tmp_path / "a.keras")
    expected = losses(adapted, x)
    assert losses(loaded, x) == expected
    assert losses(checked, x) == expected
    base = ramet.adapt.remove(adapted).build()
    assert bits(base) == bits(model)
    assert str(base.get_config()) == str(model.get_config())


@pytest.mark.sampled
def test_several_adapters_drop_on_their_own():
    one = ramet.adapt.lora(dense(), "d", rank=2, name="fr", dropout=0.5).build()
    two = ramet.adapt.lora(one, "d", rank=1, name="de").build()
    shake(two)
    still = [called(two, X, training=True) for _ in range(2)]
    assert np.allclose(*still)  # only `de` is in use, which has none
    ramet.adapt.use(two, "fr")
    moving = [called(two, X, training=True) for _ in range(2)]
    assert not np.allclose(*moving)


@pytest.mark.sampled
def test_another_thread_does_not_notice():
    """While one thread trains, another one may call the model."""
    from threading import Thread

    x = np.random.default_rng(1).standard_normal((2, 4, 6)).astype("float32")
    adapted = ramet.adapt.lora(attention(), "**/query", rank=1, dropout=0.5).build()
    shake(adapted)
    want, differ = called(adapted, x, training=False), []

    def train():
        for _ in range(20):
            called(adapted, x, training=True)

    def infer():
        outputs = [called(adapted, x, training=False) for _ in range(20)]
        differ.extend(np.abs(each - want).max() for each in outputs)

    threads = [Thread(target=each) for each in (train, infer)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert max(differ) == 0
    assert not {"call", "quantized_call"} & {*vars(adapted.get_layer("mha")._query_dense)}


@pytest.mark.one_backend
def test_what_cannot_have_dropout():
    tokens = keras.Input((5,), dtype="int32", name="t")
    y = layers.GRU(4, name="gru")(layers.Embedding(7, 6, name="emb")(tokens))
    model = keras.Model(tokens, layers.Dense(3, name="head")(y), name="net")

    def refused(match, at, dropout, error=GraphError):
        before = bits(model)
        with pytest.raises(error, match=match):
            ramet.adapt.lora(model, at, rank=1, dropout=dropout)
        assert bits(model) == before

    refused(r"'emb/embeddings' cannot .* numbers of rows; pass dropout=\{pattern", "*", 0.1)
    refused("GRU calls what is inside once for every time step", "gru", 0.1)
    refused("below 1, got 1", "head", 1, OptionError)
    refused("dropout must be a number, got 'x'", "head", "x", OptionError)
    refused("dropout must be at least 0", "head", {"head": -0.1}, OptionError)
    refused(
        "no kernel that is adapted is named by dropout='emb'; adapted are: head",
        "head",
        {"emb": 0.1},
    )
    adapted = ramet.adapt.lora(model, "*", rank=1, dropout={"head": 0.1}).build()
    assert adapted.get_layer("head").adapters.entries[0].targets[0].dropout == 0.1
    assert adapted.get_layer("emb").adapters.seed_generator is None


class Squared(layers.Dense):
    """A user's layer, which computes something else than a Dense layer does."""

    def call(self, inputs, training=None):
        return keras.ops.square(super().call(inputs, training=training))


@pytest.mark.one_backend
def test_a_users_layer_cannot_have_dropout():
    x = keras.Input((6,))
    model = keras.Model(x, Squared(3, name="d")(x))
    with pytest.raises(GraphError, match="what Squared computes is not known"):
        ramet.adapt.lora(model, "d", rank=1, dropout=0.1)


@pytest.mark.one_backend
def test_in_the_form_of_peft(tmp_path):
    model = dense()
    adapted = ramet.adapt.lora(model, "*", rank=1, dropout=0.25).build()
    ramet.adapt.save(adapted, tmp_path / "a", format="peft")
    config = tmp_path / "a" / "adapter_config.json"
    plain = json.loads(config.read_text())
    assert plain["lora_dropout"] == 0.25
    again = ramet.adapt.load(model, tmp_path / "a").build()
    targets = [again.get_layer(name).adapters.entries[0].targets[0] for name in ("d", "head")]
    assert [target.dropout for target in targets] == [0.25, 0.25]
    for wrong in ("x", -1, 1, True, [0.1]):
        config.write_text(json.dumps(plain | {"lora_dropout": wrong}))
        with pytest.raises(FileError, match=r"has lora_dropout=.*, which is no rate"):
            ramet.adapt.load(model, tmp_path / "a")
    mixed = ramet.adapt.lora(model, "*", rank=1, dropout={"d": 0.1}).build()
    with pytest.raises(
        GraphError, match=r"PEFT has one dropout for all kernels, not 0\.1 for 'd/kernel'"
    ):
        ramet.adapt.save(mixed, tmp_path / "b", format="peft")
    ramet.adapt.save(mixed, tmp_path / "b.safetensors")
    loaded = ramet.adapt.load(model, tmp_path / "b.safetensors").build()
    assert loaded.get_layer("d").adapters.entries == mixed.get_layer("d").adapters.entries
