"""Nested models that are taken apart: each has layers of its own, all the way down."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet

pytestmark = pytest.mark.sampled

X = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")


def encoder(name: str = "enc") -> Any:
    """A layer that is called twice, and one that is called once."""
    x, a = keras.Input((4,), name="x"), layers.Dense(4, name="a")
    return keras.Model(x, layers.Dense(4, name="b")(a(a(x))), name=name)


def twice() -> Any:
    """An encoder that is called twice."""
    start, inner = keras.Input((4,), name="in"), encoder()
    return keras.Model(start, layers.Dense(2, name="head")(inner(inner(start))), name="twice")


def deep() -> Any:
    """A model that is called twice, with an encoder in it that is called twice too."""
    start, middle = keras.Input((4,), name="in"), keras.Input((4,), name="y")
    inner = encoder()
    mid = keras.Model(middle, inner(inner(middle)), name="mid")
    return keras.Model(start, mid(mid(start)), name="deep")


def with_a_layer_of_its_own() -> Any:
    """A model that has a layer in common with the nested one, which is called twice."""
    x, start = keras.Input((4,), name="x"), keras.Input((4,), name="in")
    shared = layers.Dense(4, name="a")
    inner = keras.Model(x, layers.Activation("tanh", name="t")(shared(x)), name="enc")
    return keras.Model(start, shared(inner(inner(start))), name="outer")


def run(model: Any, x: Any = X) -> Any:
    return keras.ops.convert_to_numpy(model(x))


def kinds(model: Any) -> dict[str, list[str]]:
    """Returns the activations of the dense layers of each nested model, by name."""
    return {
        part.name: [
            layer.activation.__name__
            for layer in sorted(part._flatten_layers(), key=lambda layer: layer.name)
            if isinstance(layer, layers.Dense)
        ]
        for part in model.layers
        if isinstance(part, keras.Model)
    }


def test_an_edit_reaches_one_of_two() -> None:
    graph = ramet.trace(twice()).unshare("enc")
    linear, relu = ["linear", "linear"], ["relu", "linear"]
    made = graph.configure("enc_1/a", activation="relu").build()
    assert kinds(made) == {"enc": linear, "enc_1": relu}
    made = graph.configure("enc/a", activation="relu").build()
    assert kinds(made) == {"enc": relu, "enc_1": linear}
    made = graph.rename({"enc_1/a": "z"}).remove("enc/b").build()
    names = [[layer.name for layer in made.get_layer(n).layers] for n in ("enc", "enc_1")]
    assert names == [["x", "a"], ["x", "z", "b"]]


def test_an_edit_reaches_one_of_two_at_depth() -> None:
    graph = ramet.trace(deep()).unshare("mid")
    for at, other in (("mid", "mid_1"), ("mid_1", "mid")):
        made = graph.configure(f"{at}/enc/a", activation="relu").build()
        assert kinds(made) == {at: ["relu", "linear"], other: ["linear", "linear"]}
    made = graph.unshare("mid_1/enc").configure("mid_1/enc_1/a", activation="relu").build()
    inner = kinds(made.get_layer("mid_1"))
    assert inner == {"enc": ["linear", "linear"], "enc_1": ["relu", "linear"]}
    assert kinds(made)["mid"] == ["linear", "linear"]


@pytest.mark.parametrize("weights", ["copy", "share", "fresh"])
@pytest.mark.parametrize(
    ("make", "at", "flattens", "count"),
    [
        (twice, "enc", [[], [None], ["enc"], ["enc_1"]], 2 * 4 + 2),
        (deep, "mid", [[], [None], ["mid"], ["mid_1"], ["mid/enc"], ["mid_1/enc", "mid"]], 2 * 4),
        (with_a_layer_of_its_own, "enc", [[], [None], ["enc"], ["enc_1"]], 2 * 2),
    ],
)
def test_each_has_weights_of_its_own_with_the_same_values(
    make: Callable[[], Any], at: str, flattens: list[list[str | None]], count: int, weights: str
) -> None:
    model = make()
    for flatten in flattens:
        graph = ramet.trace(model).unshare(at)
        for path in flatten:
            graph = graph.flatten(path)
        made = graph.build(weights=weights)
        assert len(made.weights) == count
        if weights != "fresh":
            np.testing.assert_allclose(run(made), run(model), rtol=1e-5, atol=1e-6)
        made.compile("sgd", "mse")
        made.fit(X, run(made) + 1, verbose=0)
        ramet.clone(made)


def test_what_is_tied_inside_stays_tied_inside() -> None:
    @keras.saving.register_keras_serializable("unshared")
    class Tied(layers.Layer):
        """Multiplies by the kernel of another layer."""

        def __init__(self, other: Any, **options: Any) -> None:
            super().__init__(**options)
            self.other = other

        def call(self, inputs: Any) -> Any:
            return keras.ops.matmul(inputs, self.other.kernel)

    x, start = keras.Input((4,), name="x"), keras.Input((4,), name="in")
    first = layers.Dense(4, name="a")
    inner = keras.Model(x, Tied(first, name="tied")(first(x)), name="enc")
    model = keras.Model(start, inner(inner(start)), name="outer")
    graph = ramet.trace(model).unshare("enc")
    for made in (graph.build(), graph.flatten().build(), graph.flatten("enc_1").build()):
        assert len(made.weights) == 2 * 2
        np.testing.assert_allclose(run(made), run(model), rtol=1e-5, atol=1e-6)
    flat = graph.flatten().build()
    for prefix in ("enc", "enc_1"):
        assert flat.get_layer(f"{prefix}_tied").other is flat.get_layer(f"{prefix}_a")


def test_a_given_model_is_edited_inside() -> None:
    graph, given = ramet.trace(twice()), encoder("new")
    graph = graph.insert_before("head", given)
    made = graph.configure("new/a", activation="relu").build()
    assert kinds(made) == {"enc": ["linear"] * 2, "new": ["relu", "linear"]}
    assert given.get_layer("a").activation is keras.activations.linear
    for again in (graph.flatten("new"), graph.flatten(), graph):
        found, same = again.build(), again.build()
        assert len(found.weights) == 4 + 4 + 2
        np.testing.assert_allclose(run(found), run(same), rtol=1e-5, atol=1e-6)
        values = [keras.ops.convert_to_numpy(weight) for weight in found.weights]
        for weight in given.weights:
            want = keras.ops.convert_to_numpy(weight)
            assert any(v.shape == want.shape and np.array_equal(v, want) for v in values)


def test_variants_that_are_merged_are_edited_apart() -> None:
    graph = ramet.trace(with_a_layer_of_its_own())
    variant = graph.configure("enc/t", activation="relu")
    merged = ramet.merge([graph, variant], inputs="shared")
    # The layer that both nested models and the graphs around them have is one in each variant.
    made = merged.build()
    assert len(made.weights) == 2 * 2
    want = [run(graph.build()), run(variant.build())]
    for found, expected in zip(made(X), want, strict=True):
        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(found), expected, rtol=1e-5, atol=1e-6
        )
    other = merged.configure("outer_2_enc/a", activation="tanh").build()
    dense = [layer for layer in other.layers if isinstance(layer, layers.Dense)]
    assert sorted(layer.activation.__name__ for layer in dense) == ["linear", "tanh"]
    assert kinds(other) == {"enc": ["linear"], "outer_2_enc": ["tanh"]}


def test_what_edits_brought_in_before_is_taken_apart_too() -> None:
    graph = ramet.trace(twice())
    inserted = graph.insert_after("enc/a#2", layers.Dense(4, name="new"))
    configured = graph.configure("enc/a", activation="relu")
    replaced = graph.replace("enc/b", layers.Dense(4, name="bb"))
    for before in (inserted, configured, replaced, graph.unshare("enc/a")):
        edited = before.unshare("enc")
        for made in (edited.build(), edited.flatten("enc").flatten("enc_1").build()):
            half = (len(made.weights) - 2) // 2
            values = [keras.ops.convert_to_numpy(weight) for weight in made.weights]
            assert len({id(weight) for weight in made.weights}) == 2 * half + 2
            for one, other in zip(values[:half], values[half : 2 * half], strict=True):
                np.testing.assert_array_equal(one, other)
    made = inserted.unshare("enc").configure("enc_1/new", activation="relu").build()
    found = [made.get_layer(name).get_layer("new") for name in ("enc", "enc_1")]
    assert [layer.activation.__name__ for layer in found] == ["linear", "relu"]


def test_unshared_models_are_tied_again() -> None:
    graph = ramet.trace(twice())
    tied = graph.unshare("enc").share("enc", "enc_1")
    assert len(tied.build().weights) == len(graph.build().weights)
    made = tied.configure("enc/a", activation="relu").build()
    assert kinds(made) == {"enc": ["relu", "linear"]}
