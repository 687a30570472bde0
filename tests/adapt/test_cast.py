"""Layers cast by name: policies, weights, islands in float32, training and files."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet.adapt import cast, quantize

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 6, 8)).astype("float32")
Y = np.ones((8, 2), "float32")


def model_with_islands() -> keras.Model:
    x = keras.Input((6, 8), name="x")
    y = layers.MultiHeadAttention(2, 4, name="attention")(x, x)
    y = layers.LayerNormalization(name="norm")(y + x)
    y = layers.TimeDistributed(layers.Dense(5, name="inner"), name="time")(y)
    y = layers.Bidirectional(layers.GRU(3, recurrent_initializer="zeros"), name="both")(y)
    inside = [keras.Input((6,)), layers.Dense(7, name="ffn"), layers.BatchNormalization(name="bn")]
    y = keras.Sequential(inside, name="encoder")(y)
    y = layers.Dense(2, activation="softmax", name="out")(y)
    model = keras.Model(x, y, name="islands")
    model.compile(keras.optimizers.Adam(0.01), "mse")
    model.fit(X, Y, verbose=0)
    return model


def losses(model: Any) -> list[float]:
    return model.fit(X, Y, shuffle=False, epochs=2, verbose=0).history["loss"]


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "bfloat16"])
def test_cast_with_islands(policy: str, tmp_path: Path) -> None:
    model = model_with_islands()
    graph = cast(model, "*", policy, keep=["norms", "head"])
    assert graph.journal[-1].promise == "changed"
    twin = graph.build()
    assert [v.path for v in twin.variables] == [v.path for v in model.variables]
    kept = {layer.name: layer.dtype_policy.name for layer in twin.layers}
    assert kept["norm"] == kept["out"] == "float32"
    assert kept["attention"] == kept["time"] == kept["both"] == policy
    assert twin.get_layer("time").layer.dtype_policy.name == policy
    assert twin.get_layer("encoder").get_layer("bn").dtype_policy.name == "float32"
    half = policy == "bfloat16"
    for variable, before in zip(twin.variables, model.variables, strict=True):
        expected = ops.cast(before, variable.dtype)
        assert bool(ops.all(ops.equal(variable, expected)))
    assert twin.get_layer("both").weights[0].dtype == ("bfloat16" if half else "float32")
    report = graph.transfer_report()
    assert bool(report.of("fitted")) == half
    assert "slots kept" in report.optimizer
    assert "new" not in report.optimizer
    assert ramet.verify(model, graph)
    assert ramet.verify(twin, ramet.clone(twin))
    path = tmp_path / "model.keras"
    twin.save(path)
    loaded = keras.models.load_model(path)
    assert losses(loaded) == losses(twin)


def test_explain_says_what_it_costs() -> None:
    found = cast(model_with_islands(), "*", "bfloat16", keep=("norms", "head"), explain=True)
    assert found
    assert found.ok
    assert 0 < found.difference < 0.05
    rows = {each.path: each for each in found}
    assert {*rows} == {"attention", "time", "both", "encoder/ffn"}
    assert rows["encoder/ffn"].before == 2 * rows["encoder/ffn"].after == 196
    assert "4 layers cast" in found.title
    assert "encoder/ffn" in str(found)
    assert found.to_dict()["layers"][0]["then"] == "bfloat16"
    assert "attention" in repr(found.layers[0])


@pytest.mark.sampled
def test_what_is_cast_already_stays_exactly() -> None:
    model = model_with_islands()
    graph = cast(model, "*", "float32")
    assert graph.journal[-1].promise == "exact"
    assert ramet.verify(model, graph.build())


@pytest.mark.sampled
def test_there_and_back_rounds_once() -> None:
    model = model_with_islands()
    half = cast(model, "encoder/ffn", "bfloat16").build()
    back = cast(half, "encoder/ffn", "float32").build()
    kernels = [each.get_layer("encoder").get_layer("ffn").kernel for each in (model, half, back)]
    assert back.get_layer("encoder").get_layer("ffn").kernel.dtype == "float32"
    assert bool(ops.all(ops.equal(ops.cast(kernels[1], "float32"), kernels[2])))
    assert bool(ops.all(ops.equal(ops.cast(kernels[0], "bfloat16"), kernels[1])))


@pytest.mark.sampled
def test_stacked_cells_are_cast_whenever_the_graph_is_built() -> None:
    x = keras.Input((5, 6))
    cells = [layers.LSTMCell(3, name="first"), layers.GRUCell(4, name="second")]
    model = keras.Model(x, layers.RNN(cells, name="rnn")(x), name="net")
    graph = cast(model, "rnn", "float64")
    for _ in range(2):  # Keras takes the cells out of the config that it is passed
        twin = graph.build()
        assert {variable.dtype for variable in twin.weights} == {"float64"}
    assert ramet.verify(twin, graph)


class Deaf(layers.Layer):
    """Does not hand its policy on."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.part = layers.Dense(3, name="part")

    def call(self, x: Any) -> Any:
        return self.part(x)


@pytest.mark.one_backend
def test_what_cannot_be_cast_is_named_with_its_reason() -> None:
    x = keras.Input((4,))
    y = Deaf(name="deaf")(x)
    y = layers.Dense(3, name="dense")(y)
    model = keras.Model(x, layers.ReLU(name="relu")(y * 2), name="net")

    def refused(message: str, *where: Any, **options: Any) -> None:
        with pytest.raises(ramet.RametError, match=message):
            cast(model, *where, **options)

    refused("its part 'part' does not take the policy over; pass dtype", "deaf", "bfloat16")
    refused(r"unknown dtype='half'; expected one of 'float16'", "*", "half")
    refused(r"at 'dnse' matches no layer of graph 'net' .* did you mean 'dense'", "dnse", "float16")
    refused("keep 'nrms' matches no layer", "*", "float16", keep="nrms")
    refused("keep 'softmax' matches no layer", "*", "float16", keep="softmax")
    refused("at='multiply' names no layer .* computes with floats", "multiply", "float16")
    refused("data is what cast runs the models on to explain", "*", "float16", data=[1])
    refused("cannot be called on data of shape", "dense", "float16", data=X, explain=True)
    found = cast(model, "*", "bfloat16", explain=True)
    assert [each.path for each in found.left] == ["deaf"]
    text = cast(model, "*", "bfloat16").journal[-1].text
    assert text == "cast 2 layers to bfloat16; 'deaf' cannot be cast"
    quantized = quantize(model, {"dense": "int8"}).build()
    with pytest.raises(ramet.errors.GraphError, match=r"it is quantized .* cast before quantizing"):
        cast(quantized, "dense", "bfloat16")


@pytest.mark.sampled
def test_float16_trains_with_a_scaled_loss() -> None:
    if keras.backend.backend() == "jax":
        pytest.skip("JAX has no float16 products on the CPU")
    x = keras.Input((4,))
    model = keras.Model(x, layers.Dense(2, name="out")(layers.Dense(3, name="hidden")(x)))
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(momentum=0.9)), "mse")
    data = RNG.normal(size=(8, 4)).astype("float32")
    model.fit(data, Y, verbose=0)
    graph = cast(model, "*", "mixed_float16", keep="head")
    assert "slots kept" in graph.transfer_report().optimizer
    twin = graph.build()
    assert type(twin.optimizer) is keras.optimizers.LossScaleOptimizer
    assert twin.optimizer.inner_optimizer.momentums
    twin.fit(data, Y, verbose=0)
