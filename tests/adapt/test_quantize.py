"""Layers quantized by name: Keras's bits, everything else as it was."""

import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet.adapt import quantize
from ramet.graph.data import Edit

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 6)).astype("float32")
Y = np.ones((16, 2), "float32")
IMAGES = RNG.normal(size=(4, 8, 8, 3)).astype("float32")


def mixed() -> keras.Model:
    """Dense layers, also in a nested model, and an einsum; compiled, with optimizer slots."""
    x = keras.Input((6,), name="x")
    y = layers.Dense(5, activation="relu", name="first")(x)
    inside = [keras.Input((5,)), layers.Dense(7, name="ffn1"), layers.Dense(6, name="ffn2")]
    y = keras.Sequential(inside, name="encoder")(y)
    y = layers.EinsumDense("ab,bcd->acd", (3, 4), bias_axes="cd", name="einsum")(y)
    y = layers.Dense(2, name="head")(layers.Flatten(name="flat")(y))
    model = keras.Model(x, y, name="mixed")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.fit(X, Y, verbose=0)
    return model


def values(model: Any) -> dict[str, np.ndarray]:
    return {v.path: ops.convert_to_numpy(v) for v in model.variables if "seed" not in v.path}


def losses(model: Any, x: Any = X, y: Any = Y) -> list[float]:
    return model.fit(x, y, shuffle=False, epochs=2, verbose=0).history["loss"]


@pytest.mark.parametrize(
    "mode",
    ["int8", *(pytest.param(mode, marks=pytest.mark.sampled) for mode in ("int4", "float8"))],
)
def test_the_bits_are_those_of_keras(mode: str, tmp_path: Path) -> None:
    model = mixed()
    before = values(model)
    graph = quantize(model, {"**/ffn*": mode, "*": "int8"}, skip="head")
    assert graph.journal[-1].promise == "changed"
    assert graph.journal[-1].count == 4
    twin, reference = graph.build(), ramet.clone(model)
    for name in ("first", "einsum"):
        reference.get_layer(name).quantize("int8")
    for layer in reference.get_layer("encoder").layers:
        layer.quantize(mode)
    now, expected = values(twin), values(reference)
    assert now.keys() == expected.keys()
    for path, value in now.items():
        assert value.dtype == expected[path].dtype
        assert (value == expected[path]).all(), path
    assert (twin.predict(X, verbose=0) == reference.predict(X, verbose=0)).all()
    assert all((value == before[path]).all() for path, value in values(model).items())
    assert ramet.verify(model, graph)
    assert ramet.verify(twin, ramet.clone(twin))
    path = tmp_path / "model.keras"
    twin.save(path)
    loaded = keras.models.load_model(path)
    assert losses(loaded) == losses(twin)


def test_slots_of_what_still_trains_go_on() -> None:
    report = quantize(mixed(), {"first": "int8"}).transfer_report()
    assert {each.path for each in report.of("computed")} == {"first/kernel", "first/kernel_scale"}
    assert report.optimizer == "adam: 18 slots kept, 2 dropped"


