"""What clone, files, source, flatten, verify and diff say of one model must agree.

Each check takes a program that was played and the model that it built, and needs no other
truth than the model itself.
"""

import re
import tempfile
from typing import Any

import keras

import ramet
from programedits import EDITS, Choices, Edit, NothingThereError
from programplans import Hand
from programs import Fault, Run, Tally, classed, draw_net, is_saved_by_keras, need

UNCALLED = ("structure", "sharing", "state")
"""The aspects of verify for which no model is called."""


def need_same(kind: str, first: Any, second: Any, *, only: Any = None) -> None:
    """Needs verify and diff to find two models the same, but for names that Keras counts."""
    report = ramet.verify(first, second, only=only)
    lines = [line for check in report.checks for line in check.differences]
    lines = [line for line in lines if not re.match(r"\d+ automatic names? differ", line)]
    need(kind, f"verify says {lines[:4]}", holds=not lines)
    for models in ((first, second), (second, first)):
        found = [entry for entry in ramet.diff(*models) if not forgets(kind, entry)]
        need(kind, f"diff says {[*found][:4]}", holds=not found)


def forgets(kind: str, entry: Any) -> bool:
    """Whether a line is about what Keras does not save: a model with its own config, frozen."""
    return kind == "file" and entry.text.startswith("trainable=")


def loaded(model: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        ramet.files.save(model, f"{folder}/m.keras")
        return keras.models.load_model(f"{folder}/m.keras")


def judge_cloned(run: Run, built: Any) -> None:
    """A copy is the same in every aspect, to diff and verify, and has no more names of Keras's."""
    del run
    copy = ramet.clone(built)
    report = ramet.verify(built, copy)
    need("clone", f"verify says {report}", holds=report.ok)
    need_same("clone", built, copy, only="structure")


def judge_saved(run: Run, built: Any) -> None:
    """Loaded, a model computes the same, diff finds none other, and its copy is loaded alike."""
    try:
        again, copy = loaded(built), loaded(ramet.clone(built))
        seeded(built, again)
        seeded(built, copy)
    except Exception as error:
        if not is_saved_by_keras(run):
            run.tally.excused["cannot be saved by plain Keras either"] += 1
            return
        raise Fault("saving", f"{type(error).__name__}: {error}") from error
    try:
        need_same("file", built, again, only="outputs")
    except Fault:
        if is_saved_by_keras(run):
            raise
        run.tally.excused["other numbers in plain Keras, loaded"] += 1
    need_same("copy's file", again, copy)


def seeded(first: Any, second: Any) -> None:
    """Gives a model the variables of another, seeds too: files and sources have none."""
    for old, new in zip(first.variables, second.variables, strict=True):
        new.assign(old)


def judge_written(run: Run, built: Any) -> None:
    """The source of a model, run, makes the same model but for the weights."""
    try:
        source = ramet.emit(built, names="exact")
    except ramet.SourceError as error:
        run.tally.refused[f"emit: {classed(error)}"] += 1
        return
    if not source.ok:  # A class of the user's that decides by itself how it is saved.
        run.tally.excused["the source says that it leaves something out"] += 1
        return
    space: dict[str, Any] = {}
    exec(source, space)  # noqa: S102  our own text
    again = space["build_model"](**source.parameters)
    seeded(built, again)
    need_same("source", built, again, only=(*UNCALLED, "outputs"))


def judge_flat(run: Run, built: Any) -> None:
    """Inlined, a model computes the same bits, and only that is another."""
    try:
        flat = ramet.trace(built).flatten().build()
    except ramet.RametError as error:
        run.tally.refused[f"flatten: {classed(error)}"] += 1
        return
    report = ramet.verify(built, flat, only="outputs")
    need("flat", f"verify says {report}", holds=report.ok)
    if is_read(built):
        kinds = {entry.kind for entry in ramet.diff(built, flat)}
        need("flat", f"diff says {kinds}", holds=kinds <= {"inlined", "class"})
        kinds = {entry.kind for entry in ramet.diff(flat, built)}
        need("flat", f"diff says {kinds} back", holds=kinds <= {"wrapped", "class"})


def is_read(model: Any) -> bool:
    """Whether all outputs of nested models are read: what nobody reads, a flat graph leaves out."""
    for visit in ramet.trace(model).walk():
        graph = visit.graph
        read = {ref for call in graph.calls.values() for ref in call.refs}
        read |= {*keras.tree.flatten(graph.outputs)}
        for call in graph.calls.values():
            inner = None if call.layer is None else graph.layers[call.layer].graph
            if inner is not None and not read.issuperset(
                ramet.graph.Ref(call.name, index) for index in range(len(call.outputs))
            ):
                return False
    return True


def judge_compared(run: Run, built: Any) -> None:
    """Verify and diff agree on whether a model is another than its source, both ways."""
    pairs = (run.source, built), (built, run.source)
    found = [bool(ramet.diff(*models)) for models in pairs]
    reports = [ramet.verify(*models, only=UNCALLED) for models in pairs]
    differs = [not report.ok for report in reports]
    agree = len({*found, *differs}) == 1
    need("compared", f"diff says {found}, verify {differs}: {reports[0]}", holds=agree)


def judge_expected(run: Run, built: Any) -> None:
    """What verify finds between a model and its edited graph, the edits explain."""
    if len(built.inputs) != len(run.source.inputs):
        return  # Verify puts one model's data into the other by place.
    # Frozen, an LSTM of PyTorch rounds otherwise.
    report = ramet.verify(run.source, run.graph, rtol=1e-5, atol=1e-6)
    need("expected", f"{report}", holds=report.ok)


AGREEMENTS = {
    "cloned": judge_cloned,
    "saved": judge_saved,
    "written": judge_written,
    "flat": judge_flat,
    "compared": judge_compared,
    "expected": judge_expected,
}


# --- playing -------------------------------------------------------------------------


def drawn(seed: int) -> tuple[Run, Any] | None:
    """Draws a program and builds it; `None` if Keras cannot make its model."""
    choose = Choices(seed)
    try:
        run = Run(draw_net(choose, Hand()), Tally())
        for _ in range(choose.number(1, 6)):
            op = choose.pick(EDITS)
            try:
                args = EDITS[op].draw(choose, run.state)
            except NothingThereError:
                continue
            if args is not None:
                run.make(Edit(op, args))
        return run, run.graph.build()
    except Exception:  # noqa: BLE001  tests/test_edit_programs.py judges what edits make
        return None
