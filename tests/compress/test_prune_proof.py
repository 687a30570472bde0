"""The proof of a prune: the new model is the one before, with the removed channels masked.

The tests mask by other means than the proof: they set the values of tensors to zero while the
source runs, at places that are written down here.
"""

import json
from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import ramet
from masking_by_hand import samples, scattered
from ramet.compress import channel_rule, groups, prune, prune_channels
from ramet.errors import DifferenceError
from ramet.results import Proof


def zeroed(model: Any, data: Any, places: dict[str, list[int]]) -> np.ndarray:
    """Return the output of a model if some channels of the tensors of some calls are zero."""

    def zero(place: str, outputs: Any) -> Any:
        if place not in places:
            return None
        stays = np.ones(outputs.shape[-1], "float32")
        stays[places[place]] = 0
        return outputs * keras.ops.convert_to_tensor(stays)

    return keras.ops.convert_to_numpy(ramet.run(model, data, each=zero))


def convolving() -> Any:
    image = keras.Input((8, 8, 3), name="image")
    x = layers.Conv2D(8, 3, padding="same", activation="relu", name="first")(image)
    x = layers.BatchNormalization(name="norm")(x)
    y = layers.DepthwiseConv2D(3, padding="same", name="depthwise")(x)
    x = layers.Add(name="add")([x, layers.Conv2D(8, 1, name="second")(y)])
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(image, layers.Dense(4, name="head")(x), name="convolving")


def normalizing() -> Any:
    """A group that is lossy, `wide`, and one that is exact, `inner`."""
    x = keras.Input((6,), name="x")
    y = layers.Dense(8, name="wide")(x)
    y = layers.LayerNormalization(name="norm")(y)
    y = layers.Dense(10, activation="relu", name="inner")(y)
    return keras.Model(x, layers.Dense(2, name="head")(y), name="normalizing")


def test_a_pruned_model_is_its_source_masked() -> None:
    model = scattered(convolving())
    data = samples(model)
    graph = prune_channels(model, {"first": [0, 5]})
    proof = ramet.prove(graph, data)
    (edit,) = proof.edits
    assert proof.ok
    assert (edit.promised, edit.judgement) == ("changed", "kept")
    assert edit.claim == "equal to the model before it with 2 channels of 1 group masked"
    assert edit.relative is not None
    assert edit.relative <= 1e-6
    assert edit.allowed == 1e-5
    assert edit.detail.startswith("outputs changed by ")
    gone = {place: [0, 5] for place in ("first", "norm", "depthwise", "second", "add")}
    pruned = keras.ops.convert_to_numpy(graph.build()(data))
    assert np.abs(pruned - zeroed(model, data, gone)).max() <= 1e-5
    assert Proof.from_json(proof.to_json()) == proof
    assert "masked" in str(proof)
    assert "1 promise kept" in proof.title


def test_the_source_keeps_its_values() -> None:
    model = scattered(convolving())
    twin = ramet.clone(model)
    assert ramet.prove(prune(model, ratio=0.5)).ok
    assert ramet.verify(twin, model)


@pytest.mark.sampled
def test_what_is_lossy_is_measured_and_says_why() -> None:
    model = scattered(normalizing())
    proof = ramet.prove(prune(model, ratio=0.5, only="wide"))
    (edit,) = proof.edits
    assert (edit.judgement, edit.allowed) == ("changed", None)
    assert edit.claim == (
        "not equal to the model before it with 4 channels of 1 group masked, since lossy: 'wide': "
        "'norm' (LayerNormalization) computes statistics of all channels"
    )
    assert "from the masked model" in edit.detail
    assert proof.ok


@pytest.mark.sampled
def test_exact_groups_are_proven_without_the_lossy_ones() -> None:
    model = scattered(normalizing())
    proof = ramet.prove(prune(model, ratio=0.5))
    (edit,) = proof.edits
    assert edit.judgement == "kept"
    assert edit.claim.startswith(
        "equal to the model before it with 5 channels of 1 group masked; "
        "lossy and not compared: 'wide'"
    )
    assert edit.relative is not None
    assert edit.relative <= 1e-6


@pytest.mark.sampled
def test_every_step_is_proven() -> None:
    model = scattered(convolving())
    graph = prune(model, ratio=0.5, steps=3)
    assert len(graph.journal) == 1
    proof = ramet.prove(graph)
    assert proof.edits[0].judgement == "kept"
    assert proof.edits[0].claim.endswith("with 4 channels masked, in 3 steps")
    lossy = prune(scattered(normalizing()), ratio=0.5, steps=2)
    proof = ramet.prove(lossy)
    assert proof.edits[0].judgement == "kept"
    assert "5 channels masked, in 2 steps; lossy and not compared: 'wide'" in proof.edits[0].claim


