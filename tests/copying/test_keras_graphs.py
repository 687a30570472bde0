"""Graphs of copied models that are built elsewhere."""

import keras
import pytest

from ramet import keras_internals as internals
from ramet.copying.deep_copy import Copier


def test_a_graph_that_is_built_elsewhere_is_asked_for_once_and_not_forgotten():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(2, name="dense")(inputs), name="whole")
    copier = Copier()
    copier.await_graph(model)
    twin = copier.copy(model)
    with pytest.raises(RuntimeError, match="the graph of 'whole' is built elsewhere"):
        copier.drain()
    assert copier.advance() is None
    start, dense = keras.Input((3,)), copier.copy(model.get_layer("dense"))
    copier.drain()
    copier.give_graph(model, start, dense(start))
    copier.finish()
    internals.map_graph(twin)
    assert [layer.name for layer in twin.layers][1:] == ["dense"]
    assert twin.inputs == [start]