def test_convolutions_get_int8_kernels(tmp_path: Path) -> None:
    x = keras.Input((8, 8, 3))
    y = layers.Conv2D(4, 3, activation="relu", name="conv")(x)
    y = layers.DepthwiseConv2D(3, depth_multiplier=2, use_bias=False, name="depthwise")(y)
    inside = [keras.Input((4, 4, 8)), layers.Conv2D(4, 1, groups=2, name="grouped")]
    y = keras.Sequential(inside, name="encoder")(y)
    shared = layers.Conv2DTranspose(4, 2, name="transposed")
    y = layers.GlobalAveragePooling2D()(shared(shared(y)))
    model = keras.Model(x, y, name="convolutions")
    model.compile("adam", "mse")
    targets = np.ones((4, 4), "float32")
    model.fit(IMAGES, targets, verbose=0)
    graph = quantize(model, {"*": "int8"})
    twin = graph.build()
    assert [layer.name for layer in twin.layers] == [layer.name for layer in model.layers]
    assert twin.get_layer("conv").get_config()["filters"] == 4
    assert {v.path for v in model.variables} <= {v.path for v in twin.variables}
    for name in ("conv", "depthwise", "transposed"):
        now, before = twin.get_layer(name), model.get_layer(name)
        kernels = [ops.convert_to_numpy(layer.kernel) for layer in (now, before)]
        steps = np.broadcast_to(ops.convert_to_numpy(now.kernel_scale), kernels[0].shape)
        assert (np.abs(kernels[0] - kernels[1]) <= steps * 0.50001).all()
        assert now.int8_kernel.dtype == "int8"
    outputs = [each.predict(IMAGES, verbose=0) for each in (model, twin)]
    assert np.abs(outputs[0] - outputs[1]).max() < 0.03 * np.abs(outputs[0]).max()
    assert ramet.verify(model, graph)
    assert ramet.verify(twin, ramet.clone(twin))
    path = tmp_path / "model.keras"
    twin.save(path)
    loaded = ramet.files.load(path)  # its classes are known without trust
    assert (loaded.predict(IMAGES, verbose=0) == outputs[1]).all()
    assert losses(loaded, IMAGES, targets) == losses(twin, IMAGES, targets)
    with pytest.raises(NotImplementedError, match="cannot have LoRA weights"):
        twin.get_layer("conv").enable_lora(2)


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.sampled
def test_attention_is_quantized_and_saved(mode: str, tmp_path: Path) -> None:
    x = keras.Input((5, 8), name="x")
    y = layers.MultiHeadAttention(2, 3, use_bias=False, name="mha")(x, x)
    inside = keras.Input((5, 8))
    grouped = layers.GroupQueryAttention(4, 2, 2, name="grouped")(inside, inside)
    y = keras.Model(inside, grouped, name="encoder")(y)
    model = keras.Model(x, layers.Dense(2, name="out")(y), name="attending")
    model.compile("adam", "mse")
    data, targets = RNG.normal(size=(8, 5, 8)).astype("float32"), np.ones((8, 5, 2))
    model.fit(data, targets, verbose=0)
    graph = quantize(model, {"*": mode}, skip="out")
    twin, reference = graph.build(), ramet.clone(model)
    for layer in (reference.get_layer("mha"), reference.get_layer("encoder").get_layer("grouped")):
        for name in ("query", "key", "value", "output"):
            getattr(layer, f"_{name}_dense").quantize(mode)
    now, expected = values(twin), values(reference)
    assert now.keys() == expected.keys()
    assert all(np.array_equal(value, expected[path]) for path, value in now.items())
    outputs = twin.predict(data, verbose=0)
    assert (outputs == reference.predict(data, verbose=0)).all()
    assert ramet.verify(model, graph)
    assert ramet.verify(twin, ramet.clone(twin))
    path = tmp_path / "model.keras"
    twin.save(path)
    loaded = ramet.files.load(path)  # its classes are known without trust
    assert (loaded.predict(data, verbose=0) == outputs).all()
    assert losses(loaded, data, targets) == losses(twin, data, targets)
    found = quantize(model, {"*": mode}, skip="out", explain=True)
    assert [each.path for each in found] == ["mha", "encoder/grouped"]
    for each, layer in zip(found, (twin.get_layer("mha"), _grouped(twin)), strict=True):
        assert each.after == sum(ops.convert_to_numpy(v).nbytes for v in layer.variables)
        assert each.error is not None
        assert 0 < each.error < 0.2
    with pytest.raises(ramet.errors.GraphError, match="an edit changes it before; build the graph"):
        quantize(ramet.trace(model).configure("mha", use_bias=True), {"mha": mode})


def _grouped(model: Any) -> Any:
    return model.get_layer("encoder").get_layer("grouped")


def embedded() -> keras.Model:
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    y = layers.Embedding(50, 12, name="embedding")(tokens)
    y = layers.LSTM(4, name="lstm")(y)
    return keras.Model(tokens, layers.Dense(3, name="out")(y), name="embedded")


