"""From models to graphs, and the graph that a copy gets."""

import pickle

import keras
import numpy as np
import pytest
from keras import layers
from keras.src.ops.function import map_graph

import ramet
from ramet import keras_internals as internals
from ramet.graph import Ref
from ramet.graph.data import Facts
from ramet.tracing.trace import has_graph
from zoo.base import for_backend, sample_for_backend


def test_a_graph_reads_like_the_model():
    keras.utils.clear_session()  # operations are named by a counter
    inputs = keras.Input((4,), name="x")
    shared = layers.Dense(4, name="shared")
    inner_inputs = keras.Input((4,), name="h")
    inner = keras.Model(inner_inputs, layers.Dense(2, name="out")(inner_inputs), name="inner")
    y = shared(shared(inputs)[:, :4] * 2)
    model = keras.Model(inputs, {"y": inner(y)}, name="net")
    assert str(ramet.trace(model)) == (
        "graph 'net': 5 layers, 6 calls\n"
        "  x: float32[None, 4]        = InputLayer()\n"
        "  shared: float32[None, 4]   = Dense(x)\n"
        "  get_item: float32[None, 4] = GetItem(shared, (:, :4))\n"
        "  multiply: float32[None, 4] = Multiply(get_item, 2)\n"
        "  shared#2: float32[None, 4] = Dense shared(multiply)\n"
        "  inner: float32[None, 2]    = Functional(shared#2)\n"
        "  return {y: inner}\n"
        "  graph 'inner': 2 layers, 2 calls\n"
        "    h: float32[None, 4]   = InputLayer()\n"
        "    out: float32[None, 2] = Dense(h)\n"
        "    return out"
    )


def test_masks_that_keras_filled_in_are_marked():
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    embedded = layers.Embedding(9, 3, mask_zero=True, name="embedding")(tokens)
    own = keras.ops.not_equal(tokens, 1)
    outputs = [
        layers.GRU(2, name="implicit")(embedded),
        layers.GRU(2, name="explicit")(embedded, mask=own),
    ]
    graph = ramet.trace(keras.Model(tokens, outputs))
    assert "mask" in graph.calls["implicit"].derived
    assert "mask" not in graph.calls["explicit"].derived
    mask = graph.calls["embedding"].outputs[0].mask
    assert isinstance(mask, Ref)
    assert graph.calls["implicit"].kwargs["mask"] == mask


def test_calls_of_a_layer_keep_their_order():
    """Also where the walk from the outputs meets the second call first."""
    inputs = keras.Input((4,))
    shared = layers.Dense(4, name="shared")
    first, second = shared(inputs), shared(inputs * 2)
    model = keras.Model(inputs, [layers.Add()([second, first]), second])
    twin = ramet.clone(model)
    for index in range(2):
        old, new = (m.get_layer("shared")._inbound_nodes[index] for m in (model, twin))
        assert [t.name for t in old.input_tensors] == [t.name for t in new.input_tensors]
    assert twin.get_config() == model.get_config()


def test_layers_called_elsewhere_keep_only_the_models_calls():
    inputs = keras.Input((4,))
    dense = layers.Dense(4, name="dense")
    dense(keras.Input((4,)))
    model = keras.Model(inputs, dense(inputs))
    dense(keras.Input((4,)))
    twin = ramet.clone(model)
    assert len(dense._inbound_nodes) == 3
    assert len(twin.get_layer("dense")._inbound_nodes) == 1


def test_tracing_changes_nothing():
    inputs = keras.Input((4,))
    model = keras.Model(inputs, layers.Dense(2)(inputs))
    nodes = [list(op._inbound_nodes) for op in model.operations]
    counter = keras.backend.get_uid("probe")
    assert ramet.trace(model) == ramet.trace(model)
    assert ramet.trace(ramet.trace(model)) == ramet.trace(model)
    assert [list(op._inbound_nodes) for op in model.operations] == nodes
    assert keras.backend.get_uid("probe") == counter + 1


def test_our_map_of_a_graph_is_keras_own(backend):
    """The walk without recursion gives what Keras's recursive one gives."""
    checked = 0
    for case in for_backend(backend):
        if not case.name.startswith(("structure", "nest", "wiring")):
            continue
        function = internals.functional_of(ramet.clone(case.build(), weights="share"))
        if function is not None:
            nodes, by_depth, operations, _ = map_graph(function._inputs, function._outputs)
            assert function._nodes == nodes
            assert dict(function._nodes_by_depth) == dict(by_depth)
            assert list(function._operations) == operations
            checked += 1
    assert checked > 30


