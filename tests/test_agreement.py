"""Random programs of edits: clone, files, source, flatten, verify and diff agree on each model."""

import collections
import os

import keras
import numpy as np
import pytest

import agreement
import ramet
from agreement import AGREEMENTS, drawn
from programs import Fault

HUNTED = int(os.environ.get("RAMET_HUNT_PROGRAMS", "0"))
"""How many programs `make hunt` plays."""
START = int(os.environ.get("RAMET_HUNT_SEED", "0"))
"""The seed of the first; each program has the next one."""

SEEDS = {"jax": range(20, 26), "tensorflow": range(26, 32)}.get(keras.backend.backend(), range(20))
"""The programs that are played: few, on backends that have to compile."""

pytestmark = [pytest.mark.sampled, pytest.mark.filterwarnings("ignore")]


def judged(seeds) -> tuple[collections.Counter, list[str]]:
    """Counts the checks that hold for programs, and lists those that do not."""
    held: collections.Counter[str] = collections.Counter()
    faults = []
    for seed in seeds:
        program = drawn(seed)
        if program is None:
            continue
        for name, check in AGREEMENTS.items():
            try:
                check(*program)
                held[name] += 1
            except Exception as error:  # noqa: BLE001  all of them are what is hunted for
                faults.append(f"RAMET_HUNT_SEED={seed} {name}: {type(error).__name__}: {error}")
                print(f"\n{faults[-1]}\n{program[0].program}\n", flush=True)  # noqa: T201  for the hunter
    return held, faults


@pytest.mark.parametrize("part", [0, 1])
def test_what_ramet_says_of_one_model_agrees(part):
    held, faults = judged(SEEDS[part::2])
    assert not faults, "\n".join(faults)
    assert min(held[name] for name in AGREEMENTS) > len(SEEDS) / 4, held


@pytest.mark.skipif(not HUNTED, reason="`make hunt` plays many programs")
@pytest.mark.timeout(0)
def test_hunt():
    held, faults = judged(range(START, START + HUNTED))
    print(held)  # noqa: T201  for the hunter
    assert not faults, "\n".join(faults[:20])


# --- the judge can fail --------------------------------------------------------------


def other_bit(model):
    """Copies a model, and changes one weight by one bit."""
    copy = copied(model)
    weight = copy.weights[0]
    values = np.array(weight)
    values.flat[0] = np.nextafter(values.flat[0], np.float32(9))
    weight.assign(values)
    return copy


copied = ramet.clone


@pytest.fixture(scope="module")
def program():
    return next(p for p in map(drawn, range(99)) if p and p[1].weights and p[0].program.edits)


def test_a_clone_with_another_bit_is_noticed(program, monkeypatch):
    monkeypatch.setattr(ramet, "clone", other_bit)
    with pytest.raises(Fault, match=r"^clone"):
        agreement.judge_cloned(*program)


def test_a_file_with_another_bit_is_noticed(program, monkeypatch):
    monkeypatch.setattr(agreement, "loaded", lambda model: other_bit(model))
    monkeypatch.setattr(agreement, "seeded", lambda *_: None)
    monkeypatch.setattr(agreement, "is_saved_by_keras", lambda _: True)
    with pytest.raises(Fault, match=r"^file"):
        agreement.judge_saved(*program)


def test_a_source_of_another_model_is_noticed(program, monkeypatch):
    source = ramet.emit(program[1].__class__(program[1].inputs, program[1].outputs[:1]))
    monkeypatch.setattr(ramet, "emit", lambda *_, **__: source)
    monkeypatch.setattr(agreement, "seeded", lambda *_: None)
    with pytest.raises(Fault, match=r"^source"):
        agreement.judge_written(*program)


def test_a_diff_that_sees_nothing_is_noticed(program, monkeypatch):
    monkeypatch.setattr(ramet, "diff", lambda *_: [])
    with pytest.raises(Fault, match=r"^compared"):
        agreement.judge_compared(*program)


def test_an_edit_that_was_not_asked_for_is_noticed(program, monkeypatch):
    run, built = program
    monkeypatch.setattr(type(run.graph), "build", lambda *_, **__: other_bit(built))
    with pytest.raises(Fault, match=r"^expected"):
        agreement.judge_expected(run, built)


def test_a_flat_model_that_computes_otherwise_is_noticed(program, monkeypatch):
    monkeypatch.setattr(ramet.Graph, "build", lambda *_, **__: other_bit(program[1]))
    with pytest.raises(Fault, match=r"^flat"):
        agreement.judge_flat(*program)
