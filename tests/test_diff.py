"""What changed between two models: one entry per change, where it began."""

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from ramet.comparing.alignment.align import align
from test_edit import nested, residual


def told(first, second):
    return [(entry.kind, entry.where) for entry in ramet.diff(first, second)]


@pytest.mark.parametrize("make", [residual, nested])
def test_a_clone_gives_an_empty_diff(make):
    model = make()
    found = ramet.diff(model, ramet.clone(model))
    assert not found
    assert len(found) == 0
    assert "no difference" in str(found)


EDITS = {
    "replace": (lambda g: g.replace("a_relu", layers.PReLU(name="p")), ("replaced", "a_relu")),
    "insert": (lambda g: g.insert_after("a_add", layers.Dropout(0.1, name="d")), ("added", "d")),
    "remove": (lambda g: g.remove("a_relu"), ("removed", "a_relu")),
    "configure": (lambda g: g.configure("head", activation="relu"), ("config", "head")),
    "widen": (lambda g: g.configure("head", units=7), ("config", "head")),
    "freeze": (lambda g: g.configure("a_conv", trainable=False), ("config", "a_conv")),
    "rename": (lambda g: g.rename({"head": "h"}), ("renamed", "head")),
    "rewire": (lambda g: g.rewire("b_add", 0, "stem"), ("arguments", "b_add")),
    "inputs": (lambda g: g.with_inputs(shape=(16, 16, 3)), ("config", "image")),
    "output": (lambda g: g.add_output("a_add"), ("outputs", "outputs")),
}


@pytest.mark.parametrize("name", EDITS)
def test_one_edit_gives_one_entry(name):
    model = residual()
    edit, expected = EDITS[name]
    graph = edit(ramet.trace(model))
    assert told(model, graph) == [expected]
    assert told(model, graph.build()) == [expected]


def test_renaming_everything_gives_only_renames():
    model = residual()
    found = ramet.diff(model, ramet.trace(model).prefix("other_"))
    assert {entry.kind for entry in found} == {"renamed"}
    assert len(found) == len(model.layers)
    swapped = ramet.trace(model).rename({"a_conv": "b_conv", "b_conv": "a_conv"})
    assert told(model, swapped) == [("renamed", "a_conv"), ("renamed", "b_conv")]


def test_branches_that_are_alike_are_told_apart_by_where_they_lead():
    x = keras.Input((4,), name="x")
    branches = [layers.Dense(3, name=f"b{number}")(x) for number in range(4)]
    model = keras.Model(x, layers.Concatenate(name="all")(branches))
    swapped = ramet.trace(model).rename({"b0": "b3", "b3": "b0", "b1": "other"})
    assert told(model, swapped) == [("renamed", "b0"), ("renamed", "b1"), ("renamed", "b3")]


def test_weights_say_how_much():
    model = residual()
    twin = ramet.clone(model)
    stem = twin.get_layer("stem")
    stem.bias.assign(np.array([0, 0, 0.25, 0], "float32"))
    found = ramet.diff(model, twin)
    assert [(e.kind, e.where) for e in found] == [("weights", "stem")]
    assert found.entries[0].text == "bias differs in 1 of 4 values, by 0.25"
    assert not ramet.diff(model, twin, weights=False)


def test_nested_models_are_compared_inside():
    model = nested()
    graph = ramet.trace(model).configure("body/one", activation="tanh")
    assert told(model, graph) == [("config", "body/one")]


def test_sharing_and_masks():
    x = keras.Input((4,), name="x")
    shared = layers.Dense(4, name="shared")
    model = keras.Model(x, shared(shared(x)))
    assert told(model, ramet.trace(model).unshare("shared")) == [("sharing", "shared#2")]
    tokens = keras.Input((4,), dtype="int32", name="tokens")
    y = layers.GRU(2, name="gru")(layers.Embedding(5, 2, mask_zero=True, name="e")(tokens))
    model = keras.Model(tokens, y)
    off = ramet.trace(model).configure("e", mask_zero=False)
    assert told(model, off) == [("config", "e")]


