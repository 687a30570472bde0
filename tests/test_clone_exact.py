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
    model, (x, y) = case.build(), case.data()
    before = exact.fingerprint(model)
    twin = ramet.clone(model)
    exact.assert_untouched(before, exact.fingerprint(model))
    exact.assert_same_structure(model, twin)
    exact.assert_same_state(model, twin)
    exact.assert_same_sharing(model, twin)
    exact.assert_disjoint(model, twin)
    exact.assert_same_outputs(model, twin, x)
    # The next one is of a model in use, and has not run itself.
    twin = ramet.clone(model)
    if y is not None:
        exact.assert_same_training(model, twin, x, y)
    exact.assert_independent(model, twin, x)


@pytest.mark.parametrize("case", sample_for_backend(BACKEND), ids=lambda c: c.name)
def test_clone_survives_saving(case: Case, tmp_path: Path) -> None:
    model = case.build()
    exact.assert_same_after_saving(model, ramet.clone(model), tmp_path, case)


def test_a_model_without_weights_yet_is_refused() -> None:
    model = keras.Sequential([keras.layers.Dense(2)], name="later")
    with pytest.raises(ramet.RametError, match="later"):
        ramet.clone(model)


@every_case
def test_shared_and_fresh_weights(case: Case) -> None:
    model, (x, _) = case.build(), case.data()
    before = exact.fingerprint(model)
    shared = ramet.clone(model, weights="share")
    fresh = [ramet.clone(model, weights="fresh", seed=7) for _ in range(2 * case.fresh)]
    exact.assert_untouched(before, exact.fingerprint(model))
    assert [id(v) for v in shared.weights] == [id(v) for v in model.weights]
    for path, ours, theirs in exact.pairs(model, shared):
        assert ours is not theirs, f"{path} is one object for both"
    if fresh:
        exact.assert_disjoint(model, fresh[0])
        assert_drawn_again(case, model, *fresh)
    exact.assert_same_inference(model, shared, x)


def assert_drawn_again(
    case: Case, model: keras.Model, first: keras.Model, second: keras.Model
) -> None:
    """One seed has one draw, and whatever is random has another value than in the source."""
    keras.utils.set_random_seed(1)
    other = case.build()
    for v, w, drawn, again in zip(
        model.weights, other.weights, first.weights, second.weights, strict=True
    ):
        assert (v.path, v.shape, v.dtype) == (drawn.path, drawn.shape, drawn.dtype)
        assert exact.bits(drawn) == exact.bits(again), f"{v.path}: one seed, two draws"
        if exact.bits(v) != exact.bits(w) and np.ptp(keras.ops.convert_to_numpy(v.value)):
            # Two builds differ in it, and it is not one number throughout: its value is random.
            assert exact.bits(drawn) != exact.bits(v), f"{v.path} still has the source's value"