class TwoInOne(layers.Layer):
    """Gives a dict of outputs."""

    def call(self, x):
        return {"b": x * 2, "a": [x, x * 3]}


@pytest.mark.parametrize("name", ["b", "a"])
def test_structures_of_outputs_survive(name):
    inputs = keras.Input((3,))
    model = keras.Model(inputs, TwoInOne()(inputs)[name])
    data = np.ones((1, 3), "float32")
    old, new = (keras.tree.map_structure(np.asarray, m.predict(data, verbose=0))
                for m in (model, ramet.clone(model)))  # fmt: skip
    keras.tree.assert_same_structure(old, new)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(keras.tree.flatten(old), keras.tree.flatten(new), strict=True)
    )


@pytest.mark.parametrize("case", sample_for_backend(keras.backend.backend()), ids=lambda c: c.name)
def test_a_traced_graph_is_hashed_compared_and_pickled(case):
    model = case.build()
    if not has_graph(model):
        pytest.skip("it has no graph")
    graph = ramet.trace(model)
    again = pickle.loads(pickle.dumps(graph))  # noqa: S301 written by this very test
    assert graph == ramet.trace(model) == again
    assert hash(graph) == hash(ramet.trace(model)) == hash(again)
    assert str(again) == str(graph)
    assert graph != ramet.trace(ramet.clone(model))  # of other layers
    with pytest.raises(ramet.GraphError, match="trace the model again"):
        again.build()


def small():
    inputs = keras.Input((4,), name="x", optional=True)
    hidden = layers.Dense(4, name="dense", trainable=False)(inputs)
    return keras.Model(inputs, layers.Dropout(0.5, name="drop")(hidden) + 1, name="small")


def test_what_edits_ask_of_layers_is_recorded():
    graph = ramet.trace(small())
    facts = {key: layer.facts for key, layer in graph.layers.items()}
    assert facts["x"] == Facts("input", built=True, optional=True)
    assert facts["dense"] == Facts(built=True, has_weights=True, trainable=False)
    assert facts["drop"] == Facts(built=True)
    assert [facts[key].role for key in facts if key.startswith("add")] == ["operation"]


def test_an_unpickled_graph_can_be_read_and_edited_but_asks_nobody():
    graph = ramet.trace(small())
    again = pickle.loads(pickle.dumps(graph))  # noqa: S301 written by this very test
    for one in (graph, again):
        edited = one.freeze("drop").remove("drop").rename({"dense": "last"})
        assert [*edited.select(kind="Dense")] == ["last"]
    assert edited == graph.freeze("drop").remove("drop").rename({"dense": "last"})
    assert len(again.add_output("dense").outputs) == len(["x", "dense"])
    with pytest.raises(ramet.GraphError, match="trace the model again"):
        again.insert_after("dense", layers.ReLU())


def test_a_layer_is_known_by_a_number_that_nobody_else_gets():
    def token():
        return ramet.trace(small()).layers["dense"].token

    assert len({token() for _ in range(20)}) == 20


def test_a_subclass_of_an_input_is_an_input():
    class Named(layers.InputLayer):
        pass

    start = Named(batch_shape=(None, 4), name="x")
    model = keras.Model(start.output, layers.Dense(2, name="dense")(start.output))
    with pytest.raises(ramet.GraphError, match=r"input 'x' .* cannot be removed"):
        ramet.trace(model).remove("x")


def test_a_graph_holds_no_container_that_a_model_tracks():
    inputs = {"a": keras.Input((2,), name="a"), "b": keras.Input((2,), name="b")}
    model = keras.Model(inputs, [layers.Add(name="sum")([inputs["a"], inputs["b"]])])
    holder = layers.Layer()
    holder.kept = inputs  # Keras tracks it there, in a dict of its own.
    tracked = keras.Model(holder.kept, layers.Add()([inputs["a"], inputs["b"]]))
    for one in (model, tracked):
        graph = ramet.trace(one)
        assert type(graph.inputs) is dict
        assert pickle.loads(pickle.dumps(graph)) == graph  # noqa: S301 written by this very test
    edited = ramet.trace(tracked).rename({"a": "c"}).build()
    assert [tensor.name for tensor in edited.inputs] == ["c", "b"]
