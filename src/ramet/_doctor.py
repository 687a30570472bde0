"""The verb `doctor`: what ramet runs on here. Nothing is loaded: neither Keras nor a backend."""

import os
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import ramet
from ramet import _versions, backends
from ramet.copying import core
from ramet.files.archive import ARCHIVE_SUFFIXES, HDF5_SUFFIXES
from ramet.results.checkup import Checkup, Fact

_BACKENDS = tuple(backend.name for backend in backends.BACKENDS)


def doctor() -> Checkup:
    """Check the installation: versions, the backend, the core of the copier, files.

    Returns:
        The facts, with problems and their remedies.
    """
    return Checkup((*_versions_found(), _backend(), _core(), _files()))


def _versions_found() -> Iterator[Fact]:
    yield Fact("ramet", ramet.__version__)
    yield Fact("Python", f"{platform.python_version()} ({platform.python_implementation()})")
    yield _keras()
    for name in _BACKENDS:
        yield Fact(name, _version(name) or "not installed")


def _version(package: str) -> str | None:
    """Return the version of an installed package; `None` if it cannot be imported."""
    if find_spec(package) is None:
        return None
    for distribution in (package, f"{package}-cpu"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "unknown"


def _keras() -> Fact:
    oldest, newest = _versions.KERAS
    found = _version("keras")
    if found is None:
        return Fact("Keras", "not installed", f"install it: pip install 'keras>={oldest}'")
    number = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if number and number < _numbers(oldest):
        remedy = f"ramet needs {oldest} or newer: pip install -U keras"
        return Fact("Keras", found, remedy)
    newer = number > _numbers(newest)
    note = "newer than the newest" if newer else "the newest"
    return Fact("Keras", f"{found} ({note} that ramet is tested with is {newest})")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _backend() -> Fact:
    installed = [name for name in _BACKENDS if find_spec(name) is not None]
    if "keras" in sys.modules:
        return Fact("backend", f"{backends.current().name} (Keras runs on it)")
    if not installed:
        return Fact("backend", "none", f"install one of {', '.join(_BACKENDS)}")
    chosen = os.environ.get("KERAS_BACKEND")
    if chosen is None:
        return Fact("backend", f"{installed[0]} on the command line (KERAS_BACKEND is not set)")
    if chosen not in installed:
        remedy = f"set KERAS_BACKEND to one that is installed: {', '.join(installed)}"
        return Fact("backend", f"{chosen} (KERAS_BACKEND)", remedy)
    return Fact("backend", f"{chosen} (KERAS_BACKEND)")


def _core() -> Fact:
    if core.Core is not core.PythonCore:
        return Fact("core", "C")
    return Fact("core", f"Python, two to three times slower ({core.why_python})")


def _files() -> Fact:
    suffixes = ", ".join((*ARCHIVE_SUFFIXES, *HDF5_SUFFIXES))
    return Fact("files", f"reads {suffixes}; writes {', '.join(ARCHIVE_SUFFIXES)}")
