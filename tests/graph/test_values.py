"""Weights that an edit computes, as data."""

import pickle

import numpy as np
import pytest

from ramet.graph import Layer
from ramet.graph.values import (
    Computed,
    Value,
    Variable,
    add,
    concatenate,
    evaluate,
    moved_variable,
    multiply,
    pad,
    reshape,
    take,
    transpose,
    variables_in,
)

pytestmark = pytest.mark.backend_free

KERNEL = np.arange(12.0, dtype="float32").reshape(3, 4)


def kernel(name: str = "dense") -> Variable:
    return Variable(Layer(name, "Dense", None), ("kernel",))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (take(kernel(), [2, 0], 0), KERNEL[[2, 0]]),
        (take(kernel(), [1, -1], 1), np.stack([KERNEL[:, 1], np.zeros(3)], 1)),
        (take(take(kernel(), [], 0), [-1], 0), np.zeros((1, 4))),
        (pad(kernel(), [(0, 1), (2, 0)]), np.pad(KERNEL, [(0, 1), (2, 0)])),
        (transpose(kernel(), [1, 0]), KERNEL.T),
        (reshape(kernel(), [2, 6]), KERNEL.reshape(2, 6)),
        (concatenate([kernel(), np.ones((1, 4))], 0), np.concatenate([KERNEL, np.ones((1, 4))])),
        (multiply(kernel(), np.full(4, 2.0)), KERNEL * 2),
        (add(kernel(), kernel()), KERNEL + KERNEL),
    ],
)
def test_values_are_evaluated_as_numpy_does(value: Value, expected: np.ndarray) -> None:
    before = KERNEL.copy()
    result = evaluate(value, lambda _: KERNEL)
    assert result.shape == expected.shape
    assert (result == expected).all()
    assert (before == KERNEL).all(), "the source was written to"


def test_arithmetic_is_in_float64() -> None:
    assert evaluate(multiply(kernel(), KERNEL), lambda _: KERNEL).dtype == np.float64
    assert evaluate(take(kernel(), [0], 0), lambda _: KERNEL).dtype == np.float32


def test_a_value_that_only_moves_elements_names_its_variable() -> None:
    source = kernel()
    assert moved_variable(take(transpose(source, [1, 0]), [1], 0)) is source
    assert moved_variable(source) is source
    assert moved_variable(multiply(source, np.ones(4))) is None
    assert moved_variable(concatenate([source, source], 0)) is None
    assert moved_variable(KERNEL) is None


def test_the_variables_in_a_value_come_in_order() -> None:
    first, second = kernel("a"), kernel("b")
    value = add(take(first, [0], 0), multiply(second, np.ones(4)))
    assert [each.layer.name for each in variables_in(value)] == ["a", "b"]


def test_values_are_compared_by_what_they_compute() -> None:
    source = kernel()
    assert take(source, [1, 2], 0) == take(source, [1, 2], 0)
    assert hash(take(source, [1, 2], 0)) == hash(take(source, [1, 2], 0))
    assert take(source, [1, 2], 0) != take(source, [2, 1], 0)
    assert multiply(source, np.ones(4)) != multiply(source, np.zeros(4))
    assert multiply(source, np.ones(4)) != add(source, np.ones(4))


def test_values_are_pickled_without_live_layers() -> None:
    value = take(Variable(Layer("dense", "Dense", object()), ("kernel",)), [1], 0)
    again = pickle.loads(pickle.dumps(value))  # noqa: S301 its own
    assert isinstance(again, Computed)
    assert [each.layer.origin for each in variables_in(again)] == [None]
    assert repr(again) == repr(value)
