"""Faults while a file is written: nothing is lost, nothing is left behind, and one line says so."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import keras
import pytest
from keras import layers

import ramet
from ramet.files import check_target, load, save, save_text
from ramet.files import save as saving

pytestmark = pytest.mark.one_backend

SOURCE = Path(__file__).parents[2] / "src"
OLD = "the old file"


def model(units: int = 2) -> keras.Model:
    x = keras.Input((3,), name="x")
    return keras.Model(x, layers.Dense(units, name="d")(x), name="m")


def files_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- signals -------------------------------------------------------------------------

SLOW = """
import signal, sys, time, keras, ramet
from pathlib import Path
# A shell starts what runs in its background, perhaps these tests, with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
class Slow(keras.layers.Dense):
    def save_own_variables(self, store):
        Path(sys.argv[2]).touch()
        time.sleep(60)
import ramet.cli
x = keras.Input((3,))
model = keras.Model(x, Slow(2)(x))
ramet.clone = lambda *_, **__: model
sys.argv = ["ramet", "clone", sys.argv[1], sys.argv[3], "--force"]
ramet.cli.main()
"""
"""Writes a model that takes a minute, and marks when it has begun."""


def started(source: Path, mark: Path, target: Path) -> subprocess.Popen[str]:
    code = SLOW.replace("sys.argv[2]", repr(str(mark)))
    process = subprocess.Popen(  # noqa: S603  this Python, on a text of this file
        [sys.executable, "-c", code, str(source), "-", str(target)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    until = time.monotonic() + 120
    while not mark.exists() and time.monotonic() < until and process.poll() is None:
        time.sleep(0.05)
    assert mark.exists(), process.communicate()
    return process


@pytest.mark.parametrize(
    ("number", "code", "text"),
    [
        (signal.SIGINT, 130, "ramet clone: interrupted\n"),
        (signal.SIGTERM, 143, ""),
        (signal.SIGKILL, -9, ""),
    ],
)
def test_a_signal_while_a_model_is_saved(
    tmp_path: Path, number: signal.Signals, code: int, text: str
) -> None:
    save(model(), tmp_path / "source.keras")
    folder = tmp_path / "out"
    folder.mkdir()
    target = folder / "m.keras"
    target.write_text(OLD)
    process = started(tmp_path / "source.keras", tmp_path / "mark", target)
    assert len(files_in(folder)) == 2
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert target.read_text() == OLD
    if number != signal.SIGKILL:
        assert errors.endswith(text), errors
        assert "Traceback" not in errors
        assert files_in(folder) == ["m.keras"]


# --- disks and folders ---------------------------------------------------------------


@contextlib.contextmanager
def small_files(size: int) -> Any:
    """Let the system refuse to write more to a file, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("force", [False, True])
def test_a_full_disk(tmp_path: Path, *, force: bool) -> None:
    target = tmp_path / "m.keras"
    if force:
        target.write_text(OLD)
    with small_files(4096):
        with pytest.raises(ramet.FileError, match=r"'.*m.keras' cannot be written: File too large"):
            save(model(5000), target, force=force)
        with pytest.raises(ramet.FileError, match="cannot be written: File too large"):
            save_text("x" * 5000, target, force=force)
    assert files_in(tmp_path) == ["m.keras"] * force
    assert not force or target.read_text() == OLD


def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: Any) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    tmp_path.chmod(0o555)
    if os.geteuid() == 0:  # who may write everywhere
        monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with pytest.raises(ramet.FileError, match="cannot be written: Permission denied"):
        save(model(), tmp_path / "m.keras")
    assert files_in(tmp_path) == []
    tmp_path.chmod(0o755)


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(ramet.FileError, match="cannot be written: File name too long"):
        save_text("x", tmp_path / ("x" * 300))


# --- who wins ------------------------------------------------------------------------


def test_two_writers_of_one_file(tmp_path: Path) -> None:
    ready = threading.Barrier(8)
    outcomes: list[str] = []

    def write(number: int) -> None:
        ready.wait()
        try:
            save_text(str(number) * 10000, tmp_path / "m.txt")
            outcomes.append(str(number))
        except ramet.FileError as error:
            assert "already exists; pass force=True" in str(error)  # noqa: PT017  in a thread
            outcomes.append("")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 8
    winners = [each for each in outcomes if each]
    assert len(winners) == 1
    assert (tmp_path / "m.txt").read_text() == winners[0] * 10000
    assert files_in(tmp_path) == ["m.txt"]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_appears_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    source, target = model(), tmp_path / "m.keras"
    write = source.save

    def slowly(path: Path) -> None:
        write(path)
        target.write_text(OLD)

    def refuse(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(source, "save", slowly)
    with pytest.raises(ramet.FileError, match="already exists; pass force=True"):
        save(source, target)
    assert target.read_text() == OLD
    assert files_in(tmp_path) == ["m.keras"]


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    save(model(), tmp_path / "m.keras")
    assert load(tmp_path / "m.keras").name == "m"
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(ramet.FileError, match="cannot be written: Operation not supported"):
        save(model(), tmp_path / "other.keras")
    assert files_in(tmp_path) == ["m.keras"]


# --- what --force keeps --------------------------------------------------------------


def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "m.keras", tmp_path / "link.keras"
    target.write_text(OLD)
    target.chmod(0o600)
    link.symlink_to(target)
    with pytest.raises(ramet.FileError, match=r"'.*link.keras' already exists"):
        save(model(), link)
    save(model(), link, force=True)
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert load(target).name == "m"
    fresh = tmp_path / "fresh.keras"
    save(model(), fresh)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o666 & ~mask


def test_links_to_what_is_not_there(tmp_path: Path) -> None:
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "new.txt")
    with pytest.raises(ramet.FileError, match="already exists"):
        save_text("x", link)
    save_text("x", link, force=True)
    assert (tmp_path / "new.txt").read_text() == "x"
    lost = tmp_path / "lost.txt"
    lost.symlink_to(tmp_path / "no" / "new.txt")
    with pytest.raises(ramet.FileError, match="is a link into a folder that does not exist"):
        save_text("x", lost, force=True)


