"""Watches what Python does while a file is read: code that is run, and what else is touched."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ramet

STARTED = frozenset(
    {
        *("marshal.loads", "pickle.find_class", "os.system", "os.exec", "os.fork", "os.forkpty"),
        *("os.posix_spawn", "os.spawn", "os.startfile", "subprocess.Popen", "pty.spawn"),
        *("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.sendto"),
        *("urllib.Request", "ftplib.connect", "http.client.connect", "webbrowser.open"),
    }
)
"""Events that no file causes."""

CHANGED = frozenset(
    {
        *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod"),
        *("os.truncate", "os.utime", "shutil.rmtree", "shutil.move", "shutil.copyfile"),
    }
)
"""Events that change the path in their first argument."""

PYTHON = tuple(
    str(Path(path).resolve()) for path in (sys.prefix, sys.base_prefix, Path(ramet.__file__).parent)
)
"""Where Python, its packages and ramet are, which may be imported and read."""

TESTS = str(Path(__file__).parent)
"""Read to show a traceback."""

SYSTEM = ("/proc/", "/sys/", "/dev/null", "/etc/localtime", "/dev/urandom", "/usr/share/zoneinfo")
"""What backends read to know the machine."""


@dataclass
class Watch:
    """What is watched for, and what happened."""

    events: list[tuple[str, str]] | None = None
    allowed: tuple[str, ...] = ()


_watch = Watch()


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _watch.events is None:
        return
    if event in STARTED and not _within_import():
        _watch.events.append((event, repr(args)[:200]))
    elif isinstance(args[0] if args else None, (str, bytes, os.PathLike)):
        relative = not os.fsdecode(args[0]).startswith("/")
        if relative and sys._getframe(1).f_code.co_filename == shutil.__file__:
            return  # within a folder that it removes, which is an event of its own
        if event == "open":
            mode = str(args[1] or "")
            _look(event, args[0], reading="r" in mode and "+" not in mode)
        elif event in CHANGED:
            _look(event, args[0], reading=False)
    elif event == "exec":
        name = str(getattr(args[0], "co_filename", ""))
        caller = sys._getframe(1).f_code.co_filename  # generates it, as for a dataclass
        if not _is_under(name, PYTHON) and not caller.startswith(("<frozen", *PYTHON)):
            _watch.events.append((event, name))


def _within_import() -> bool:
    """Whether Python is reading the code of a module, or a package sets itself up."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _look(event: str, path: Any, *, reading: bool) -> None:
    where = str(Path(os.fsdecode(path)).absolute())
    known = (
        (*_watch.allowed, *PYTHON, TESTS, *SYSTEM) if reading else (*_watch.allowed, "/dev/null")
    )
    if _watch.events is not None and not _is_under(where, known):
        _watch.events.append((event, where))


def _caches() -> list[str]:
    """Return where JAX keeps what it compiled, as the tests have told it to."""
    jax = sys.modules.get("jax")
    folder = None if jax is None else jax.config.jax_compilation_cache_dir
    return [] if folder is None else [str(folder)]


def _is_under(path: str, places: tuple[str, ...]) -> bool:
    return path.startswith(places)


@contextlib.contextmanager
def watched(*allowed: Path) -> Iterator[list[tuple[str, str]]]:
    """Yield a list of what happens meanwhile, other than reading these files and Python's own.

    Keras extracts assets into temporary folders.
    """
    _watch.events = seen = []
    scratch = str(Path(tempfile.gettempdir(), "tmp"))
    _watch.allowed = (*(str(path.absolute()) for path in allowed), scratch, *_caches())
    try:
        yield seen
    finally:
        _watch.events = None


sys.addaudithook(_hook)
