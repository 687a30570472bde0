"""Every model of the zoo, cloned: the same in every respect, and nothing shared."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest

import exact
import ramet
from zoo import Case, for_backend, sample_for_backend

BACKEND = keras.backend.backend()
CASES = for_backend(BACKEND)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)


@every_case
def test_clone_is_exact(case: Case) -> None:
    model, (x, _) = case.build(), case.data()
    before = exact.fingerprint(model)
    twin = ramet.clone(model)
    exact.assert_untouched(before, exact.fingerprint(model))
    exact.assert_same_structure(model, twin)
    exact.assert_same_state(model, twin)
    exact.assert_same_sharing(model, twin)
    exact.assert_disjoint(model, twin)
    exact.assert_same_outputs(model, twin, x)


@pytest.mark.parametrize("case", [c for c in CASES if c.targets], ids=lambda c: c.name)
def test_clone_trains_alike(case: Case) -> None:
    model, (x, y) = case.build(), case.data()
    exact.assert_same_training(model, ramet.clone(model), x, y)


@every_case
def test_clone_is_independent(case: Case) -> None:
    model, (x, y) = case.build(), case.data()
    exact.assert_independent(model, ramet.clone(model), x, y)


@pytest.mark.parametrize("case", sample_for_backend(BACKEND), ids=lambda c: c.name)
def test_clone_survives_saving(case: Case, tmp_path: Path) -> None:
    model = case.build()
    exact.assert_same_after_saving(model, ramet.clone(model), tmp_path, case)


def test_a_model_without_weights_yet_is_refused() -> None:
    model = keras.Sequential([keras.layers.Dense(2)], name="later")
    with pytest.raises(ramet.RametError, match="later"):
        ramet.clone(model)


@every_case
def test_share(case: Case) -> None:
    model, (x, _) = case.build(), case.data()
    before = exact.fingerprint(model)
    twin = ramet.clone(model, weights="share")
    exact.assert_untouched(before, exact.fingerprint(model))
    assert [id(v) for v in twin.weights] == [id(v) for v in model.weights]
    for path, ours, theirs in exact.pairs(model, twin):
        assert ours is not theirs, f"{path} is one object for both"
    exact.assert_same_inference(model, twin, x)


@pytest.mark.parametrize("case", [c for c in CASES if c.fresh], ids=lambda c: c.name)
def test_fresh(case: Case) -> None:
    model = case.build()
    keras.utils.set_random_seed(1)
    other = case.build()
    before = exact.fingerprint(model)
    first = ramet.clone(model, weights="fresh", seed=7)
    second = ramet.clone(model, weights="fresh", seed=7)
    exact.assert_untouched(before, exact.fingerprint(model))
    exact.assert_disjoint(model, first)
    for v, w, drawn, again in zip(
        model.weights, other.weights, first.weights, second.weights, strict=True
    ):
        assert (v.path, v.shape, v.dtype) == (drawn.path, drawn.shape, drawn.dtype)
        assert exact.bits(drawn) == exact.bits(again), f"{v.path}: one seed, two draws"
        if exact.bits(v) != exact.bits(w) and np.ptp(keras.ops.convert_to_numpy(v.value)):
            # Two builds differ in it, and it is not one number throughout: its value is random.
            assert exact.bits(drawn) != exact.bits(v), f"{v.path} still has the source's value"
