"""Random models and random edits: diff lists exactly what was done, and show marks just that.

What is expected follows from the edits as data, see `diffplans.py`. `make hunt` plays many more.
"""

import collections
import os
import time
from typing import Any

import keras
import pytest

import ramet
from diffplans import Expected, lines_of, mark
from difftruth import Truth
from programedits import EDITS, Choices, Edit, NothingThereError
from programplans import Hand
from programs import Run, Tally, draw_net
from ramet import keras_internals as internals
from ramet.comparing.alignment.align import align
from ramet.comparing.differences import changes
from ramet.showing.compared import overlay
from ramet.showing.parts import SAME, View
from ramet.showing.read import read

HUNTED = int(os.environ.get("RAMET_HUNT_PROGRAMS", "0"))
"""How many programs `make hunt` plays."""
START = int(os.environ.get("RAMET_HUNT_SEED", "0"))
"""The seed of the first; each program has the next one."""

PLAYED = 50 if keras.backend.backend() == "torch" else 10
"""How many programs one test plays; what diff lists hardly depends on the backend."""

LEFT_OUT = {"replace_block", "extract", "rewrite", "prune_unused"}
"""Edits that are several at once, or none."""

pytestmark = pytest.mark.filterwarnings("ignore")


class Played:
    """A program that was played: a model, what edits made of it, and what they were."""

    def __init__(self, seed: int) -> None:
        choose = Choices(seed)
        net = draw_net(choose, Hand())
        self.run = run = Run(net, Tally())
        before = run.program.net
        mark(before)
        mark(run.state.root)
        for _ in range(choose.number(1, 4)):
            op = choose.pick([op for op in EDITS if op not in LEFT_OUT])
            try:
                args = EDITS[op].draw(choose, run.state)
            except NothingThereError:
                continue
            if args is not None:
                run.make(Edit(op, args))
        self.built = run.graph.build()
        if choose.flag(4) and self.built.weights:
            weight = choose.pick(self.built.weights)
            weight.assign(weight + 0.25)
        self.expected = Expected(before, run.state.root, run.source, self.built).lines


def drawn(seed: int) -> Played | None:
    """Draws a program; `None` if Keras cannot make its models."""
    try:
        return Played(seed)
    except Exception:  # noqa: BLE001  tests/test_edit_programs.py judges what edits make
        return None


def verdict(program: Played) -> str:
    """Returns how what diff lists agrees with what was done, and raises if it does not.

    Where layers are the same but for their places, what was done can be told in several ways;
    none may take more lines than the one that is expected, and each line must be true.
    """
    listing = ramet.diff(program.run.source, program.built)
    Truth(program.run.source, program.built, listing).check()
    found = lines_of(listing)
    back = ramet.diff(program.built, program.run.source)
    Truth(program.built, program.run.source, back).check()
    expected = program.expected
    if found == expected:
        return "exact"
    assert sum(found.values()) <= sum(expected.values()), (
        f"{dict(found - expected)} instead of {dict(expected - found)}\n{program.run.program}"
    )
    return "as true"


def played(start: int, count: int) -> collections.Counter[str]:
    tally: collections.Counter[str] = collections.Counter()
    faults = []
    for seed in range(start, start + count):
        program = drawn(seed)
        if program is None:
            tally["none"] += 1
            continue
        try:
            tally[verdict(program)] += 1
        except AssertionError as error:
            faults.append(seed)
            print(f"\nRAMET_HUNT_SEED={seed}: {error}\n", flush=True)  # noqa: T201  for the hunter
    print(tally)  # noqa: T201  the same
    assert not faults, f"{len(faults)} of {tally} with seeds {faults[:20]}"
    return tally


@pytest.mark.parametrize("start", [0, PLAYED])
def test_diff_lists_what_was_done_and_nothing_else(start):
    tally = played(start, PLAYED)
    assert tally["exact"] > 2 * PLAYED / 3, tally
    assert tally["as true"] <= 1 + tally["exact"] / 25, tally


@pytest.mark.skipif(not HUNTED, reason="`make hunt` plays many programs")
@pytest.mark.timeout(0)
def test_hunt():
    played(START, HUNTED)


# --- show ----------------------------------------------------------------------------


def marked(view: View, prefix: str = "") -> set[str]:
    """Names the nodes that differ, but for models that only hold some."""
    found = set()
    for node in view.nodes:
        own = [reason for reason in node.reasons if reason != "layers inside"]
        if node.difference != SAME and (own or node.difference != "changed"):
            found.add(prefix + node.name)
        if node.inside is not None and not (own and node.difference != "changed"):
            found |= marked(node.inside, f"{prefix}{node.name}/")
    return found


def listed(found: Any, prefixes: dict[int, list[str]]) -> set[str]:
    """Names the calls that changes are about, as they are shown."""
    names: set[str] = set()
    for change in found:
        for old, new in change.calls:
            node = new if new is not None else old
            names |= {prefix + node.call.name for prefix in prefixes[id(node.graph)]}
    return names


