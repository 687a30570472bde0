"""How many small faults in ramet the tests notice: `make mutants`.

A mutant is ramet with one expression or statement changed; see `mutation.py`. A sample of them is
drawn by a seed, and each is given to the tests that run its line, quickest first, until one fails.
Keras is imported once: each mutant lives in a process that is forked from this one, so this runs
on PyTorch (JAX starts threads). The tests that run each line are recorded first, which takes a
run of all tests; the record is kept until sources or tests change.
"""

import argparse
import hashlib
import importlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mutation import Mutant, install, mutants_of, mutated

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "ramet"
RECORD = ROOT / "build" / "mutants.json"
EXPLAINED = Path(__file__).with_name("equivalent_mutants.txt")
ROOMS = ("graph", "copying", "comparing")
LEFT_OUT = (
    "cli", "benchmarks", "examples", "readme", "page", "described", "nowhere",
    "distribution", "imports", "mutants", "test_files", "growth", "design",
)  # fmt: skip
"""Parts of the names of tests that say nothing of the rooms, or start processes of their own."""

KILLED, SURVIVED, TIMEOUT, UNCOVERED = "killed", "survived", "timed out", "not run by any test"


def sources(rooms: list[str]) -> list[Path]:
    return sorted(path for room in rooms for path in (SOURCE / room).rglob("*.py"))


def explained() -> dict[tuple[str, ...], str]:
    """Reads which mutants are the same program: `file | function | before | after | why`."""
    lines = EXPLAINED.read_text(encoding="utf-8").splitlines() if EXPLAINED.exists() else []
    rows = [[part.strip() for part in line.split(" | ")] for line in lines if " | " in line]
    return {tuple(row[:4]): row[4] for row in rows}


def fingerprint(name: str) -> str:
    """Returns what the record of a test file depends on: the rooms, and the file."""
    digest = hashlib.sha256()
    for path in (*sources([*ROOMS]), ROOT / name):
        digest.update(path.read_bytes())
    return digest.hexdigest()


# --- which tests run which lines -----------------------------------------------------


