"""Layers whose weights an edit computes: values, state, optimizer slots, edits on top of it."""

import pickle
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet.graph import Edit, Graph
from ramet.graph.edits.remake import Remade, remake
from ramet.graph.journal import with_entry
from ramet.graph.values import Variable, multiply, take

STATE = ("gamma", "beta", "moving_mean", "moving_variance")


def trained() -> keras.Model:
    image = keras.Input((6, 6, 3))
    x = layers.Conv2D(6, 3, use_bias=False, name="conv")(image)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.Conv2D(4, 3, name="head")(x)
    model = keras.Model(image, layers.GlobalAveragePooling2D(name="pool")(x))
    model.compile(keras.optimizers.Adam(name="adam"), "mse")
    images = np.random.default_rng(0).normal(size=(8, 6, 6, 3)).astype("float32")
    model.fit(images, np.zeros((8, 4), "float32"), epochs=2, verbose=0)
    return model


def cut(graph: Graph, channels: Sequence[int]) -> Graph:
    """Keep some channels of `conv`, through the norm and into the head."""
    edit = Edit("cut 'conv'")

    def of(key: str, *role: str) -> Variable:
        return Variable(graph.layers[key], role)

    kernel, state = take(of("conv", "kernel"), channels, 3), {}
    for name in STATE:
        state[name,] = take(of("norm", name), channels, 0)
    remade = {
        "conv": Remade({"filters": len(channels)}, {("kernel",): kernel}),
        "norm": Remade({}, state),
        "head": Remade({}, {("kernel",): take(of("head", "kernel"), channels, 2)}),
    }
    by_identity = {graph.layers[key].identity: value for key, value in remade.items()}
    return with_entry(remake(graph, by_identity, edit), edit)


def values(model: keras.Model) -> dict[str, np.ndarray]:
    return {v.path: keras.ops.convert_to_numpy(v) for v in model.variables}


def test_computed_weights_and_slots_are_those_of_the_kept_channels() -> None:
    model = trained()
    before = values(model)
    graph = cut(ramet.trace(model), [5, 0, 2])
    twin = graph.build()
    now = values(twin)
    assert (now["conv/kernel"] == before["conv/kernel"][..., [5, 0, 2]]).all()
    assert (now["norm/moving_mean"] == before["norm/moving_mean"][[5, 0, 2]]).all()
    assert (now["head/kernel"] == before["head/kernel"][:, :, [5, 0, 2]]).all()
    assert (now["head/bias"] == before["head/bias"]).all()
    optimizers: Any = model.optimizer, twin.optimizer
    old, new = (
        {v.path: keras.ops.convert_to_numpy(v) for v in each.variables} for each in optimizers
    )
    assert new["adam/iteration"] == old["adam/iteration"]
    for path, axis in (("conv_kernel", 3), ("norm_gamma", 0), ("head_kernel", 2), ("head_bias", 0)):
        for slot in ("momentum", "velocity"):
            name = f"adam/{path}_{slot}"
            expected = old[name] if path == "head_bias" else old[name].take([5, 0, 2], axis)
            assert (new[name] == expected).all()
    twin.fit(np.ones((4, 6, 6, 3)), np.zeros((4, 4)), verbose=0)


def test_the_report_says_what_was_cut_and_that_slots_moved() -> None:
    report = cut(ramet.trace(trained()), [0, 1]).transfer_report()
    assert {each.path for each in report.of("cut")} == {
        "conv/kernel",
        "head/kernel",
        *(f"norm/{name}" for name in STATE),
    }
    assert report.optimizer == "adam: 2 slots kept, 8 moved with their variables"
    assert not report.of("dropped")


def test_edits_on_top_of_computed_weights_keep_them() -> None:
    model = trained()
    kernel = values(model)["conv/kernel"]
    graph = cut(ramet.trace(model), [5, 0, 2]).configure("conv", activation="relu")
    graph = cut(graph, [2, 1])
    assert (values(graph.build())["conv/kernel"] == kernel[..., [2, 0]]).all()
    assert not graph.transfer_report().of("fresh")


def test_growing_on_top_of_computed_weights_asks_to_build_in_between() -> None:
    model = trained()
    graph = cut(ramet.trace(model), [2, 0])
    grown = graph.configure("conv", filters=3, weights="grow")
    with pytest.raises(ramet.errors.StateError, match=r"'norm/gamma' has shape \(2,\), but the"):
        grown.build()
    for name in ("norm", "head"):
        grown = grown.configure(name, weights="grow")
    with pytest.raises(ramet.errors.StateError, match="build it and trace the model before"):
        grown.build()
    graph = ramet.trace(graph.build()).configure("conv", filters=3, weights="grow")
    for name in ("norm", "head"):
        graph = graph.configure(name, weights="grow")
    now, before = values(graph.build()), values(model)
    assert (now["conv/kernel"][..., :2] == before["conv/kernel"][..., [2, 0]]).all()
    assert now["head/kernel"].shape == (3, 3, 3, 4)
    assert (now["head/kernel"][:, :, :2] == before["head/kernel"][:, :, [2, 0]]).all()


