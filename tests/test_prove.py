"""`prove`: promises that are true are kept, and lies are found."""

import dataclasses
import gc
import json
import pickle

import keras
import numpy as np
import pytest
from keras import layers
from rich.cells import cell_len

import ramet
from ramet.comparing.running.measures import measure
from ramet.graph.data import Edit
from ramet.graph.journal import Journal
from ramet.results import Proof
from test_promises import EDITS, Counts, net

BACKEND = keras.backend.backend()


def small(name="net") -> keras.Model:
    x = keras.Input((6,), name="x")
    y = layers.Dense(8, activation="tanh", name="first")(x)
    y = layers.Dropout(0.5, name="drop")(y)
    y = layers.Dense(8, activation="relu", name="second")(y)
    return keras.Model(x, layers.Dense(3, name="head")(y), name=name)


def lying(graph, promise, number=-1):
    """Return an edited graph one of whose edits promises something else."""
    journal = graph.journal
    edits = [*journal]
    edits[number] = dataclasses.replace(edits[number], promise=promise)
    return graph.changed(journal=Journal.of(edits, journal.notes, journal.stages))


@pytest.mark.parametrize(
    "promise",
    ["exact", "equal", "inference-equal", pytest.param("changed", marks=pytest.mark.one_backend)],
)
def test_no_edit_promises_too_much(promise):
    graph = ramet.trace(net())
    for number, edit in enumerate(EDITS[promise]):
        edited = edit(graph)
        if edited.journal[-1].text.startswith("replace 4 calls"):
            continue  # It changes the shape.
        proof = ramet.prove(edited)
        assert proof.ok, (number, str(proof))
        if promise != "changed":
            assert {each.judgement for each in proof.edits} == {"kept"}, str(proof)


def shaken(old):
    """A layer like another, with weights that differ a little."""
    twin = ramet.clone(keras.Sequential([keras.Input(old.input.shape[1:]), old])).layers[-1]
    twin.kernel.assign(twin.kernel * 1.001)
    return twin


LIES = {
    "another function": (
        lambda g: g.configure("second", activation="gelu"),
        "exact",
        "second",
        "structure",
    ),
    "other weights": (lambda g: g.replace("second", shaken), "equal", "second", "weights"),
    "training": (
        lambda g: g.configure("drop", rate=0.25),
        "exact",
        "drop",
        "structure",
    ),
}


@pytest.mark.parametrize("lie", [*LIES])
def test_a_promise_that_is_too_strong_is_broken_where_it_is(lie):
    edit, promise, call, cause = LIES[lie]
    graph = edit(ramet.trace(small()).rename({"first": "one"})).freeze("one")
    honest = ramet.prove(graph)
    assert honest.ok
    proof = ramet.prove(lying(graph, promise, 1))
    assert not proof
    assert [each.judgement for each in proof.edits] == ["kept", "broken", "kept"]
    found = proof.edits[1].divergence
    assert (found.call, found.cause) == (call, cause), found
    assert found.training == (lie == "training")
    assert f"first at '{call}'" in str(proof).replace("│", "")
    with pytest.raises(ramet.errors.DifferenceError, match=f"edit 2, .* promised {promise}, but"):
        proof.raise_if_broken()
    honest.raise_if_broken()


def test_what_only_updates_and_losses_show_is_found():
    graph = ramet.trace(net()).configure("bn", momentum=0.5)
    assert ramet.prove(graph).ok
    proof = ramet.prove(lying(graph, "exact"))
    assert "updated variable 'bn/moving_mean'" in proof.edits[0].detail
    graph = ramet.trace(small()).configure("second", kernel_regularizer="l2")
    assert ramet.prove(graph).ok
    assert "'second/kernel' is regularized" in ramet.prove(lying(graph, "exact")).edits[0].detail
    graph = ramet.trace(small()).freeze("second")
    assert "'second/kernel' is trained" in ramet.prove(lying(graph, "exact")).edits[0].detail
    graph = ramet.trace(small()).configure("second", bias_constraint="non_neg")
    assert "'second/bias' is constrained" in ramet.prove(lying(graph, "exact")).edits[0].detail


