"""`ramet.clones`: every copy is like one of `clone`, and shares nothing with the others."""

from __future__ import annotations

import gc
import weakref

import keras
import numpy as np
import pytest
from keras import layers, ops

import exact
import ramet
from ramet.copying.deep_copy import Copier
from zoo import Case, for_backend

CASES = for_backend(keras.backend.backend())[::12]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


@every_case
def test_copies_are_exact_and_independent(case: Case) -> None:
    model, (x, y) = case.build(), case.data()
    before = exact.fingerprint(model)
    copies = ramet.clones(model, 3)
    exact.assert_untouched(before, exact.fingerprint(model))
    exact.assert_same_structure(model, copies[2])
    exact.assert_same_state(model, copies[2])
    exact.assert_disjoint(copies[1], copies[2])
    exact.assert_same_outputs(model, copies[1], x)
    exact.assert_independent(copies[1], copies[2], x, y)


def network() -> keras.Model:
    inputs = keras.Input((6,))
    shared = layers.Dense(6, name="shared")
    x = layers.BatchNormalization()(shared(shared(inputs)))
    x = layers.Dropout(0.5, seed=3)(x)
    return keras.Model(inputs, [layers.Dense(2)(x), ops.sum(x, axis=-1)], name="network")


def test_compiled_models() -> None:
    model = network()
    model.compile("adam", "mse")
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
    graph = ramet.trace(network()).insert_after("shared#2", layers.Dense(6, name="new"))
    copies = ramet.clones(graph, 3)  # What the new layer drew is the same in all.
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
    with pytest.raises(ramet.OptionError, match="seed=1 has no effect"):
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


def test_copies_that_are_dropped_are_collected_without_being_asked_for() -> None:
    model = network()
    gc.collect()
    dropped = [weakref.ref(ramet.clone(model)) for _ in range(60)]
    assert sum(copy() is not None for copy in dropped) < 40


def test_what_is_frozen_stays_frozen() -> None:
    model = network()
    gc.collect()
    gc.freeze()
    ramet.clone(model)
    ramet.adapt.quantize(model, {"*": "int8"}).build()
    assert gc.get_freeze_count() > 0


def test_what_is_not_frozen_stays_so() -> None:
    model = network()
    gc.unfreeze()
    try:
        ramet.clone(model)
        ramet.adapt.quantize(model, {"*": "int8"}).build()
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()


def test_a_copier_leaves_no_garbage() -> None:
    model = network()
    gc.collect()
    gc.disable()
    try:
        twin = ramet.clone(model)
        left = [thing for thing in gc.get_objects() if isinstance(thing, Copier)]
    finally:
        gc.enable()
    assert twin.built
    assert not left