def prefixes_of(graph: Any, prefix: str = "") -> Any:
    yield id(graph), prefix
    for call in graph.calls.values():
        inner = graph.layers[call.layer].graph if call.layer is not None else None
        if inner is not None:
            yield from prefixes_of(inner, f"{prefix}{call.name}/")


@pytest.mark.one_backend
def test_show_marks_what_diff_lists():
    compared = 0
    for seed in range(300, 330):
        program = drawn(seed)
        if program is None or any(edit.op == "flatten" for edit in program.run.program.edits):
            continue
        first, second = ramet.trace(program.run.source), ramet.trace(program.built)
        alignment = align(first, second)
        found = changes(alignment, weights=True)
        view = overlay(read(first), read(second), alignment, found)
        kinds = {change.entry.kind for change in found}
        if kinds & {"removed"} and any(len(v.layers) != len(v.calls) for v in (first, second)):
            continue  # Calls of shared layers that are gone have other numbers.
        prefixes = collections.defaultdict(list)
        for graph in (first, second):
            for key, prefix in prefixes_of(graph):
                prefixes[key].append(prefix)
        assert marked(view) == listed(found, prefixes), f"seed {seed}"
        compared += 1
    assert compared > 10


def test_show_sees_through_models_that_were_inlined():
    x = keras.Input((4,), name="x")
    start = keras.Input((4,), name="start")
    inner = keras.Model(start, keras.layers.Dense(4, name="a")(start), name="inner")
    model = keras.Model(x, keras.layers.Dense(2, name="head")(inner(x)))
    flat = ramet.trace(model).flatten().rename({"head": "end"}).build()
    text = "1 layer of it moved into the model around it"
    assert lines_of(ramet.diff(model, flat)) == {("inlined", "inner"): 1, ("renamed", "head"): 1}
    assert shown(model, flat) == {
        "x": (SAME, ()),
        "inner": ("removed", (f"inlined: {text}",)),
        "inner_a": (SAME, ()),
        "end": ("changed", ("renamed from 'head'",)),
    }
    assert lines_of(ramet.diff(flat, model)) == {("wrapped", "inner"): 1, ("renamed", "end"): 1}
    assert [*shown(flat, model)] == ["x", "inner", "head"]
    assert shown(flat, model)["inner"][0] == "added"


def shown(*models: Any) -> dict[str, Any]:
    first, second = map(ramet.trace, models)
    alignment = align(first, second)
    found = changes(alignment, weights=True)
    view = overlay(read(first), read(second), alignment, found)
    return {node.name: (node.difference, node.reasons) for node in view.nodes}


def test_the_oracle_can_fail():
    program = next(p for p in map(drawn, range(9)) if p is not None and p.expected)
    program.expected = collections.Counter()
    with pytest.raises(AssertionError, match="instead of"):
        verdict(program)


@pytest.mark.one_backend
def test_edits_of_two_thousand_layers_take_seconds():
    with internals.deep_recursion(10_000):
        x = start = keras.Input((2,), name="start")
        for _ in range(500):
            y = keras.layers.Dense(2)(x)
            y = keras.layers.Rescaling(2.0)(y)
            x = keras.layers.Add()([x, keras.layers.ReLU()(y)])
        model = keras.Model(start, x, name="deep")
    named = {kind: [k for k, v in ramet.trace(model).layers.items() if v.kind == kind]
             for kind in ("Dense", "Rescaling", "ReLU", "Add")}  # fmt: skip
    graph = ramet.trace(model).rename({named["Dense"][100]: "other"})
    graph = graph.insert_after(named["ReLU"][200], keras.layers.Dropout(0.1, name="drop"))
    graph = graph.remove(named["Rescaling"][300]).freeze(named["Dense"][20])
    graph = graph.replace(named["ReLU"][10], keras.layers.LeakyReLU(name="leaky"))
    graph = graph.rewire(named["Add"][400], 0, named["Add"][390])
    built = graph.build()
    start = time.thread_time()
    found = ramet.diff(model, built)
    seconds = time.thread_time() - start
    assert lines_of(found) == dict.fromkeys(
        [
            ("renamed", named["Dense"][100]),
            ("added", "drop"),
            ("removed", named["Rescaling"][300]),
            ("config", named["Dense"][20]),
            ("replaced", named["ReLU"][10]),
            ("arguments", named["Add"][400]),
        ],
        1,
    )
    assert seconds < 60  # Mostly five on one free core.


@pytest.mark.one_backend
def test_a_long_chain_with_an_insertion_takes_seconds():
    def chain(length, extra):
        x = y = keras.Input((2,))
        for number in range(length):
            y = keras.layers.Identity()(y)
            y = keras.layers.ReLU()(y) if number in extra else y
        return keras.Model(x, y)

    first, second = (ramet.trace(chain(900, extra)) for extra in ({100}, {100, 450, 700}))
    start = time.thread_time()
    found = ramet.diff(first, second)
    assert [entry.kind for entry in found] == ["added", "added"]
    assert time.thread_time() - start < 20
