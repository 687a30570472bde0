"""What each layer costs when it alone is quantized, cast or pruned."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet.adapt import cast, quantize, sensitivity
from ramet.results.sensitivity import LayerSensitivity

X = np.random.default_rng(0).normal(size=(16, 6)).astype("float32")


def model() -> keras.Model:
    keras.utils.set_random_seed(0)
    x = keras.Input((6,), name="x")
    y = layers.Dense(8, activation="relu", name="first")(x)
    inside = [keras.Input((8,)), layers.Dense(8, activation="relu", name="inner")]
    y = keras.Sequential(inside, name="encoder")(y)
    y = layers.LayerNormalization(name="norm")(y)
    return keras.Model(x, layers.Dense(2, name="out")(y), name="net")


def test_costs_are_those_of_the_edits() -> None:
    net = model()
    before = [np.array(weight) for weight in net.get_weights()]
    costs = sensitivity(net, X, how=["int4", "bfloat16", "prune"])
    assert [each.path for each in costs] == ["first", "encoder/inner", "out"]
    reference = net.predict(X, verbose=0).astype("float64")

    def cost(graph: Any) -> float:
        outputs = graph.build().predict(X, verbose=0).astype("float64")
        return float(np.sqrt(((outputs - reference) ** 2).mean() / (reference**2).mean()))

    for each in costs:
        path = each.path
        found = each.differences
        assert found["int4"] == pytest.approx(cost(quantize(net, {path: "int4"})), rel=1e-2)
        assert found["bfloat16"] == pytest.approx(cost(cast(net, path, "bfloat16")), rel=1e-2)
        assert found["prune"] is not None
        assert found["prune"] > found["int4"] > 0
    assert all(map(np.array_equal, before, net.get_weights()))
    worst = costs.above(0.0, "int4")
    assert {*worst} == {"first", "encoder/inner", "out"}
    assert quantize(net, {"*": "int4"}, skip=worst[:1]).journal[-1].count == 2
    assert "encoder/inner" in str(costs)
    assert costs.ok
    assert costs.to_dict()["layers"][0]["path"] == "first"
    assert "up to" in repr(costs.layers[0])


@pytest.mark.sampled
def test_made_up_inputs_and_layers_that_cannot() -> None:
    tokens = keras.Input((4,), dtype="int32")
    y = layers.LSTM(3, name="lstm")(layers.Embedding(9, 4, name="embedding")(tokens))
    net = keras.Model(tokens, layers.Dense(2, name="out")(y))
    costs = {each.path: each.differences for each in sensitivity(net, how=["float8", "prune"])}
    assert costs["lstm"]["float8"] is costs["embedding"]["float8"] is None
    assert all(each["prune"] for each in costs.values())


@pytest.mark.sampled
def test_weights_that_start_afresh_are_drawn_once() -> None:
    graph = ramet.trace(model()).configure("out", units=3, weights="fresh")
    graph = graph.configure("first", activation="tanh", weights="fresh")
    at = graph.select(name="out")
    for path, cost in (("out", at), ("first", None)):
        found = {
            each.path: each.differences for each in sensitivity(graph, X, how=["int8"], at=cost)
        }
        assert found[path]["int8"] is not None
        assert found[path]["int8"] < 0.05
    assert cast(graph, at, "bfloat16", explain=True, data=X).difference < 0.05
    (row,) = quantize(graph, {at: "int8"}, explain=True)
    assert row.error is not None
    assert row.error < 0.05
    assert row.before == (8 * 3 + 3) * 4  # of the layer as it is edited


@pytest.mark.one_backend
def test_costs_are_shown_beside_the_layers(tmp_path: Path, capsys: Any) -> None:
    net = model()
    costs = sensitivity(net, X, how=["int4", "float8"])
    costs = dataclasses.replace(costs, layers=tuple(map(_known, costs.layers)))
    ramet.show(net, cost=costs)
    printed = " ".join(capsys.readouterr().out.split())
    assert "net, int4: how far outputs are off" in printed
    for cell in ("int4: 0.002", "int4: up to 0.06", "int4: not finite"):
        assert cell in printed, cell
    path = tmp_path / "net.svg"
    ramet.show(net, to=path, cost=costs)
    picture = path.read_text(encoding="utf-8")
    for text in ("Dense · int4: 0.002", "int4: up to 0.06", "int4: not finite", "up to 0.001"):
        assert text in picture, text
    # The nested model is as dark as the layer in it; what was not tried has no shade.
    fills = re.findall(r'rx="7" fill="(#\w+)"', picture)
    assert fills == ["#ffffff", "#fddcb4", "#f9a153", "#f9a153", "#ffffff", "#ee7d2b"]
    page = tmp_path / "net.html"
    ramet.show(net, to=page, cost=costs.only("float8"))
    text = page.read_text(encoding="utf-8")
    data = json.loads(text.partition('"application/json">')[2].partition("</script>")[0])
    shades = {n["name"]: n["shade"] for v in data["views"] for n in v["nodes"]}
    assert shades["inner"] == {"value": 0.0, "text": "no float8"}
    assert shades["encoder"] == {"value": 0.0, "text": "no float8"}
    assert shades["norm"] is None
    assert not data["shades"]["is_share"]
    # An edited graph with the same layers is shown too; another model is not.
    ramet.show(ramet.trace(net).freeze("first"), to=path, cost=costs)
    with pytest.raises(ramet.errors.OptionError, match="cost has a layer 'encoder/inner', which"):
        ramet.show(ramet.trace(net).rename({"encoder": "other"}), to=path, cost=costs)
    with pytest.raises(ramet.errors.OptionError, match="unknown how='int3'"):
        costs.only("int3")


def _known(cost: LayerSensitivity) -> LayerSensitivity:
    int4 = {"first": 0.002, "encoder/inner": 0.06, "out": float("inf")}[cost.path]
    return dataclasses.replace(cost, differences={"int4": int4, "float8": None})


@pytest.mark.one_backend
def test_wrong_questions() -> None:
    net = model()

    def refused(message: str, **options: Any) -> None:
        with pytest.raises(ramet.RametError, match=message):
            sensitivity(net, **options)

    refused("unknown way='int3'; expected one of 'int8'", how=["int3"])
    refused("how must be a list of ways, .* got 'int8'", how="int8")
    refused("at 'no' matches no layer", at="no")
    refused("no layer of graph 'net' that is named has a kernel", at="norm")
    refused("cannot be called on data of shape", data=X[:, :3])
    costs = sensitivity(net, how=["int8"], at="out")
    with pytest.raises(ramet.errors.OptionError, match="unknown how='int4'"):
        costs.above(0.1, "int4")
    with pytest.raises(ramet.errors.OptionError, match="limit must be a number, got 'x'"):
        costs.above(*("x", "int8"))
