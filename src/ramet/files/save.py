"""`save`: a model into a file, whole or not at all."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ramet.errors import FileError
from ramet.files.archive import ARCHIVE_SUFFIXES
from ramet.files.words import one_line


def save(model: Any, path: str | Path, *, force: bool = False) -> None:
    """Saves a model as a `.keras` file.

    It is written beside its place and moved there once it is complete, so that there is
    never half a file, and an old one stays until then.

    Args:
        model: The model.
        path: The file.
        force: Whether a file that is there already may be overwritten.

    Raises:
        FileError: If it must not or cannot be written.
    """
    path = Path(path)
    check_target(path, suffixes=ARCHIVE_SUFFIXES, force=force)
    _write(path, model.save)


def save_text(text: str, path: str | Path, *, force: bool = False) -> None:
    """Writes a text in the same way as a model; the suffix is free."""
    path = Path(path)
    check_target(path, force=force)
    _write(path, lambda scratch: scratch.write_text(text, encoding="utf-8"))


def check_target(path: Path, *, suffixes: tuple[str, ...] = (), force: bool = False) -> None:
    """Checks that a file may be written, before any work is done for it.

    Raises:
        FileError: If it may not.
    """
    if suffixes and path.suffix not in suffixes:
        message = f"'{path}' has the suffix '{path.suffix}'; it is written as {suffixes[0]} only"
        raise FileError(message)
    if path.is_dir():
        raise FileError(f"'{path}' is a directory; name a file in it")
    if not path.parent.is_dir():
        raise FileError(f"there is no folder '{path.parent}' to write '{path.name}' into")
    if path.exists() and not force:
        raise FileError(f"'{path}' exists already; it is overwritten only by force (--force)")


def _write(path: Path, write: Callable[[Path], object]) -> None:
    try:
        with TemporaryDirectory(prefix=".ramet-", dir=path.parent) as folder:
            scratch = Path(folder) / path.name
            write(scratch)
            scratch.replace(path)
    except Exception as error:  # a layer's own get_config may raise anything
        reason = one_line(str(error)) or type(error).__name__
        raise FileError(f"'{path}' cannot be written: {reason}") from error