def test_files_and_data(tmp_path):
    model = residual()
    other = ramet.trace(model).remove("a_relu").build()
    model.save(tmp_path / "a.keras")
    other.save(tmp_path / "b.keras")
    found = ramet.diff(tmp_path / "a.keras", str(tmp_path / "b.keras"))
    assert found.to_dict()["entries"] == [{"kind": "removed", "where": "a_relu", "text": "ReLU"}]
    assert [entry.where for entry in found.of("removed")] == ["a_relu"]
    assert "removed │ a_relu │ ReLU" in str(found)
    assert repr(found) == "<Diff: residual and residual: 1 removed>"
    assert "<td" in found._repr_html_()
    with pytest.raises(ramet.FileError, match="nowhere"):
        ramet.diff(model, tmp_path / "nowhere.keras")


def test_neither_model_is_changed():
    model = residual()
    calls = [len(layer._inbound_nodes) for layer in model.layers]
    ramet.diff(model, ramet.trace(model).remove("a_relu"))
    assert [len(layer._inbound_nodes) for layer in model.layers] == calls


class Unnamed(layers.Layer):
    """A layer whose weights have no names."""

    def build(self, input_shape):
        self.a = self.add_weight(shape=(input_shape[-1],), initializer="ones")
        self.b = self.add_weight(shape=(input_shape[-1],), initializer="zeros")

    def call(self, inputs):
        return inputs * self.a + self.b


def automatic(width=3, *, more=False) -> keras.Model:
    """A model in which Keras makes up all names but one."""
    x = keras.Input((4,))
    branches = [layers.Dense(width)(x) for _ in range(3)]
    y = keras.ops.relu(layers.Concatenate()(branches)) * 2.0
    start = keras.Input((3 * width,))
    inner = keras.Model(start, layers.Dense(4)(start))
    y = keras.Sequential([keras.Input((4,)), layers.Dense(4), Unnamed()])(inner(y))
    y = layers.Dropout(0.5, seed=1)(y) if more else y
    y = layers.Dense(4, name="chosen")(y)
    y = layers.Bidirectional(layers.GRU(2, seed=1))(keras.ops.expand_dims(y, 1))
    return keras.Model(x, layers.Activation("tanh")(y))


def test_the_same_code_twice_makes_the_same_model():
    first, second = automatic(), automatic()
    assert first.layers[1].name != second.layers[1].name
    assert not ramet.diff(first, second, weights=False)
    second.set_weights(first.get_weights())
    assert not ramet.diff(first, second)
    assert not ramet.diff(second, first)
    assert "no difference" in str(ramet.diff(first, second))


def test_a_change_is_found_among_automatic_names():
    first, second = automatic(), automatic()
    second.set_weights(first.get_weights())
    # The numbers of three equal branches overlap with those of the other model's.
    branch = second.layers[2]
    branch.bias.assign([1.0, 2.0, 3.0])
    found = ramet.diff(first, second)
    assert [(e.kind, e.where) for e in found] == [("weights", first.layers[2].name)]
    more = automatic(more=True)
    assert [entry.kind for entry in ramet.diff(first, more, weights=False)] == ["added"]
    kinds = {entry.kind for entry in ramet.diff(first, automatic(width=5), weights=False)}
    assert "renamed" not in kinds
    assert "config" in kinds


def test_chosen_names_are_still_renames():
    first, second = automatic(), automatic()
    graph = ramet.trace(second).rename({"chosen": "other", second.layers[1].name: "mine"})
    found = ramet.diff(first, graph, weights=False)
    assert sorted(entry.text for entry in found) == ["now 'mine'", "now 'other'"]
    assert {entry.kind for entry in found} == {"renamed"}


