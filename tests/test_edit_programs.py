"""Random programs of edits: what ramet builds agrees with the same layers called by hand.

`make hunt` plays many more of them; see `programs.py`.
"""

import os
import re

import keras
import numpy as np
import pytest

import programs
from programedits import EDITS, Edit, New
from programplans import Call, Layer, Net, Port, T
from programs import Fault, Program, Run, Tally, judge, replay, shrunk

HUNTED = int(os.environ.get("RAMET_HUNT_PROGRAMS", "0"))
"""How many programs `make hunt` plays."""
START = int(os.environ.get("RAMET_HUNT_SEED", "0"))
"""The seed of the first; each program has the next one."""

BACKEND = keras.backend.backend()
STARTS, PLAYED = {"jax": ([0, 50], 50), "tensorflow": ([100, 150], 50)}.get(
    BACKEND, ([0, 150], 150)
)
"""The seeds of first programs, and how many programs one test plays: on PyTorch all, and on the
others, which have to compile, each another third."""

pytestmark = pytest.mark.filterwarnings("ignore")


def faults(start: int, count: int, tally: Tally, *, most: int) -> dict[str, list[int]]:
    """Plays programs; returns the seeds of those that fail by fault, each fault printed once."""
    found: dict[str, list[int]] = {}
    for number in range(start, start + count):
        try:
            programs.play(number, tally)
        except Exception as error:  # noqa: BLE001  all of them are what is hunted for
            kind = re.sub(r"\d+", "N", f"{type(error).__name__}: {programs.classed(error)}")
            found.setdefault(kind, []).append(number)
            if len(found[kind]) == 1:
                least = shrunk(error.program, error, 60) if hasattr(error, "program") else ""
                print(f"\nRAMET_HUNT_SEED={number}: {error}\n\n{least}\n", flush=True)  # noqa: T201  for the hunter
            if len(found) == most:
                break
    return found


@pytest.mark.parametrize("start", STARTS)
def test_programs_of_edits_agree_with_layers_called_by_hand(start):
    tally = Tally()
    found = faults(start, PLAYED, tally, most=1)
    assert not found, found
    edits, refused = sum(tally.edits.values()), sum(tally.refused.values())
    assert tally.programs > PLAYED * 2 / 3, tally
    assert refused < edits / 10, tally
    assert len(tally.edits) > len(EDITS) - 450 // PLAYED, f"some edits are never made: {tally}"


@pytest.mark.skipif(not HUNTED, reason="`make hunt` plays many programs")
@pytest.mark.timeout(0)
def test_hunt():
    tally = Tally()
    found = faults(START, HUNTED, tally, most=50)
    print(tally)  # noqa: T201  the same
    lines = [f"{len(seeds)} times: {kind} (seeds {seeds[:9]})" for kind, seeds in found.items()]
    assert not found, "\n".join(lines)


# --- the judge can fail --------------------------------------------------------------


def network() -> Net:
    layers = {
        "embedding": Layer("Embedding", {"input_dim": 9, "output_dim": 3, "mask_zero": True}),
        "left": Layer("Dense", {"units": 3}, 10),
        "right": Layer("Dense", {"units": 3}, 20, trainable=False),
        "minus": Layer("minus"),
        "gru": Layer("GRU", {"units": 3, "return_sequences": True}, 30),
        "sum": Layer("GlobalAveragePooling1D"),
    }
    calls = {
        "embedding": Call("embedding", [T("tokens")]),
        "left": Call("left", [T("embedding")]),
        "right": Call("right", [T("embedding")]),
        "gru": Call("gru", [T("left")]),
        "minus": Call("minus", [T("gru"), T("right")]),
        "sum": Call("sum", [T("minus")]),
    }
    inputs = {"tokens": Port((4,), "tokens", "tokens")}
    return Net("net", inputs, layers, calls, T("sum"))


def prepared(*edits: Edit) -> Run:
    run = Run(network(), Tally())
    for edit in edits:
        assert run.make(edit)
    return run


def test_what_is_right_is_found_right():
    judge(prepared(), tuple(programs.CHECKS))


class Built:
    """A graph that builds something else."""

    def __init__(self, graph, change):
        self._graph = graph
        self._change = change

    def build(self):
        return self._change(self._graph)


def reinitialized(graph):
    model = graph.build()
    kernel = model.get_layer("left").kernel
    kernel.assign(keras.initializers.RandomUniform(seed=3)(kernel.shape))
    return model