def test_values_computed_from_several_variables() -> None:
    model = trained()
    graph = ramet.trace(model)
    conv, norm = graph.layers["conv"], graph.layers["norm"]
    scaled = multiply(Variable(conv, ("kernel",)), Variable(norm, ("gamma",)))
    edit = Edit("scale 'conv'")
    remade = {conv.identity: Remade({}, {("kernel",): scaled})}
    graph = with_entry(remake(graph, remade, edit), edit)
    before = values(model)
    now = values(graph.build())["conv/kernel"]
    expected = before["conv/kernel"].astype("float64") * before["norm/gamma"]
    assert (now == expected.astype("float32")).all()
    assert [each.path for each in graph.transfer_report().of("computed")] == ["conv/kernel"]
    assert "2 new" in graph.transfer_report().optimizer


def test_fresh_weights_are_not_computed() -> None:
    graph = cut(ramet.trace(trained()), [0])
    twin = graph.build(weights="fresh", seed=1)
    again = graph.build(weights="fresh", seed=1)
    assert values(twin)["conv/kernel"].shape == (3, 3, 3, 1)
    assert (values(twin)["conv/kernel"] == values(again)["conv/kernel"]).all()
    assert (values(twin)["norm/moving_mean"] == 0).all()


def test_the_source_does_not_change_and_shared_layers_are_remade_once() -> None:
    first, second = keras.Input((3,)), keras.Input((3,))
    tower = layers.Dense(5, name="tower")
    model = keras.Model([first, second], layers.Add()([tower(first), tower(second)]))
    graph = ramet.trace(model)
    record = graph.layers["tower"]
    edit = Edit("cut 'tower'")
    recipe = {
        ("kernel",): take(Variable(record, ("kernel",)), [4, 1], 1),
        ("bias",): take(Variable(record, ("bias",)), [4, 1], 0),
    }
    before = values(model)
    remade = {record.identity: Remade({"units": 2}, recipe)}
    twin = with_entry(remake(graph, remade, edit), edit).build()
    assert len(twin.weights) == 2
    x, y = np.ones((1, 3)), np.full((1, 3), 2.0)
    expected = keras.ops.convert_to_numpy(model([x, y]))[:, [4, 1]]
    assert np.allclose(keras.ops.convert_to_numpy(twin([x, y])), expected, atol=1e-6)
    after = values(model)
    assert all((before[path] == after[path]).all() for path in before)


def test_a_recipe_for_no_variable_or_of_another_shape_is_an_error() -> None:
    graph = ramet.trace(trained())
    conv = graph.layers["conv"]
    edit = Edit("wrong")
    for role, message in (
        ("bias", "has no such variable; it has: kernel"),
        ("kernel", "has shape"),
    ):
        value = take(Variable(conv, ("kernel",)), [0], 3)
        remade = {conv.identity: Remade({}, {(role,): value})}
        with pytest.raises(ramet.errors.StateError, match=message):
            with_entry(remake(graph, remade, edit), edit).build()


def test_graphs_with_other_recipes_differ_and_are_pickled() -> None:
    graph = ramet.trace(trained())
    one, other = cut(graph, [0, 1]), cut(graph, [0, 2])
    assert one != other
    assert one == cut(graph, [0, 1])
    again = pickle.loads(pickle.dumps(one))  # noqa: S301 its own
    assert again.layers["conv"].recipe is not None


@pytest.mark.parametrize("weights", ["copy", "share"])
def test_layers_that_stay_as_they_are_get_their_weights_in_place(weights: Any) -> None:
    model = trained()
    before = values(model)
    graph = ramet.trace(model)
    head = graph.layers["head"]
    doubled = multiply(Variable(head, ("kernel",)), np.array([2.0]))
    edit = Edit("double 'head'")
    graph = with_entry(
        remake(graph, {head.identity: Remade(None, {("kernel",): doubled})}, edit), edit
    )
    graph = graph.rename({"head": "twice"})
    twin = graph.build(weights=weights)
    assert (values(twin)["twice/kernel"] == 2 * before["head/kernel"]).all()
    assert (values(twin)["twice/bias"] == before["head/bias"]).all()
    assert all((value == before[path]).all() for path, value in values(model).items())
    assert {each.path for each in graph.transfer_report().of("computed")} == {"twice/kernel"}
    again = multiply(Variable(graph.layers["twice"], ("kernel",)), np.array([2.0]))
    remade = {graph.layers["twice"].identity: Remade(None, {("kernel",): again})}
    twin = (
        with_entry(remake(graph, remade, edit), edit).configure("twice", activation="relu").build()
    )
    assert (values(twin)["twice/kernel"] == 4 * before["head/kernel"]).all()
    assert (values(twin)["twice/bias"] == before["head/bias"]).all()
