"""Selections beside operations, and over layers that several graphs have in common."""

import keras
import numpy as np
import pytest
from keras import layers, ops

import ramet

ROW = np.random.default_rng(0).standard_normal((2, 4)).astype("float32")


def array(value):
    return ops.convert_to_numpy(value)


def with_operations() -> keras.Model:
    x = keras.Input((4,), name="x")
    y = ops.relu(layers.Dense(4, name="a")(x) * 2.0)
    return keras.Model(x, layers.Dense(2, name="b")(layers.Dropout(0.1, name="d")(y)), name="net")


def test_where_is_asked_beside_operations():
    graph = ramet.trace(with_operations())
    assert [*graph.select(where=lambda layer: layer.weights)] == ["a", "b"]
    assert [*graph.select(where=lambda layer: len(layer.trainable_variables) == 2)] == ["a", "b"]
    # Operations can be meant too, by what they have.
    found = graph.select(where=lambda layer: not isinstance(layer, keras.Layer))
    assert [graph.layers[path].kind for path in found] == ["Multiply", "Relu"]
    assert [*(graph.select(where=lambda layer: layer.name) - found)] == ["a", "d", "b"]


def test_operations_are_selected_by_name_and_kind():
    graph = ramet.trace(with_operations())
    place = graph.select(kind="Multiply").one()
    assert place.startswith("multiply")
    for found in (
        graph.select(name="mul*"),
        graph.select(regex="^mul"),
        graph.select(kind=type(graph.layers[place].origin)),
    ):
        assert found.one() == place


def test_an_exception_of_the_question_names_the_layer():
    graph = ramet.trace(with_operations())
    with pytest.raises(ZeroDivisionError) as caught:
        graph.select(where=lambda layer: layer.units / 0 if layer.name == "b" else False)
    assert caught.value.__notes__ == ["while asking `where` about layer 'b' (Dense)"]
    with pytest.raises(AttributeError, match="units") as caught:
        graph.select(where=lambda layer: layer.units == 4)  # Dropout is a layer, and has none.
    assert "layer 'd' (Dropout)" in caught.value.__notes__[-1]
    with pytest.raises(AttributeError, match="nowhere"):
        graph.select(where=lambda layer: ops.nowhere(layer))  # Not an attribute of the operation.
    with pytest.raises(ramet.OptionError, match="where must be a function of a layer, got 'a'"):
        graph.select(where="a")


def with_a_layer_in_two_models() -> keras.Model:
    shared = layers.Dense(4, name="shared")

    def part(name):
        start = keras.Input((4,), name=f"{name}_in")
        return keras.Model(start, shared(layers.Dense(4, name=f"{name}_own")(start)), name=name)

    a, b = part("a"), part("b")
    x = keras.Input((4,), name="x")
    return keras.Model(x, shared(b(a(a(x)))), name="net")


def test_a_layer_of_several_graphs_is_followed_in_each():
    model = with_a_layer_in_two_models()
    graph = ramet.trace(model)
    found = graph.select(name="shared")
    assert len(found) == 1
    assert found.calls() == ["shared", "a/shared", "b/shared"]
    edited = found.insert_after(lambda _: layers.Rescaling(2.0))
    assert edited.journal[0].count == 3  # Once in `a`, though that is called twice.
    made = edited.build()

    def part(name, x):
        return 2.0 * made.get_layer("shared")(made.get_layer(name).get_layer(f"{name}_own")(x))

    expected = 2.0 * made.get_layer("shared")(part("b", part("a", part("a", ROW))))
    np.testing.assert_allclose(array(made(ROW)), array(expected), rtol=1e-5, atol=1e-5)


def test_calls_are_named_after_the_first_is_gone():
    x = keras.Input((4,), name="x")
    shared = layers.Dense(4, name="s")
    model = keras.Model(x, shared(shared(shared(x))), name="net")
    graph = ramet.trace(model).remove("s#1")
    found = graph.select(name="s")
    assert found.calls() == ["s#2", "s#3"]
    edited = found.insert_before(lambda _: layers.Rescaling(3.0)).build()
    dense = model.get_layer("s")
    np.testing.assert_allclose(
        array(edited(ROW)), array(dense(3.0 * dense(3.0 * ROW))), rtol=1e-5, atol=1e-5
    )
