"""`ramet.clones`: every copy is like one of `clone`, and shares nothing with the others."""

from __future__ import annotations

import gc

import keras
import numpy as np
import pytest
from keras import layers, ops

import exact
import ramet
from ramet.bridge.build import Builder
from ramet.bridge.stamp import Stamp, Unstampable
from zoo import Case, for_backend

BACKEND = keras.backend.backend()
CASES = for_backend(BACKEND)[:: 1 if BACKEND == "torch" else 4]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


def data(case: Case):
    rng = np.random.default_rng(0)
    return case.inputs(rng), None if case.targets is None else case.targets(rng)


@every_case
def test_copies_are_exact_and_independent(case: Case) -> None:
    model, (x, y) = case.build(), data(case)
    before = exact.fingerprint(model)
    copies = ramet.clones(model, 5)
    exact.assert_untouched(before, exact.fingerprint(model))
    for copy in copies[1:3]:
        exact.assert_same_structure(model, copy)
        exact.assert_same_state(model, copy)
        exact.assert_same_sharing(model, copy)
        exact.assert_disjoint(model, copy)
    exact.assert_disjoint(copies[1], copies[2])
    exact.assert_same_outputs(model, copies[3], x)
    exact.assert_independent(copies[3], copies[4], x, y)


@pytest.mark.parametrize("case", [c for c in CASES if c.targets][::3], ids=lambda c: c.name)
def test_copies_train_alike(case: Case) -> None:
    model, (x, y) = case.build(), data(case)
    exact.assert_same_training(model, ramet.clones(model, 4)[3], x, y)


@pytest.mark.parametrize("case", CASES[::3], ids=lambda c: c.name)
def test_copies_survive_saving(case: Case, tmp_path) -> None:
    model = case.build()
    exact.assert_same_after_saving(model, ramet.clones(model, 4)[2], tmp_path, case)


def network() -> keras.Model:
    inputs = keras.Input((6,))
    shared = layers.Dense(6, name="shared")
    x = layers.BatchNormalization()(shared(shared(inputs)))
    x = layers.Dropout(0.5, seed=3)(x)
    return keras.Model(inputs, [layers.Dense(2)(x), ops.sum(x, axis=-1)], name="network")


def test_plain_models_are_stamped() -> None:
    for model in (network(), keras.applications.MobileNetV2(weights=None, input_shape=(32, 32, 3))):
        builder = Builder("copy")
        Stamp(builder.copy(model), builder.copier)  # raises if it cannot be done


def test_what_cannot_be_stamped_is_copied_one_by_one() -> None:
    model = network()
    model.compile("adam", "mse")
    builder = Builder("copy")
    with pytest.raises(Unstampable, match="optimizers"):
        Stamp(builder.copy(model), builder.copier)
    copies = ramet.clones(model, 5)
    assert len({id(copy.optimizer) for copy in copies}) == 5
    assert ramet.verify(model, copies[4])


def test_shared_weights_are_the_very_variables() -> None:
    model = network()
    for copy in ramet.clones(model, 5, weights="share"):
        assert all(map(lambda a, b: a is b, copy.weights, model.weights))
        assert not {id(layer) for layer in copy.layers} & {id(layer) for layer in model.layers}


def test_fresh_copies_differ_and_follow_the_seed() -> None:
    model = network()
    first, second, third = ramet.clones(model, 3, weights="fresh", seed=7)
    kernel = [m.get_layer("shared").get_weights()[0] for m in (first, second, third)]
    assert not np.array_equal(kernel[0], kernel[1])
    assert not np.array_equal(kernel[1], kernel[2])
    for seed, expected in zip((7, 8, 9), kernel, strict=True):
        alone = ramet.clone(model, weights="fresh", seed=seed)
        assert np.array_equal(alone.get_layer("shared").get_weights()[0], expected)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
def test_so_many_as_were_asked_for(n: int) -> None:
    model = network()
    copies = ramet.clones(model, n)
    assert len(copies) == n
    for copy in copies:
        assert ramet.verify(model, copy)


def test_copies_of_an_edited_graph() -> None:
    graph = ramet.trace(network()).insert_after("shared#2", layers.Activation("tanh"))
    copies = ramet.clones(graph, 5)
    for copy in copies[1:]:
        exact.assert_same_structure(copies[0], copy)
        exact.assert_same_state(copies[0], copy)
        exact.assert_disjoint(copies[0], copy)
    fresh = ramet.clones(graph, 2, weights="fresh", seed=1)
    assert not np.array_equal(*(m.get_layer("shared").get_weights()[0] for m in fresh))


@pytest.mark.parametrize("n", [-1, True, 2.0, "3", None])
def test_a_number_that_is_none(n) -> None:
    with pytest.raises(ramet.OptionError, match="n must be a number of copies"):
        ramet.clones(network(), n)


def test_options_and_models_are_checked() -> None:
    with pytest.raises(ramet.OptionError, match="unknown weights='all'"):
        ramet.clones(network(), 2, weights="all")
    with pytest.raises(ramet.OptionError, match="seed=1 has no meaning"):
        ramet.clones(network(), 2, seed=1)
    with pytest.raises(ramet.ModelError, match="expected a Keras model"):
        ramet.clones(3, 2)
    with pytest.raises(ramet.StateError, match="has not been built"):
        ramet.clones(keras.Sequential([layers.Dense(2)]), 2)


@pytest.mark.parametrize("on", [True, False])
def test_the_garbage_collector_is_left_as_it_was(on) -> None:
    was = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        ramet.clones(network(), 5)
        assert gc.isenabled() is on
    finally:
        (gc.enable if was else gc.disable)()
