"""Pruning in nested models: their inputs get other sizes."""

from typing import Any

import keras
import pytest
from keras import layers

import ramet
from masking_by_hand import scattered
from ramet.compress import prune

pytestmark = pytest.mark.sampled


def inner(name: str = "inner") -> Any:
    steps = [layers.Dense(10, activation="relu", name="up"), layers.Dense(6, name="down")]
    return keras.Sequential([keras.Input((8,)), *steps], name=name)


def in_a_sequential() -> Any:
    first, last = layers.Dense(8, name="first"), layers.Dense(5, name="last")
    return keras.Sequential([keras.Input((8,)), first, inner(), last])


def three_deep() -> Any:
    x = keras.Input((8,))
    middle = keras.Model(x, layers.Dense(12, name="wide")(inner()(x)), name="middle")
    first, last = layers.Dense(8, name="first"), layers.Dense(5, name="last")
    outer = keras.Sequential([keras.Input((8,)), first, middle, layers.ReLU(), last], name="outer")
    y = keras.Input((8,))
    return keras.Model(y, layers.Dense(2, name="head")(outer(y)))


class Holder(layers.Layer):
    """Calls a model that the graph around it calls, too."""

    def __init__(self, model: Any, **options: Any) -> None:
        super().__init__(**options)
        self.model = model

    def call(self, x: Any) -> Any:
        return self.model(x)


def held_by_a_layer() -> Any:
    x, model = keras.Input((8,)), inner()
    y = Holder(model, name="holder")(x)
    first = layers.Dense(7, name="first")(y)
    return keras.Model(x, [layers.Dense(2, name="head")(first), model(x)])


@pytest.mark.parametrize("maker", [in_a_sequential, three_deep, held_by_a_layer])
def test_a_nested_model_gets_other_sizes(maker: Any) -> None:
    model = scattered(maker())
    graph = prune(model, ratio=0.5)
    proof = ramet.prove(graph)
    assert proof.edits[0].judgement == "kept", str(proof)
    assert graph.build().count_params() < model.count_params()