def test_links_that_lead_to_themselves(tmp_path: Path) -> None:
    link = tmp_path / "link.txt"
    link.symlink_to(link)
    for act in (lambda: check_target(link, force=True), lambda: save_text("x", link, force=True)):
        with pytest.raises(ramet.FileError, match="cannot be written: Too many levels of symbolic"):
            act()
    assert link.is_symlink()


def test_what_cannot_be_encoded(tmp_path: Path) -> None:
    with pytest.raises(ramet.errors.OptionError, match="text cannot be written as UTF-8"):
        save_text("\ud800", tmp_path / "x.txt")
    with pytest.raises(ramet.errors.OptionError, match="path must be the path of a file, got"):
        save_text("x", tmp_path / "\ud800.txt")
    assert files_in(tmp_path) == []


def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    device = tmp_path / "device.txt"
    device.symlink_to("/dev/null")
    for path in (pipe, device, Path("/dev/null"), Path("/dev/full")):
        with pytest.raises(ramet.FileError, match="is not a regular file; name another"):
            save_text("x", path, force=True)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_file_is_not_written_over_what_it_was_read_from(tmp_path: Path) -> None:
    source = tmp_path / "m.keras"
    save(model(), source)
    before = source.read_bytes()
    os.link(source, tmp_path / "hard.keras")
    (tmp_path / "soft.keras").symlink_to(source)
    for name in ("m.keras", "hard.keras", "soft.keras"):
        with pytest.raises(
            ramet.FileError, match="is the file that is read; name another to write"
        ):
            save(model(3), tmp_path / name, force=True, sources=[source])
    assert source.read_bytes() == before


def test_everything_is_written_in_one_place() -> None:
    """No other module opens a file to write."""
    writing = ("write_text(", "write_bytes(", '"w"', '"wb"', ".save(", "mkstemp", "NamedTemp")
    package = Path(ramet.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if any(text in line for text in writing) and ">>>" not in line  # an example
    }
    assert found == {"files/save.py", "cli/terminal.py", "cli/__init__.py"}  # streams, in cli
    assert callable(saving)


# --- output --------------------------------------------------------------------------


def command(*args: str, redirect: str) -> tuple[int, str]:
    done = subprocess.run(  # noqa: S603  this Python
        ["/bin/bash", "-c", f'"$@" {redirect}', "-", sys.executable, "-m", "ramet", *args],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("redirect", "reason"),
    [
        ("> /dev/full", "No space left on device"),
        (">&-", "Bad file descriptor"),
    ],
)
@pytest.mark.parametrize("what", ["show", "--help", "--version", "error"])
def test_an_output_that_cannot_be_written(
    tmp_path: Path, redirect: str, reason: str, what: str
) -> None:
    path = tmp_path / "m.keras"
    save(model(), path)
    args = {"show": ["show", str(path)], "error": ["show", "no.keras", "--json"]}.get(what, [what])
    code, errors = command(*args, redirect=redirect)
    assert code == 2, errors
    assert errors.splitlines()[-1] == f"ramet: the output cannot be written: {reason}"
    assert len(errors.splitlines()) == 1 + (what == "error")


def test_an_output_that_nobody_reads(tmp_path: Path) -> None:
    path = tmp_path / "m.keras"
    save(model(), path)
    code, errors = command("show", str(path), redirect="| true; exit ${PIPESTATUS[0]}")
    assert (code, errors) in [
        (2, "ramet: the output cannot be written: Broken pipe\n"),
        (0, ""),  # if it was written before the reader ended
    ]


def test_closed_streams_do_not_become_part_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "m.keras"
    save(model(), path)
    code, _ = command("clone", str(path), str(tmp_path / "twin.keras"), redirect="<&- >&- 2>&-")
    assert code == 2  # the answer cannot be written
    ramet.verify(load(path), load(tmp_path / "twin.keras")).raise_if_different()