@pytest.mark.sampled
def test_a_prune_among_other_edits_is_proven() -> None:
    model = scattered(convolving())
    graph = prune(ramet.trace(model).rename({"head": "logits"}), ratio=0.5)
    graph = prune(graph.insert_after("pool", layers.Dropout(0.5)), ratio=0.5)
    proof = ramet.prove(graph)
    assert [edit.judgement for edit in proof.edits] == ["kept"] * 4
    assert [bool(edit.claim) for edit in proof.edits] == [False, True, False, True]
    assert proof.whole.judgement == "changed"


@pytest.mark.sampled
def test_a_graph_with_stacked_cells_is_built_twice() -> None:
    x = keras.Input((5, 3))
    cells = [layers.LSTMCell(4), layers.GRUCell(6)]
    y = layers.RNN(cells, name="cells")(x)
    model = scattered(keras.Model(x, layers.Dense(2, name="head")(y)))
    graph = prune(model, ratio=0.5, steps=2)
    first, second = graph.build(), graph.build()
    assert ramet.verify(first, second, only="outputs")
    assert ramet.prove(graph).ok


@pytest.mark.sampled
def test_nothing_removed_claims_nothing() -> None:
    proof = ramet.prove(prune(convolving(), ratio=0))
    assert proof.edits[0].claim == ""
    assert proof.edits[0].relative == 0


class Raised(layers.Layer):
    """Adds one: channels that are masked are not zero after it."""

    def call(self, x: Any) -> Any:
        return x + 1


@channel_rule(Raised)
def _(site: Any) -> list[Any]:
    return [site.tensor()]  # A lie, which `site.nonzero` would make true.


@pytest.mark.sampled
def test_a_false_rule_is_found_out() -> None:
    x = keras.Input((6,))
    y = Raised(name="raised")(layers.Dense(8, name="dense")(x))
    model = scattered(keras.Model(x, layers.Dense(2, name="head")(y), name="lying"))
    assert groups(model)["dense"].exact
    for steps in (1, 2):
        proof = ramet.prove(prune(model, ratio=0.5, steps=steps))
        (edit,) = proof.edits
        assert edit.judgement == "broken"
        assert not proof.ok
        assert proof.broken == (edit, proof.whole)
        message = r"promised equal to the model before it with 4 channels .*masked.*, but output"
        with pytest.raises(DifferenceError, match=message):
            proof.raise_if_broken()


@pytest.mark.sampled
def test_a_false_rule_of_the_library_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from ramet.compress.channels.site import RULES

    monkeypatch.setitem(RULES, "Sigmoid", lambda site: [site.tensor()])  # not zero at zero
    x = keras.Input((6,))
    y = keras.ops.sigmoid(layers.Dense(8, name="dense")(x))
    model = scattered(keras.Model(x, layers.Dense(2, name="head")(y)))
    assert ramet.prove(prune(model, ratio=0.5)).edits[0].judgement == "broken"
    monkeypatch.undo()
    proof = ramet.prove(prune(model, ratio=0.5))
    assert proof.edits[0].judgement == "changed"
    assert "a channel is not zero after 'sigmoid'" in proof.edits[0].claim


def test_layers_that_keep_arrays_of_their_variables_are_masked() -> None:
    x = keras.Input((6,))
    norm = layers.Normalization(name="norm")
    y = layers.Dense(8, name="dense")(x)
    y = norm(y)
    norm.adapt(np.random.default_rng(0).normal(1, 2, (64, 8)).astype("float32"))
    model = keras.Model(x, layers.Dense(2, name="head")(y))
    proof = ramet.prove(prune(model, ratio=0.5))
    assert proof.edits[0].judgement == "kept", str(proof)


@pytest.mark.sampled
def test_rtol_judges_masks_too() -> None:
    model = scattered(convolving())
    graph = prune(model, ratio=0.5)
    assert ramet.prove(graph, rtol=1e-3).edits[0].allowed == 1e-3


@pytest.mark.one_backend
def test_a_proof_without_claims_is_still_read() -> None:
    proof = ramet.prove(prune(scattered(convolving()), ratio=0.5))
    data = json.loads(proof.to_json())
    for entry in (*data["edits"], data["whole"]):
        del entry["claim"]
    assert Proof.from_dict(data).edits[0].claim == ""
