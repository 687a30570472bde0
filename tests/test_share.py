"""Layers that are tied: what has to agree, and what is said of the rest."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet

pytestmark = pytest.mark.sampled

X = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")


def towers(first: Any, second: Any) -> Any:
    x = keras.Input((4,), name="x")
    return keras.Model(x, [first(x), second(x)], name="towers")


def dense(name: str, **options: Any) -> Any:
    return layers.Dense(options.pop("units", 4), name=name, **options)


def test_other_arguments_are_refused_or_those_of_the_first_hold() -> None:
    graph = ramet.trace(towers(dense("a"), dense("b", activation="relu")))
    message = r"'a' and 'b' differ in activation \('linear' and 'relu'\).*config='first'"
    with pytest.raises(ramet.GraphError, match=message):
        graph.share("a", "b")
    tied = graph.share("a", "b", config="first")
    assert "the weights of 'b' are dropped, 'a' decides on activation" in str(tied.journal)
    made = tied.build()
    assert len(made.weights) == 2
    one, two = made(X)
    np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (one, two)))
    # The other remedy.
    assert len(graph.configure("b", activation="linear").share("a", "b").build().weights) == 2
    with pytest.raises(ramet.GraphError, match="differ in use_bias"):
        ramet.trace(towers(dense("a"), dense("b"))).configure("b", use_bias=False).share("a", "b")


def test_other_shapes_are_refused() -> None:
    graph = ramet.trace(towers(dense("a"), dense("b", units=5)))
    for config in ("same", "first"):
        message = r"'a' has weights of shapes \[\(4, 4\), \(4,\)\] and 'b' of \[\(4, 5\), \(5,\)\]"
        with pytest.raises(ramet.GraphError, match=message):
            graph.share("a", "b", config=config)


def test_a_flag_that_differs_is_told() -> None:
    graph = ramet.trace(towers(dense("a"), dense("b", trainable=False)))
    tied = graph.share("a", "b")
    assert "'b' was frozen and is trained now, as 'a' is" in str(tied.journal)
    tied = graph.share("b", "a")
    assert "'a' was trained and is frozen now, as 'b' is" in str(tied.journal)
    assert len(tied.build().trainable_weights) == 0


def test_nested_models_are_compared_inside() -> None:
    def tower(name: str, *, kind: str = "linear") -> Any:
        start = keras.Input((4,), name=f"{name}_in")
        return keras.Model(start, dense(f"{name}_d", activation=kind)(start), name=name)

    graph = ramet.trace(towers(tower("a"), tower("b")))
    assert len(graph.share("a", "b").build().weights) == 2
    graph = ramet.trace(towers(tower("a"), tower("b", kind="relu")))
    with pytest.raises(ramet.GraphError, match="'a' and 'b' differ in a_d/activation"):
        graph.share("a", "b")


def test_what_is_named_must_be_several_layers() -> None:
    graph = ramet.trace(towers(dense("a"), dense("b")))
    for names in (("a",), ("a", "a"), ("a", "b", "b")):
        with pytest.raises(ramet.OptionError, match="share takes layers that differ"):
            graph.share(*names)
    with pytest.raises(ramet.OptionError, match="unknown config='last'"):
        graph.share("a", "b", config="last")


def test_layers_of_operations_are_tied_without_weights() -> None:
    graph = ramet.trace(towers(layers.Dropout(0.5, name="a"), layers.Dropout(0.5, name="b")))
    assert "dropped" not in str(graph.share("a", "b").journal)
    with pytest.raises(ramet.GraphError, match=r"differ in rate \(0.5 and 0.4\)"):
        ramet.trace(towers(layers.Dropout(0.5, name="a"), layers.Dropout(0.4, name="b"))).share(
            "a", "b"
        )


def test_layers_of_other_dtype_policies_are_not_tied() -> None:
    graph = ramet.trace(towers(dense("a"), dense("b", dtype="mixed_float16")))
    with pytest.raises(ramet.GraphError, match=r"differ in dtype \(float32 and mixed_float16\)"):
        graph.share("a", "b")


def test_flags_that_edits_set_are_told() -> None:
    graph = ramet.trace(towers(dense("a"), dense("b")))
    tied = graph.freeze("b").share("a", "b")
    assert "'b' was frozen and is trained now, as 'a' is" in str(tied.journal)
    assert len(tied.build().trainable_variables) == 2
    tied = graph.configure("a", trainable=False).share("a", "b")
    assert "'b' was trained and is frozen now, as 'a' is" in str(tied.journal)
    assert not tied.build().trainable_variables
    assert "frozen" not in str(graph.freeze().share("a", "b").journal)