def test_branches_that_are_alike_keep_their_order():
    def make():
        x = keras.Input((4,))
        return keras.Model(x, layers.Add()([layers.Dense(3)(x) for _ in range(4)]))

    first = make()
    second = make()
    # Dense layers of the second are numbered on from those of the first: shift them by one.
    names = [layer.name for layer in first.layers if isinstance(layer, layers.Dense)]
    shifted = {
        layer.name: f"shift_{number}"
        for number, layer in enumerate(v for v in second.layers if isinstance(v, layers.Dense))
    }
    second.set_weights(first.get_weights())
    moved = ramet.trace(second).rename(shifted)
    number = int(names[0].rpartition("_")[2]) if names[0] != "dense" else 0
    back = {f"shift_{at}": f"dense_{number + at + 1}" for at in range(4)}
    assert not ramet.diff(first, moved.rename(back))


def row(*names, units=4) -> keras.Model:
    """Dense layers in a row that differ in nothing but names and weights."""
    start = x = keras.Input((4,), name="x")
    for name in names:
        x = layers.Dense(units, name=name)(x)
    return keras.Model(start, x)


EQUALS = {
    "removed": (lambda g: g.remove("b"), [("removed", "b")]),
    "renamed": (lambda g: g.rename({"b": "q"}), [("renamed", "b")]),
    "inserted": (lambda g: g.insert_after("a", layers.Dense(4, name="n")), [("added", "n")]),
    "removed and inserted": (
        lambda g: g.remove("a").insert_after("c", layers.Dense(4, name="n")),
        [("removed", "a"), ("added", "n")],
    ),
    "all at once": (
        lambda g: (
            g.insert_after("a", layers.Dense(4, name="n"))
            .rename({"b": "q"})
            .replace("c", layers.Dense(7, name="head"))
        ),
        [("added", "n"), ("renamed", "b"), ("replaced", "c")],
    ),
}


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("name", EQUALS)
def test_equal_neighbours(name, weights):
    model = row("a", "b", "c")
    edit, expected = EQUALS[name]
    found = ramet.diff(model, edit(ramet.trace(model)), weights=weights)
    assert len(found) == len(expected)
    if weights or name != "all at once":  # Without weights, names alone say less than that.
        assert [(entry.kind, entry.where) for entry in found] == expected


def test_weights_tell_which_of_equals_is_gone():
    first = keras.Sequential([keras.Input((4,)), *(layers.Dense(4) for _ in range(3))])
    second = keras.Sequential([keras.Input((4,)), *(layers.Dense(4) for _ in range(2))])
    for mine, theirs in zip(second.layers, (first.layers[0], first.layers[2]), strict=True):
        mine.set_weights(theirs.get_weights())
    assert told(first, second) == [("removed", first.layers[1].name)]


def test_parallel_branches_in_another_order_of_construction():
    def make(order):
        x = keras.Input((4,))
        ends = {units: layers.Dense(units)(x) for units in order}
        return keras.Model(x, layers.Concatenate()([ends[2], ends[3], ends[5]]))

    assert not ramet.diff(make([2, 3, 5]), make([5, 2, 3]), weights=False)


@pytest.mark.parametrize("port", [0, 1])
def test_wires_tell_which_of_equals_is_gone(port):
    def make(gone=None):
        x = keras.Input((4,))
        return keras.Model(x, layers.Add()([x if i == gone else layers.ReLU()(x) for i in (0, 1)]))

    first = make()
    names = [layer.name for layer in first.layers if isinstance(layer, layers.ReLU)]
    assert told(first, make(port)) == [("removed", names[port])]


def test_a_model_that_is_inlined_is_one_change():
    model = nested()
    flat = ramet.trace(model).flatten().build()
    assert told(model, flat) == [("inlined", "body")]
    assert told(flat, model) == [("wrapped", "body")]
    renamed = ramet.trace(model).rename({"body/one": "uno"}).flatten()
    assert told(model, renamed) == [("inlined", "body"), ("renamed", "body/one")]


def test_what_is_frozen_at_once_is_one_change():
    model = nested()
    assert told(model, ramet.trace(model).freeze("body")) == [("config", "body")]
    assert told(model, ramet.trace(model).freeze()) == [("config", "nested")]
    assert told(model, ramet.trace(model).freeze("body/one")) == [("config", "body/one")]


