"""Kernels rounded by what their layers read: fewer errors on like data, stored as Keras's int4."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from ramet.adapt import quantize
from ramet.adapt.quantizing.moments import Contraction
from ramet.adapt.quantizing.rounding import Grid, rounded_in_turn, squared_error

RNG = np.random.default_rng(0)
MIXED = RNG.normal(size=(3, 12))


def correlated(count: int) -> np.ndarray:
    """Inputs of which a few directions explain nearly everything."""
    rng = np.random.default_rng(count)
    noise = 0.05 * rng.normal(size=(count, 4, 12))
    return (rng.normal(size=(count, 4, 3)) @ MIXED + noise).astype("float32")


X, TEST = correlated(64), correlated(65)


def model() -> keras.Model:
    """Dense layers, also nested and shared, einsums, and a layer that stays."""
    keras.utils.set_random_seed(0)
    x = keras.Input((4, 12), name="x")
    y = layers.Dense(17, activation="relu", name="first")(x)
    inside = [keras.Input((4, 17)), layers.Dense(11, activation="relu", name="inner")]
    y = keras.Sequential(inside, name="encoder")(y)
    shared = layers.Dense(11, use_bias=False, name="shared")
    y = shared(layers.LayerNormalization(name="norm")(shared(y)))
    y = layers.EinsumDense("abc,cde->abde", (None, 3, 4), bias_axes="de", name="heads")(y)
    y = layers.EinsumDense("abcd,cde->abe", (None, 7), name="joined")(y)
    net = keras.Model(x, layers.Dense(2, name="out")(y), name="net")
    net.compile(keras.optimizers.Adam(0.01), "mse")
    return net


def distance(first: Any, second: Any) -> float:
    first, second = (each.predict(TEST, verbose=0) for each in (first, second))
    return float(np.sqrt(((first - second) ** 2).mean() / (first**2).mean()))


def test_calibration_lowers_the_error_and_plain_keras_loads_it(tmp_path: Path) -> None:
    net = model()
    net.fit(X, np.ones((64, 4, 2)), verbose=0)
    before = net.get_weights()
    graph = quantize(net, {"shared": "int8", "*": "gptq"}, skip="out", data=X)
    assert all(map(np.array_equal, before, net.get_weights()))
    assert graph.journal[-1].text == "quantize 5 layers: 1 to int8, 4 to gptq"
    calibrated = graph.build()
    plain = quantize(net, {"shared": "int8", "*": "int4"}, skip="out").build()
    assert distance(net, calibrated) < 0.6 * distance(net, plain)
    assert [v.path for v in calibrated.variables] == [v.path for v in plain.variables]
    assert [v.dtype for v in calibrated.variables] == [v.dtype for v in plain.variables]
    assert calibrated.get_layer("heads").dtype_policy == plain.get_layer("heads").dtype_policy
    assert ramet.verify(net, graph)
    path = tmp_path / "model.keras"
    calibrated.save(path)
    losses = [
        each.fit(X, np.ones((64, 4, 2)), shuffle=False, verbose=0).history["loss"]
        for each in (keras.models.load_model(path), calibrated)
    ]
    assert losses[0] == losses[1]


@pytest.mark.sampled
def test_each_layer_is_calibrated_on_what_it_reads() -> None:
    net = model()
    found = quantize(net, {"*": "gptq"}, skip="out", data=X, explain=True)
    assert [each.path for each in found] == ["first", "encoder/inner", "shared", "heads", "joined"]
    quantized = quantize(net, {"*": "gptq"}, skip="out", data=X).build()
    names = {"first": "x", "encoder/inner": "first", "heads": "shared#2"}
    for each in found:
        if each.path not in names:
            continue
        inputs = ramet.run(quantized, X, at=names[each.path])
        floats, integers = (_inner(m, each.path) for m in (net, quantized))
        results = [ops.convert_to_numpy(_linear(layer, inputs)) for layer in (floats, integers)]
        error = np.sqrt(((results[0] - results[1]) ** 2).mean() / (results[0] ** 2).mean())
        assert each.error == pytest.approx(error, rel=1e-2), each.path


def _inner(net: Any, path: str) -> Any:
    for name in path.split("/"):
        net = net.get_layer(name)
    return net


def _linear(layer: Any, inputs: Any) -> Any:
    """Return what a layer computes without its bias and activation."""
    twin = ramet.clone(keras.Sequential([keras.Input(inputs.shape[1:]), layer])).layers[-1]
    twin.activation = keras.activations.linear
    return twin(inputs) - (0 if twin.bias is None else twin.bias)


@pytest.mark.sampled
def test_masked_steps_do_not_count_and_edits_do() -> None:
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    y = layers.Embedding(20, 12, mask_zero=True, name="embedding")(tokens)
    y = layers.Dense(9, name="dense")(y)
    net = keras.Model(tokens, layers.LSTM(4, name="lstm")(y))
    data = 1 + np.arange(60).reshape(10, 6) % 19
    kernels = [
        quantize(net, {"dense": "gptq"}, data=each).build().get_layer("dense").get_weights()
        for each in (data, np.pad(data, ((0, 0), (0, 12))))
    ]
    assert all(map(np.array_equal, *kernels))
    grown = (
        ramet.trace(net)
        .configure("dense", units=10, weights="grow")
        .configure("lstm", weights="grow")
    )
    kernel = quantize(grown, {"dense": "gptq"}, data=data).build().get_layer("dense").kernel
    assert kernel.shape == (12, 10)


@pytest.mark.one_backend
def test_rounding_in_turn() -> None:
    weights = RNG.normal(size=(150, 4))
    inputs = RNG.normal(size=(400, 10)) @ RNG.normal(size=(10, 150))
    inputs[:, 7] = 0
    moments = inputs.T @ inputs
    grid = Grid(np.full(weights.shape, 0.3), np.full(weights.shape, 1.0))
    results = [
        squared_error(grid.floats(each) - weights, moments)
        for each in (grid.integers(weights), rounded_in_turn(weights, grid, moments))
    ]
    assert results[1] < 0.2 * results[0]
    # Inputs that say nothing of each other leave nothing to make up for.
    alone = np.eye(150)
    assert np.array_equal(rounded_in_turn(weights, grid, alone), grid.integers(weights))


@pytest.mark.one_backend
def test_what_cannot_be_calibrated() -> None:
    x = keras.Input((3, 4))
    y = layers.EinsumDense("abc,bcd->abd", (3, 5), name="each")(x)
    y = layers.EinsumDense("abc,dc->abd", (3, 6), name="turned")(y)
    y = layers.Conv1D(2, 1, name="conv")(y)
    y = layers.Dense(3, name="dense")(y)
    net = keras.Model(x, y, name="net")
    data = np.ones((2, 3, 4), "float32")
    for name, reason in {
        "each": "has a kernel for each index of an axis",
        "turned": "does not sum over the first axes of its kernel",
        "conv": "convolutions are quantized to int8 only",
    }.items():
        with pytest.raises(ramet.errors.GraphError, match=reason):
            quantize(net, {name: "gptq"}, data=data)
    found = quantize(net, {"*": "gptq"}, data=data, explain=True)
    assert [each.path for each in found] == ["dense"]
    assert [each.path for each in found.left] == ["each", "turned", "conv"]


@pytest.mark.one_backend
def test_rows_are_those_of_the_product() -> None:
    class Fake(layers.EinsumDense):
        pass

    values = RNG.normal(size=(2, 3, 4, 5))
    for equation, shape in (
        ("abcd,cde->abe", (4, 5, 6)),
        ("abcd,dce->abe", (5, 4, 6)),
        ("...d,de->...e", (5, 6)),
        ("abcd,de->ae", (5, 6)),
    ):
        kernel = RNG.normal(size=shape)
        contraction = Contraction.of(Fake(equation, (None, 6)), 4)
        rows = contraction.rows(values, None)
        expected = np.einsum(equation, values, kernel).reshape(len(rows), 6)
        assert np.allclose(rows @ kernel.reshape(-1, 6), expected)
