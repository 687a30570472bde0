"""Nodes: calls that are recorded without running them."""

import keras
from keras.src.ops.node import Node

from ramet import keras_internals as internals
from ramet.keras_internals import nodes


def test_a_call_on_one_tensor_is_recorded_as_keras_records_it(monkeypatch):
    assert nodes._is_known_node(), "this Keras has nodes with other fields"
    recorded = []
    for known in (True, False):
        monkeypatch.setattr(nodes, "_is_known_node", lambda known=known: known)
        x, output = keras.Input((3,)), keras.KerasTensor((None, 3))
        layer = keras.layers.Identity()
        node = internals.new_node(layer, (x,), {}, [output])
        assert type(node) is Node
        assert layer._inbound_nodes == [node]
        assert x._keras_history.operation._outbound_nodes == [node]
        assert output._keras_history == (layer, 0, 0)
        assert node.arguments.fill_in({id(x): 7}) == ((7,), {})
        recorded.append({"node": vars(node).keys(), "arguments": vars(node.arguments).keys()})
    assert recorded[0] == recorded[1]