def test_explain_lists_sizes_errors_and_what_is_left() -> None:
    found = quantize(embedded(), {"embedding": "int4", "*": "int8"}, skip="head", explain=True)
    assert found
    assert not found.ok
    (row,) = found
    assert (row.path, row.mode, row.before, row.after) == ("embedding", "int4", 2400, 598)
    assert row.error is not None
    assert 0.01 < row.error < 0.2
    assert [each.reason for each in found.left] == ["there is no quantized LSTM"]
    assert found.before - found.after == 2400 - 598
    assert "left as it is: 'lstm' (LSTM): there is no quantized LSTM" in str(found)
    assert "1 layer quantized, 1 left as they are" in found.title
    assert found.to_dict()["layers"][0]["mode"] == "int4"
    assert repr(row) == "<QuantizedLayer 'embedding' int4>"


@pytest.mark.sampled
def test_reversible_embeddings_and_untied_ones() -> None:
    for tied in (True, False):
        tokens = keras.Input((3,), dtype="int32")
        table = layers.ReversibleEmbedding(6, 4, tie_weights=tied, name="table")
        model = keras.Model(tokens, table(table(tokens), reverse=True))
        twin, reference = quantize(model, {"table": "int8"}).build(), ramet.clone(model)
        reference.get_layer("table").quantize("int8")
        now, expected = values(twin), values(reference)
        assert {path: value.tolist() for path, value in now.items()} == {
            path: value.tolist() for path, value in expected.items()
        }


@pytest.mark.sampled
def test_edits_before_and_after_compose() -> None:
    model = mixed()
    grown = ramet.trace(model).configure("first", units=8, weights="grow")
    grown = grown.configure("encoder/ffn1", weights="grow")
    graph = quantize(grown, {"first": "int8"}).freeze("first").rename({"first": "start"})
    twin = graph.build()
    layer = twin.get_layer("start")
    kernel, scale = (ops.convert_to_numpy(v) for v in (layer.kernel, layer.kernel_scale))
    before = ops.convert_to_numpy(model.get_layer("first").kernel)
    assert (np.abs(before - (kernel / scale)[:, :5]) <= 0.51 / scale[:5]).all()
    assert kernel.shape == (6, 8)
    assert {"start/kernel", "encoder/ffn1/kernel"} <= {v.path for v in twin.variables}
    assert not layer.trainable
    late = quantize(grown, {"encoder/ffn1": "int8"})
    with pytest.raises(ramet.errors.StateError, match="so build the graph before that edit"):
        late.build()


@pytest.mark.sampled
def test_shared_layers_and_unshared_copies() -> None:
    x = keras.Input((4,))
    shared = layers.Dense(4, name="shared")
    model = keras.Model(x, shared(shared(x)))
    twin = quantize(model, {"shared": "int8"}).build()
    assert len(twin.layers) == len(model.layers)
    graph = ramet.trace(model).unshare("shared")
    mixed_up = quantize(graph, {"shared": "int8"}).build()
    modes = [layer.quantization_mode for layer in mixed_up.layers[1:]]
    assert sorted(modes, key=str) == [None, "int8"]


class Own(layers.Dense):
    """A Dense layer of a user's own."""


@pytest.mark.one_backend
def test_what_cannot_be_quantized_is_named_with_its_reason() -> None:
    x = keras.Input((3, 4))
    y = Own(4, name="own")(x)
    y = layers.MultiHeadAttention(1, 2, name="attention")(y, y)
    y = layers.Dense(4, dtype="float16", name="half")(y)
    adapted = layers.Dense(4, name="adapted")
    y = adapted(y)
    adapted.enable_lora(2)
    y = layers.EinsumDense("abc,cde->abde", (None, 2, 3), name="cube")(y)
    y = layers.Conv2D(2, 1, name="conv")(y)
    y = layers.Conv2D(2, 1, dtype="float16", name="half_conv")(y)
    y = layers.TimeDistributed(layers.Dense(3, name="inner"), name="time")(y)
    y = layers.EinsumDense("...a,ab->...b", (3,), name="open")(y)
    y = layers.EinsumDense("abc,cd->ad", 2, name="sums")(layers.Reshape((6, 3))(y))
    model = keras.Model(x, layers.ReLU(name="relu")(y))
    cases = {
        "own": ("int8", "a subclass of Dense may need its kernel as floats"),
        "time": ("int8", "does not say how the layers inside of it are quantized"),
        "attention": ("gptq", "gptq is for Dense and EinsumDense"),
        "open": ("int4", "cannot quantize the equation '...a,ab->...b'; write it without an ell"),
        "sums": ("int8", "gives 'abc,cd->ad' wrong scales, as it sums over b; use int4"),
        "half_conv": ("int4", "convolutions are quantized to int8 only"),
        "half": ("int8", "does not work in float16; cast it to bfloat16 first"),
        "adapted": ("int4", "it has LoRA weights; merge them first"),
        "conv": ("int4", "convolutions are quantized to int8 only"),
        "relu": ("int8", "no layer of graph 'functional.*' with a kernel or embeddings"),
    }
    for name, (mode, reason) in cases.items():
        data = {"data": np.ones((1, 3, 4), "float32")} if mode == "gptq" else {}
        with pytest.raises(ramet.errors.GraphError, match=reason):
            quantize(model, {name: mode}, **data)
    tuned = ramet.adapt.lora(model, "conv", rank=1)
    with pytest.raises(ramet.errors.GraphError, match="it has adapters; merge them first"):
        quantize(tuned, {"conv": "int8"})
    both = {"half_conv": "int8", "conv": "int8", "cube": "int4", "attention": "int8"}
    twin = quantize(model, both).build()
    for name in ("conv", "cube", "attention"):
        with pytest.raises(ramet.errors.GraphError, match=r"already quantized \(int"):
            quantize(twin, {name: "int8"})


