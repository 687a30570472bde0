"""Files of models changed at random: each is a model or refused, and does nothing else.

`make hunt` reads many more of them; see `hostile.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pytest

import attacks
import hostile
import ramet
import zoo
from hostile import Fault, Tally, attempt
from ramet.files import load

HUNTED = int(os.environ.get("RAMET_HUNT_FILES", "0"))
"""How many files `make hunt` reads."""
START = int(os.environ.get("RAMET_HUNT_SEED", "0"))
"""The seed of the first; each file has the next one."""

pytestmark = [pytest.mark.sampled, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Models of the zoo that need no trust, and one with everything that attacks use."""
    path = tmp_path_factory.mktemp("bases") / "m.keras"
    found = []
    for case in zoo.CASES.values():
        if keras.backend.backend() not in case.backends or not case.saveable:
            continue
        try:
            case.build().save(path)
            load(path)
        except Exception:  # noqa: BLE001, S112  of this version of Keras, or it needs trust
            continue
        found.append(path.read_bytes())
    described = attacks.layer("Lambda", function=attacks.function("keras.ops", "square"))
    found += [attacks.archive(path, attacks.model(described)).read_bytes()] * 5
    return found


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail if a payload ran."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not (tmp_path / attacks.MARK).exists()


def faults(start: int, count: int, bases: list[bytes], folder: Path, tally: Tally) -> list[str]:
    found = []
    for seed in range(start, start + count):
        try:
            hostile.play(seed, bases, folder, tally)
        except Fault as fault:
            found.append(f"RAMET_HUNT_SEED={seed}: {fault}")
            (folder / f"{seed}.keras").write_bytes((folder / "m.keras").read_bytes())
            print(found[-1], flush=True)  # noqa: T201  for the hunter
    return found


@pytest.mark.parametrize("start", [0, 100])
def test_changed_files_are_models_or_refused(
    start: int, bases: list[bytes], tmp_path: Path
) -> None:
    tally = Tally()
    assert faults(start, 100, bases, tmp_path, tally) == []
    assert len(tally.refused) > 8, tally
    assert 10 < tally.loaded < 190, tally


@pytest.mark.skipif(not HUNTED, reason="`make hunt` reads many files")
@pytest.mark.timeout(0)
def test_hunt(bases: list[bytes], tmp_path: Path) -> None:
    tally = Tally()
    found = faults(START, HUNTED, bases, tmp_path, tally)
    print(tally)  # noqa: T201  the same
    assert not found, "\n".join(found)


# --- the judge can fail --------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "match"),
    [
        (lambda _: os.system("true"), r"os\.system"),  # noqa: S605, S607  it is what is looked for
        (lambda _: Path("x").write_text("x"), "'open'"),
        (lambda _: Path("/etc/passwd").read_text(), "'/etc/passwd'"),
        (lambda _: Path("x").mkdir(), r"os\.mkdir"),
        (lambda _: keras.config.set_epsilon(1e-3), "changed settings"),
        (lambda _: 1 // 0, "ZeroDivisionError"),
        (lambda _: exec(compile("1", "evil", "exec")), "'evil'"),  # noqa: S102  the same
    ],
)
def test_the_judge_sees(act: Any, match: str, tmp_path: Path) -> None:
    epsilon = keras.config.epsilon()
    try:
        with pytest.raises(Fault, match=match):
            attempt(tmp_path / "m.keras", act, Tally())
    finally:
        keras.config.set_epsilon(epsilon)


def test_the_judge_measures_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([1 << 30, (2 << 30) + 1, (2 << 30) + 1])
    monkeypatch.setattr(hostile, "_most_memory", lambda: next(sizes))
    with pytest.raises(Fault, match="it took 1024 MiB"):
        attempt(tmp_path / "m.keras", lambda _: None, Tally())


def test_the_judge_reads_messages(tmp_path: Path) -> None:
    def refuse(_: Path) -> None:
        raise ramet.FileError("two\nlines")

    with pytest.raises(Fault, match="not a line"):
        attempt(tmp_path / "m.keras", refuse, Tally())