def without_bit(graph):
    """Changes one value so little that no output shows it."""
    model = graph.build()
    values = model.get_layer("left").bias.numpy()
    values[0] = np.nextafter(values[0], np.float32(9))
    model.get_layer("left").bias.assign(values)
    return model


def left_trainable(graph):
    model = graph.build()
    model.get_layer("right").trainable = True
    return model


def left_frozen(graph):
    model = graph.build()
    model.get_layer("gru").trainable = False
    return model


MUTATIONS = {
    "a mask is dropped": (
        lambda graph: graph.configure("embedding", mask_zero=False).build(),
        "numbers",
    ),
    "a weight is made again": (reinitialized, "numbers"),
    "a weight has another bit": (without_bit, "weights"),
    "a frozen layer is left trainable": (left_trainable, "trainable"),
    "a layer is left frozen": (left_frozen, "trainable"),
    "two wires are swapped": (
        lambda graph: graph.rewire("gru", 0, "right").rewire("subtract", 1, "left").build(),
        "numbers",
    ),
    "an operation is left out": (
        lambda graph: graph.remove("subtract", reconnect="gru").build(),
        "numbers",
    ),
    "outputs are put into a list": (
        lambda graph: graph.extract(outputs=["sum"]).build(),
        "structure",
    ),
    "the source is built": (lambda graph: graph.live_origin().model, "numbers"),
}


@pytest.mark.one_backend
@pytest.mark.parametrize("what", [*MUTATIONS])
def test_what_is_wrong_is_found_wrong(what):
    change, kind = MUTATIONS[what]
    new = New(Layer("Dense", {"units": 3}, 70), "new1")
    edit = Edit("insert_after", {"path": (), "tensor": T("right"), "at": "right", "new": new})
    run = prepared(edit)
    if what == "the source is built":
        run.graph = Built(run.graph, lambda _: run.source)
    else:
        run.graph = Built(run.graph, change)
    with pytest.raises(Fault, match=f"^{kind}"):
        judge(run, ())


def test_what_only_training_shows_is_noticed():
    run = prepared()

    def change(graph):
        model = graph.build()
        model.get_layer("left").kernel.regularizer = keras.regularizers.L2(1.0)
        return model

    run.graph = Built(run.graph, change)
    judge(run, ())
    with pytest.raises(Fault, match="training"):
        judge(run, ("training",))


def test_a_changed_source_is_noticed():
    run = prepared()

    def change(graph):
        model = graph.build()
        run.source.get_layer("left")(np.zeros((1, 4, 3), "float32"))
        run.source.get_layer("left").bias.assign(np.ones(3, "float32"))
        return model

    run.graph = Built(run.graph, change)
    with pytest.raises(Fault, match="source"):
        judge(run, ())


def test_a_wrong_file_is_noticed(monkeypatch):
    def load(model):
        again = keras.models.clone_model(model)
        again.set_weights([w * 0.5 for w in model.get_weights()])
        return again

    run = prepared()
    monkeypatch.setattr(programs, "is_saved_by_keras", lambda _: True)
    monkeypatch.setattr(programs, "loaded", load)
    with pytest.raises(Fault, match="loaded"):
        judge(run, ("loaded",))


def test_a_program_that_is_written_down_can_be_played_again():
    run = prepared(Edit("rename", {"path": (), "key": "gru", "at": "gru", "name": "new1"}))
    run.program.checks = ("twice",)
    text = str(run.program)
    names = {
        "Call": Call, "Edit": Edit, "Layer": Layer, "Net": Net, "New": New, "Port": Port,
        "Program": Program, "T": T,
    }  # fmt: skip
    program = eval(text[text.index("Program(") : -1], names)  # noqa: S307  our own text
    replay(program)


@pytest.mark.one_backend
def test_a_program_is_shrunk_to_what_its_fault_needs():
    edits = [
        Edit("rename", {"path": (), "key": "gru", "at": "gru", "name": "new1"}),
        Edit("bad_edit", {"at": "left"}),
        Edit("prune_unused", {}),
    ]

    class BadEdit:
        @staticmethod
        def on_plan(state, at):
            del state, at

        @staticmethod
        def on_graph(graph, at):
            return graph.configure(at, activation="relu")

    EDITS["bad_edit"] = BadEdit
    try:
        program = Program(network(), edits, ("twice",))
        with pytest.raises(Fault, match="numbers") as caught:
            replay(program)
        least = shrunk(program, caught.value)
    finally:
        del EDITS["bad_edit"]
    assert [edit.op for edit in least.edits] == ["bad_edit"]
    assert least.checks == ()
    assert {layer.kind for layer in least.net.layers.values()} <= {"Embedding", "Dense"}
