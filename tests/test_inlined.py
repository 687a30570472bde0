"""Nested models of odd forms, put into the graph around them and edited."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet
from zoo import CASES, Case, for_backend

pytestmark = pytest.mark.sampled

X = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")
IDS = np.array([[1, 2, 0, 0, 0], [3, 0, 0, 0, 0]], "int32")


def dense(units: int, name: str) -> Any:
    return layers.Dense(units, name=name)


def nested(body: Callable[[Any], Any], after: Callable[[Any], Any], **options: Any) -> Any:
    """A model around another, which is called with some options."""
    x, start = keras.Input((4,), name="x"), keras.Input((4,), name="in")
    inner = keras.Model(x, body(x), name="enc")
    return keras.Model(start, after(inner(start, **options)), name="outer")


def twice(tensor: Any) -> list[Any]:
    made = dense(2, "p")(tensor)
    return [made, made]


FORMS = {
    "a dict": lambda: nested(
        lambda x: {"p": dense(2, "p")(x), "a": dense(3, "a")(x)},
        lambda out: layers.Add()([dense(2, "q")(out["a"]), out["p"]]),
    ),
    "a list with its input": lambda: nested(
        lambda x: [dense(2, "p")(x), x], lambda out: layers.Concatenate()(out)
    ),
    "lists in a dict": lambda: nested(
        lambda x: {"z": [dense(2, "p")(x), x], "b": (x,)},
        lambda out: layers.Concatenate()([*out["z"], *out["b"]]),
    ),
    "the outputs of the model": lambda: nested(
        lambda x: {"z": dense(2, "p")(x), "b": x}, lambda out: out
    ),
    "its input alone": lambda: nested(lambda x: x, dense(2, "q")),
    "one tensor twice": lambda: nested(twice, lambda out: layers.Add()(out)),
    "training": lambda: nested(
        lambda x: layers.Dropout(0.5, name="d")(layers.BatchNormalization(name="n")(x)),
        lambda out: out,
        training=False,
    ),
    "a name that is taken": lambda: nested(lambda x: dense(2, "p")(x), dense(2, "enc_p")),
}


def run(model: Any, x: Any) -> Any:
    return keras.tree.map_structure(ops.convert_to_numpy, model(x))


def same(first: Any, second: Any) -> None:
    keras.tree.map_structure(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6),
        first,
        second,
    )


FORM_MARKS = {"its input alone": pytest.mark.since_keras(3, 14)}
"""Before, Keras refused a model of nothing but an input."""


@pytest.mark.parametrize(
    "form", [pytest.param(form, marks=FORM_MARKS.get(form, ())) for form in FORMS]
)
def test_forms_of_nested_models(form: str, tmp_path: Any) -> None:
    model = FORMS[form]()
    graph = ramet.trace(model)
    for edited in (
        graph.flatten(),
        graph.flatten("enc"),
        graph.insert_after("in", layers.Activation("linear", name="same")),
        graph.insert_after("enc/x", layers.Activation("linear", name="same")),
    ):
        made = edited.build()
        same(run(made, X), run(model, X))
        made.save(tmp_path / "model.keras")
        same(run(keras.saving.load_model(tmp_path / "model.keras"), X), run(model, X))


@pytest.mark.since_keras(3, 14)  # Before, Keras refused a model with an unused input.
def test_inputs_that_a_nested_model_does_not_use() -> None:
    first, second, start = (keras.Input((4,), name=name) for name in ("a", "b", "in"))
    inner = keras.Model([first, second], dense(2, "p")(first), name="enc")
    model = keras.Model(start, inner([start, layers.ReLU(name="r")(start)]), name="outer")
    graph = ramet.trace(model)
    same(run(graph.flatten().build(), X), run(model, X))
    assert "r" not in [layer.name for layer in graph.flatten().build().layers]
    same(run(graph.extract(outputs="enc/b").build(), X), np.maximum(X, 0))


def mask_goes_in() -> Any:
    x, start = keras.Input((5, 4), name="x"), keras.Input((5,), name="in", dtype="int32")
    inner = keras.Model(x, layers.LSTM(3, name="l")(dense(4, "d")(x)), name="enc")
    tensor = layers.Embedding(9, 4, mask_zero=True, name="embed")(start)
    return keras.Model(start, inner(tensor), name="outer")


def mask_comes_out() -> Any:
    x, start = (keras.Input((5,), name=name, dtype="int32") for name in ("x", "in"))
    inner = keras.Model(x, layers.Embedding(9, 4, mask_zero=True, name="d")(x), name="enc")
    return keras.Model(start, layers.LSTM(3, name="l")(inner(start)), name="outer")


@pytest.mark.parametrize("make", [mask_goes_in, mask_comes_out])
def test_masks_go_through_nested_models(make: Callable[[], Any]) -> None:
    model = make()
    graph, want = ramet.trace(model), run(model, IDS)
    for edited in (
        graph.flatten(),
        graph.rename({"enc/d": "z"}),
        graph.insert_after("enc", layers.Activation("linear", name="same")),
    ):
        same(run(edited.build(), IDS), want)
    head, tail = graph.split("enc/d")
    same(run(tail.build(), head.build()(IDS)), want)
    part = graph.extract(inputs=["enc/d"], outputs=None)
    assert [ref.call.rpartition("_")[2] for ref in part.inputs.values()][-1] == "mask"


def test_an_author_s_mask_for_a_nested_model_has_no_place_in_a_flat_graph() -> None:
    x, start = keras.Input((5, 4), name="x"), keras.Input((5,), name="in", dtype="int32")
    inner = keras.Model(x, layers.LSTM(3, name="l")(x), name="enc")
    tensor = layers.Embedding(9, 4, name="embed")(start)
    model = keras.Model(start, inner(tensor, mask=ops.not_equal(start, 0)), name="outer")
    graph = ramet.trace(model)
    with pytest.raises(ramet.GraphError, match="passes a tensor as 'mask' to a nested model"):
        graph.flatten()
    made = graph.insert_after("enc/l", layers.Activation("linear", name="same")).build()
    same(run(made, IDS), run(model, IDS))


NESTED = [c for c in for_backend(keras.backend.backend()) if c.name.startswith("nesting-")]
NESTED.append(CASES["sequential-same_layer_twice"])


@pytest.mark.parametrize("case", NESTED, ids=lambda c: c.name)
def test_a_flattened_model_is_the_same_function(case: Case) -> None:
    model = case.build()
    flat = ramet.trace(model).flatten()
    for other in (flat, flat.build()):
        report = ramet.verify(model, other, only=("sharing", "outputs"))
        assert report.ok, report
        parted = ramet.verify(model, other, only="training").first_divergence
        # Keras makes calls by depth, and a Dropout with several calls draws in that order.
        assert parted is None or parted.cause == "order", parted
        assert {entry.kind for entry in ramet.diff(model, other)} <= {"inlined", "class"}