def test_edits_that_only_work_together_are_proven_together():
    graph = ramet.trace(small()).insert_after("first", layers.Conv1D(3, 1, name="conv"))
    graph = graph.remove("conv").rename({"first": "one"})
    proof = ramet.prove(lying(lying(graph, "exact", 0), "exact", 1))
    assert [each.edits for each in proof.edits] == [(1, 2), (3,)]
    assert proof.edits[0].detail == "proven together: the graph between them cannot be built"
    assert proof.ok
    assert proof.whole.judgement == "kept"


def test_an_edit_of_many_places_is_one_entry_and_keeps_one_graph():
    x = y = keras.Input((4,), name="x")
    for number in range(60):
        y = layers.Dropout(0.1, name=f"d{number}")(y)
    graph = ramet.trace(keras.Model(x, layers.Dense(2)(y)))
    edited = graph.select(kind="Dropout").remove()
    gc.collect()
    assert [stage.graph for stage in edited.journal.stages] == [graph]
    proof = ramet.prove(edited)
    assert [each.judgement for each in proof.edits] == ["kept"]


def test_graphs_are_kept_within_limits(monkeypatch):
    monkeypatch.setattr("ramet.graph.stages._KEPT", 12)
    graph = ramet.trace(small())
    for number in range(4):
        graph = graph.rename({"first" if not number else f"r{number - 1}": f"r{number}"})
    assert [stage is None for stage in graph.journal.stages] == [False, False, True, True]
    assert [each.edits for each in ramet.prove(graph).edits] == [(1,), (2, 3, 4)]
    assert "not kept" in ramet.prove(graph).edits[1].detail


def test_journals_are_pickled_without_the_graphs_before():
    graph = ramet.trace(small()).freeze().remove("drop")
    again = pickle.loads(pickle.dumps(graph))  # noqa: S301 our own bytes
    assert again == graph
    assert again.journal.notes == graph.journal.notes
    assert again.journal.stages == (None, None)
    with pytest.raises(ramet.errors.GraphError, match="trace the model again"):
        ramet.prove(again)


def test_parts_return_the_tensors_that_they_were_cut_out_of():
    graph = ramet.trace(small())
    head, tail = graph.freeze("first").split("drop")
    for part in (head, tail, graph.extract(outputs=["first", "head"])):
        proof = ramet.prove(part.rename({part.calls[[*part.calls][-1]].layer: "end"}))
        assert {each.judgement for each in proof.edits} == {"kept"}, str(proof)
    assert proof.whole.promised == "exact"
    listed = ramet.trace(keras.Model(graph.origin.model.inputs, [graph.origin.model.output]))
    assert ramet.prove(listed.extract(inputs="first")).edits[0].judgement == "kept"
    wrong = graph.extract(inputs="first").replace("head", shaken)
    assert not ramet.prove(lying(wrong, "exact")).ok


def test_parts_below_a_mask():
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    y = layers.Embedding(9, 4, mask_zero=True, name="embed")(tokens)
    y = layers.LSTM(4, name="lstm")(y)
    graph = ramet.trace(keras.Model(tokens, layers.Dense(2, name="head")(y)))
    proof = ramet.prove(graph.extract(inputs="embed"))
    assert proof.edits[0].judgement == "kept", str(proof)


def test_joined_models_compute_what_each_does():
    one, other = small("one"), small("other")
    for graph in (
        ramet.merge([one, other]),
        ramet.merge([one, other], inputs="separate", outputs={"a": "other", "b": "one"}),
        ramet.merge([ramet.trace(one).freeze(), other], outputs=["other", "one"]).prefix("p_"),
        ramet.chain(one, ramet.trace(other).with_inputs(shape=(3,))
                    .configure("first", weights="grow")),
    ):  # fmt: skip
        proof = ramet.prove(graph)
        assert proof.ok, str(proof)
        assert {each.judgement for each in proof.edits} <= {"kept", "changed", "not measured"}
        assert any(each.judgement == "kept" for each in proof.edits)
        assert proof.fingerprint == ""
        assert not proof.matches(one)
    joined = ramet.merge([one, other], outputs=layers.Average())
    assert ramet.prove(joined).ok