def test_the_class_of_a_model():
    chain = keras.Sequential([keras.Input((4,), name="x"), layers.Dense(4, name="a")], name="m")
    x = keras.Input((4,), name="x")
    model = keras.Model(x, layers.Dense(4, name="a")(x), name="m")
    model.set_weights(chain.get_weights())
    assert told(chain, model) == [("class", "m")]
    wholes = []
    for inner in (chain, model):
        start = keras.Input((4,), name="start")
        wholes.append(keras.Model(start, inner(start)))
    assert told(*wholes) == [("class", "m")]


def test_calls_of_shared_layers():
    x = keras.Input((4,), name="x")
    shared = layers.Dense(4, name="s")
    model = keras.Model(x, shared(shared(shared(x))))
    graph = ramet.trace(model)
    assert told(model, graph.remove("s#2")) == [("removed", "s#2")]
    assert told(model, graph.unshare("s")) == [("sharing", "s#2")]
    assert told(graph.unshare("s"), model) == [("sharing", "s_1")]
    assert told(model, graph.replace("s#2", layers.ReLU(name="r"))) == [("sharing", "s#2")]


def test_shapes_that_follow_are_not_listed():
    model = row("a", "b", "c")
    wide = ramet.trace(model).configure("a", units=6).configure("b", weights="grow")
    assert [(e.kind, e.where) for e in ramet.diff(model, wide, weights=False)] == [("config", "a")]
    assert told(model, wide)[0] == ("config", "a")
    outer = nested()
    wider = ramet.trace(outer).with_inputs(batch_size=3)
    assert told(outer, wider) == [("config", "x")]


def test_an_alignment_covers_nested_models():
    model = nested()
    other = ramet.trace(model).rename({"body": "torso", "body/one": "uno"}).build()
    alignment = align(ramet.trace(model), ramet.trace(other))
    pairs = {old: new for old, _, new, _ in alignment.pairs()}
    assert pairs["body"] == "torso"
    assert pairs["body/one"] == "torso/uno"
    assert [(one, two) for one, two, _ in alignment.walk()] == [("", ""), ("body/", "torso/")]


class Scaled(keras.layers.Layer):
    """Has an attribute that its config does not show."""

    def __init__(self, inner=None, **kwargs):
        super().__init__(**kwargs)
        self.scale = 0.5
        self.dense = keras.layers.Dense(2, name="dense")
        self.inner = inner

    def build(self, shape):
        self.dense.build(shape)
        super().build(shape)

    def call(self, x):
        return self.dense(x) * self.scale

    def compute_output_shape(self, shape):
        return shape


def test_plain_attributes_of_user_layers_are_listed():
    x = keras.Input((2,), name="x")
    model = keras.Model(x, Scaled(Scaled(name="inner"), name="block")(x), name="m")
    twin = ramet.clone(model)
    assert not ramet.diff(model, twin)
    block = twin.get_layer("block")
    block.inner.scale, block.dense.activation = 2.0, keras.activations.relu
    assert [(e.kind, e.where, e.text) for e in ramet.diff(model, twin).entries] == [
        ("config", "block", "dense.activation='linear' is now 'relu'; inner.scale=0.5 is now 2.0")
    ]
    x = keras.Input((3, 2), name="x")
    steps = keras.layers.TimeDistributed(Scaled(), name="steps")
    wrapped = keras.Model(x, steps(x), name="w")
    twin = ramet.clone(wrapped)
    twin.get_layer("steps").layer.scale = 2.0
    (entry,) = ramet.diff(wrapped, twin).entries
    assert entry.text == "layer.scale=0.5 is now 2.0"


def test_a_layer_of_another_class_with_the_same_name_was_replaced():
    def decoder(kind):
        x = keras.Input((3, 2), name="x")
        y, *states = kind(2, return_sequences=True, return_state=True, name="encoder")(x)
        return keras.Model(x, kind(2, name="decoder")(y, initial_state=states), name="m")

    found = ramet.diff(decoder(keras.layers.LSTM), decoder(keras.layers.GRU), weights=False)
    assert [(entry.kind, entry.where) for entry in found.entries] == [
        ("replaced", "encoder"),
        ("replaced", "decoder"),
        ("arguments", "decoder"),
    ]