class Recorder:
    """Notes which lines of the rooms each test runs, and how long it takes."""

    def __init__(self, paths: list[Path]) -> None:
        self.files = {str(path) for path in paths}
        self.tests: dict[str, dict[str, Any]] = {}
        self._lines: dict[str, set[int]] = {}

    def _called(self, frame: Any, event: str, _: Any) -> Any:
        del event
        return self._ran if frame.f_code.co_filename in self.files else None

    def _ran(self, frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            self._lines.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
        return self._ran

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self._lines = {}
        start = time.perf_counter()
        sys.settrace(self._called)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            lines = {
                str(Path(path).relative_to(ROOT)): sorted(numbers)
                for path, numbers in self._lines.items()
            }
            seconds = time.perf_counter() - start
            self.tests[item.nodeid] = {"seconds": seconds, "lines": lines}


# --- mutants -------------------------------------------------------------------------


class Hunter:
    """Runs the tests of each mutant, in the place of pytest's own loop."""

    def __init__(self, mutants: list[Mutant], record: dict[str, Any], budget: float) -> None:
        self.mutants = mutants
        self.budget = budget
        self.tests: dict[tuple[str, int], list[str]] = {}
        self.seconds = {name: test["seconds"] for name, test in record.items()}
        for name, test in sorted(record.items(), key=lambda item: item[1]["seconds"]):
            for path, lines in test["lines"].items():
                for line in lines:
                    self.tests.setdefault((path, line), []).append(name)
        self.fates: list[tuple[Mutant, str]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        items = {item.nodeid: item for item in session.items}
        for path in sources([*ROOMS]):  # What is imported later would be the plain source.
            name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
            importlib.import_module(name.removesuffix(".__init__"))
        for number, mutant in enumerate(self.mutants, 1):
            fate = self.fate(mutant, items)
            self.fates.append((mutant, fate))
            print(f"{number}/{len(self.mutants)} {fate}: {mutant}", flush=True)  # noqa: T201  for people
        return True

    def chosen(self, mutant: Mutant, items: dict[str, Any]) -> list[Any]:
        """Returns the tests that run the line of a mutant, quickest first, within the budget."""
        found, seconds = [], 0.0
        for name in self.tests.get((mutant.path, mutant.line), ()):
            seconds += self.seconds[name]
            if name in items and (seconds <= self.budget or not found):
                found.append(items[name])
        return found

    def fate(self, mutant: Mutant, items: dict[str, Any]) -> str:
        chosen = self.chosen(mutant, items)
        if not chosen:
            return UNCOVERED
        child = os.fork()
        if child == 0:
            judge(mutant, chosen)
        end = time.monotonic() + 3 * self.budget + 30
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return SURVIVED if os.waitstatus_to_exitcode(status) == 0 else KILLED
            time.sleep(0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return TIMEOUT


def judge(mutant: Mutant, items: list[Any]) -> None:
    """Becomes the mutant, runs the tests, and exits: 1 if one fails."""
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        install(mutated(mutant, ROOT))
        session = items[0].session
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if session.testsfailed:
                os._exit(1)
        code = 0
    finally:
        os._exit(code)


# --- all together --------------------------------------------------------------------


def arguments(paths: list[str]) -> list[str]:
    return ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "-W", "ignore",
            "--timeout=0", *paths]  # fmt: skip


def test_files() -> list[str]:
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    names = [str(path.relative_to(ROOT)) for path in found]
    return [name for name in names if not any(part in name for part in LEFT_OUT)]


def recorded() -> dict[str, Any]:
    """Returns which lines each test runs: of files that changed since the last time, by a run."""
    names = test_files()
    known = known_record()
    files = [name for name in names if known.get(name, {}).get("of") != fingerprint(name)]
    importlib.import_module("ramet")  # With Keras, once for all.
    for number, name in enumerate(files, 1):
        print(f"{number}/{len(files)} recording which lines run in {name}", flush=True)  # noqa: T201  for people
        child = os.fork()  # So that no test has run in this process.
        if child == 0:
            threading.stack_size(1 << 30)  # Traced, deep models take more of it.
            recording = threading.Thread(target=record, args=(name,))
            recording.start()
            recording.join()
        _, status = os.waitpid(child, 0)
        if status:
            print(f"no record of {name}: it ended with {status}", flush=True)  # noqa: T201  the same
    known = known_record()
    found = [known[name]["tests"] for name in names if name in known]
    return {test: run for tests in found for test, run in tests.items()}


def known_record() -> dict[str, Any]:
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def record(name: str) -> None:
    """Runs a test file, writes down which lines each of its tests runs, and exits."""
    try:
        recorder = Recorder(sources([*ROOMS]))
        pytest.main(arguments([name]), plugins=[recorder])
        known = known_record()
        known[name] = {"of": fingerprint(name), "tests": recorder.tests}
        RECORD.parent.mkdir(exist_ok=True)
        RECORD.write_text(json.dumps(known), encoding="utf-8")
        os._exit(0)
    finally:
        os._exit(1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=150, help="how many mutants are drawn")
    parser.add_argument("--seed", type=int, default=0, help="the seed by which they are drawn")
    parser.add_argument("--rooms", nargs="+", default=[*ROOMS], choices=ROOMS)
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests for each")
    parser.add_argument("--only", default="", help="part of the path of the files to change")
    options = parser.parse_args()
    record = recorded()
    known = explained()
    files = [path for path in sources(options.rooms) if options.only in str(path)]
    mutants = [mutant for path in files for mutant in mutants_of(path, ROOT)]
    candidates = [mutant for mutant in mutants if mutant.key not in known]
    drawn = random.Random(options.seed).sample(candidates, min(options.sample, len(candidates)))
    hunter = Hunter(drawn, record, options.budget)
    pytest.main(arguments(test_files()), plugins=[hunter])
    counts = Counter(fate for _, fate in hunter.fates)
    dead = counts[KILLED] + counts[TIMEOUT]
    print(f"\n{len(mutants)} mutants, {len(mutants) - len(candidates)} explained: {dict(counts)}")  # noqa: T201 a script prints
    for mutant, fate in hunter.fates:
        if fate in (SURVIVED, UNCOVERED):
            print(f"{fate}: {mutant}")  # noqa: T201  for people
    score = dead / max(1, len(hunter.fates))
    print(f"score: {dead} of {len(hunter.fates)} killed, {score:.0%}")  # noqa: T201  the same
    return 0


if __name__ == "__main__":
    os.environ.setdefault("KERAS_BACKEND", "torch")
    os.environ["RAMET_PURE_PYTHON"] = "1"  # The copier in Python is one of the rooms.
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]
    os.chdir(ROOT)
    sys.exit(main())