def test_given_data_is_used_in_the_structure_of_the_inputs():
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    model = keras.Model({"a": a, "b": b}, layers.Add(name="add")([a, b]))
    graph = ramet.trace(model).insert_after("add", layers.ReLU(name="relu"))
    plus, minus = np.ones((2, 3), "float32"), -np.ones((2, 3), "float32")
    quiet = ramet.prove(lying(graph, "equal"), {"a": plus, "b": plus})
    assert quiet.ok
    assert "given data" in quiet.data
    loud = ramet.prove(lying(graph, "equal"), {"a": minus, "b": minus})
    assert loud.edits[0].absolute == 2.0
    assert loud.edits[0].divergence is not None
    with pytest.raises(ramet.errors.OptionError, match="cannot be called on data of shape"):
        ramet.prove(graph, {"a": plus, "b": np.ones((2, 4), "float32")})


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"data": "x"}, "data must be an array"),
        ({"data": np.ones((0, 6), "float32")}, "data has no samples"),
        ({"seed": -1}, "seed must be an integer"),
        ({"rtol": float("nan")}, "rtol must be a number"),
    ],
)
def test_wrong_options(options, match):
    with pytest.raises(ramet.errors.OptionError, match=match):
        ramet.prove(ramet.trace(small()), **options)
    with pytest.raises(ramet.errors.ModelError, match="Keras model"):
        ramet.prove("model")


def test_the_tolerance_follows_the_precision():
    x = keras.Input((6,), name="x")
    half = layers.Dense(4, dtype="mixed_float16", name="half")
    model = keras.Model(x, layers.Dense(3, dtype="float32", name="head")(half(x)))
    graph = lying(ramet.trace(model).rename({"half": "h"}), "equal")
    assert ramet.prove(graph).edits[0].allowed == 1e-2
    assert ramet.prove(graph, rtol=1e-3).edits[0].allowed == 1e-3
    plain = lying(ramet.trace(small()).rename({"head": "h"}), "equal")
    assert ramet.prove(plain).edits[0].allowed == 1e-5
    assert ramet.prove(plain.freeze(), rtol=0).ok
    slightly = lying(ramet.trace(small()).replace("second", shaken), "equal")
    assert not ramet.prove(slightly).ok
    assert ramet.prove(slightly, rtol=0.1).ok


@pytest.mark.backend_free
def test_measures():
    nan, inf = np.nan, np.inf
    one = np.array([1.0, nan, inf, -inf], "float32")
    assert measure(one, one.copy()).same
    assert measure(one, np.array([1.0, nan, inf, inf], "float32")).absolute == inf
    assert measure(one, np.array([1.0, 0, inf, -inf], "float32")).relative == inf
    near = measure(one, np.array([1.25, nan, inf, -inf], "float32"))
    assert (near.absolute, near.relative, near.same) == (0.25, 0.2, False)
    assert measure(one, one.astype("float64")).absolute == inf
    zero = measure(np.float32([0.0]), np.float32([-0.0]))
    assert (zero.absolute, zero.relative, zero.same) == (0, 0, False)
    assert measure(np.array(["a"]), np.array(["b"])).absolute == inf
    assert measure(np.array([True]), np.array([False])).absolute == 1


class Noisy(layers.Layer):
    """A layer that returns something else in each call."""

    calls = 0

    def call(self, x):
        type(self).calls += 1
        return x + float(self.calls)