@pytest.mark.one_backend
def test_wrong_patterns() -> None:
    model = mixed()

    def refused(at: Any, message: str, **options: Any) -> None:
        with pytest.raises(ramet.RametError, match=message):
            quantize(model, at, **options)

    refused({"ffn": "int8"}, r"'ffn' matches no layer .* did you mean 'encoder/ffn\d'")
    refused({"*": "int9"}, r"unknown mode for '\*'='int9'; .* did you mean 'int8'")
    refused({"*": "int8", "first": "int4"}, r"'first' has no effect .* \(first\); write it first")
    refused({"*": "int8"}, r"skip 'hed' matches no layer .* did you mean 'head'", skip="hed")
    refused({"*": "awq"}, "cannot be 'awq': Keras writes awq layers to files without their zero")
    refused({"*": "gptq"}, r"'gptq' rounds weights by what layers read on data; pass data, a batch")
    refused({"*": "int8"}, "data is for mode 'gptq', which no layer gets; leave it out", data=X)
    refused({"*": "gptq"}, "cannot be called on data of shape", data=X[:, :2])
    refused({"*": "gptq"}, "'first' reads values that are not finite", data=X * np.inf)
    refused({}, "at must be a dict of modes by patterns, .* got an empty dict")
    refused({3: "int8"}, "the pattern must be a glob such as .* got 3")
    refused({"*": "int8"}, "skip is an empty list; name at least one layer", skip=[])
    other = ramet.trace(embedded()).select(name="out")
    refused({"*": "int8"}, "selection for skip was made from another graph", skip=other)


@pytest.mark.one_backend
def test_patterns_selections_and_words() -> None:
    model = mixed()

    def chosen(at: Any, **options: Any) -> list[str]:
        graph = quantize(model, at, **options)
        edits: tuple[Edit, ...] = graph.journal[-1].parts or (graph.journal[-1],)
        return [re.findall("'(.*?)'", edit.text)[0] for edit in edits]

    everything = ["first", "encoder/ffn1", "encoder/ffn2", "einsum", "head"]
    assert sorted(chosen({"**": "int8"})) == sorted(everything)
    assert chosen({"encoder": "int8"}) == ["encoder/ffn1", "encoder/ffn2"]
    assert chosen({"encoder/**": "int8"}) == ["encoder/ffn1", "encoder/ffn2"]
    assert chosen({"**/ffn1": "int8"}) == ["encoder/ffn1"]
    assert chosen({re.compile("ein|fir"): "int8"}) == ["first", "einsum"]
    graph = ramet.trace(model)
    skip = graph.select(kind=layers.EinsumDense)
    assert "einsum" not in chosen({"*": "int8"}, skip=[skip, "head"])
    renamed = ramet.trace(model).rename({"head": "last"})
    assert quantize(renamed, {"*": "int8"}, skip="head").journal[-1].count == 4