def test_a_model_that_differs_from_call_to_call_proves_nothing():
    x = keras.Input((6,), name="x")
    graph = ramet.trace(keras.Model(x, layers.Dense(2, name="head")(Noisy(name="noisy")(x))))
    proof = ramet.prove(graph.rename({"head": "h"}))
    assert not proof.ok
    assert proof.edits[0].judgement == "not measured"
    assert "differs from call to call" in proof.edits[0].detail
    with pytest.raises(ramet.errors.DifferenceError, match="could not be measured"):
        proof.raise_if_broken()


def test_state_is_neither_changed_nor_carried_from_one_call_to_the_next():
    x = keras.Input((6,), name="x")
    model = keras.Model(x, layers.Dense(2, name="head")(Counts(name="counts")(x)))
    before = model.get_weights()
    assert ramet.prove(ramet.trace(model).rename({"head": "h"}).remove("counts")).ok
    assert all(map(np.array_equal, before, model.get_weights()))


def test_a_proof_is_data_with_a_fingerprint():
    model = small()
    proof = ramet.prove(ramet.trace(model).rename({"first": "one"}).configure("head", units=5))
    data = json.loads(proof.to_json())
    assert data["ok"] is True
    assert data["edits"][1]["absolute"] == "inf"
    assert data["versions"]["keras"] == keras.__version__
    assert data["versions"]["backend"] == BACKEND
    again = Proof.from_json(proof.to_json())
    assert again == proof
    assert str(again) == str(proof)
    assert again.matches(model)
    assert again.matches(ramet.clone(model))
    other = ramet.clone(model)
    other.get_layer("first").bias.assign(np.ones(8, "float32"))
    assert not again.matches(other)
    assert not again.matches(ramet.trace(model).configure("first", activation="relu").build())
    for text in ("[]", "{}", '{"format": 1}', "no", proof.to_json().replace("kept", "better")):
        with pytest.raises(ramet.errors.OptionError, match=r"not a proof|not JSON|must be a dict"):
            Proof.from_json(text)


def test_a_loaded_model_has_the_fingerprint_of_the_saved_one(tmp_path):
    model = net()
    model.save(tmp_path / "m.keras")
    proof = ramet.prove(ramet.trace(model).rename({"head": "h"}))
    assert proof.matches(keras.models.load_model(tmp_path / "m.keras"))


def test_a_graph_without_edits_has_nothing_to_break():
    proof = ramet.prove(small())
    assert proof.ok
    assert proof.edits == ()
    assert "no edits" in str(proof)


def test_lies_print_within_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    graph = ramet.trace(small()).rename({"second": f"second_{'x' * 90}"})
    graph = graph.configure(f"second_{'x' * 90}", activation="gelu")
    for proof in (ramet.prove(lying(graph, "exact")), ramet.prove(graph)):
        assert all(cell_len(line) <= 80 for line in str(proof).splitlines())
        assert len(repr(proof)) <= 120
        assert "<table>" in proof._repr_html_()


def test_edits_on_masks_nested_models_and_several_outputs():
    tokens = keras.Input((5,), dtype="int32", name="tokens")
    y = layers.Embedding(9, 4, mask_zero=True, name="embed")(tokens)
    inside = keras.Input((5, 4), name="inside")
    inner = keras.Model(inside, layers.Dense(4, name="dense")(inside), name="inner")
    y = inner(inner(y))
    ends = {"a": layers.GRU(3, name="gru")(y), "b": layers.Dense(2, name="b")(y)}
    graph = ramet.trace(keras.Model(tokens, ends, name="outer"))
    edited = graph.insert_after("inner/dense", layers.Dropout(0.1, name="drop"))
    edited = edited.flatten().add_output("gru", name="c").freeze("embed").unshare("inner_dense")
    proof = ramet.prove(edited)
    assert [each.judgement for each in proof.edits] == ["kept"] * 5, str(proof)
    assert proof.whole.judgement == "kept"


def test_an_edit_by_hand_is_proven_by_its_promise():
    graph = ramet.trace(small())
    edit = Edit("by hand", promise="exact")
    assert edit.promise == "exact"
    entry = graph.configure("second", activation="gelu").journal[-1]
    assert dataclasses.replace(entry, promise="equal").count == 1
