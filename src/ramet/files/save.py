"""`save`: write a model to a file, atomically. Everything that ramet writes is written here."""

import contextlib
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from ramet._arguments import check_flag, check_text, checked_path, shown
from ramet.errors import FileError, OptionError
from ramet.files.archive import ARCHIVE_SUFFIXES
from ramet.files.words import one_line


def save(
    model: Any, path: str | Path, *, force: bool = False, sources: Sequence[str | Path] = ()
) -> None:
    """Save a model as a `.keras` file.

    The file is written to a temporary folder next to it and moved once it is complete, so
    that it is never half written, and an old file stays until then. If somebody else creates
    the file meanwhile, it is kept unless `force` is set.

    Args:
        model: The model.
        path: The file. With `force`, links are followed, and the file keeps its permissions.
        force: Whether to overwrite a file.
        sources: Files that the model was read from, which are never overwritten.

    Raises:
        FileError: If the file exists, or cannot be written.

    Examples:
        >>> ramet.files.save(model, "model.keras")
        >>> ramet.files.save(model, "model.keras", force=True)
    """
    path = checked_path(path, "path")
    check_target(path, suffixes=ARCHIVE_SUFFIXES, force=force, sources=sources)
    from ramet.tracing.options import check_model  # noqa: PLC0415 it imports Keras

    check_model(model)
    _write(path, model.save, force=force)


def save_text(
    text: str, path: str | Path, *, force: bool = False, sources: Sequence[str | Path] = ()
) -> None:
    """Write text atomically, as `save` does; the file may have any suffix.

    Examples:
        >>> ramet.files.save_text(ramet.emit(model), "model.py")
    """
    check_text(text, "text")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise OptionError(f"text cannot be written as UTF-8: {error.reason}") from error
    save_content(text, path, force=force, sources=sources)


def save_content(
    content: str | bytes,
    path: str | Path,
    *,
    force: bool = False,
    sources: Sequence[str | Path] = (),
) -> None:
    """Write a text or a picture as `save_text` does."""
    path = checked_path(path, "path")
    check_target(path, force=force, sources=sources)
    data = content.encode("utf-8") if isinstance(content, str) else content
    _write(path, lambda scratch: scratch.write_bytes(data), force=force)


def check_target(
    path: Path,
    *,
    suffixes: tuple[str, ...] = (),
    force: bool = False,
    sources: Sequence[str | Path] = (),
) -> None:
    """Check that a file can be written, before any work is done for it.

    Raises:
        FileError: If it cannot.

    Examples:
        >>> from pathlib import Path
        >>> ramet.files.check_target(Path("new.keras"), suffixes=(".keras",))
    """
    path = checked_path(path, "path")
    check_flag(force, "force")
    if not isinstance(cast("Any", suffixes), tuple):
        raise OptionError(f"suffixes must be a tuple of strings, got {shown(suffixes)}")
    for suffix in suffixes:
        check_text(suffix, "a suffix")
    if not isinstance(cast("Any", sources), (list, tuple)):
        raise OptionError(f"sources must be a list of paths, got {shown(sources)}")
    sources = [checked_path(source, "a source") for source in sources]
    if suffixes and path.suffix not in suffixes:
        message = f"'{path}' has the suffix '{path.suffix}'; name a {suffixes[0]} file"
        raise FileError(message)
    try:
        _check_place(path, force=force, sources=sources)
    except OSError as error:  # such as a name that is too long
        raise FileError(f"'{path}' cannot be written: {error.strerror}") from error


def _check_place(path: Path, *, force: bool, sources: Sequence[str | Path]) -> None:
    if path.is_dir():
        raise FileError(f"'{path}' is a directory; name a file in it")
    if not path.parent.is_dir():
        raise FileError(f"there is no folder '{path.parent}' to write '{path.name}' to")
    if os.path.lexists(path) and not force:
        raise _exists(path)
    if path.exists() and not path.is_file():
        raise FileError(f"'{path}' is not a regular file; name another")
    for source in sources:
        if path.exists() and path.samefile(source):
            raise FileError(f"'{path}' is the file that is read; name another to write")
    if path.is_symlink() and not path.exists():
        with contextlib.suppress(FileNotFoundError):
            path.stat()  # an OSError if it leads to itself
        if not path.resolve().parent.is_dir():
            raise FileError(f"'{path}' is a link into a folder that does not exist")


def _exists(path: Path) -> FileError:
    return FileError(f"'{path}' already exists; pass force=True to overwrite it")


def _write(path: Path, write: Callable[[Path], object], *, force: bool) -> None:
    try:
        target = path.resolve() if force else path
        with TemporaryDirectory(prefix=".ramet-", dir=target.parent) as folder:
            scratch = Path(folder) / target.name
            write(scratch)
            _to_disk(scratch)
            (_replace if force else _create)(scratch, target)
    except FileError:
        raise
    except Exception as error:  # a layer's own get_config may raise anything
        reason = getattr(error, "strerror", None) or str(error)
        reason = one_line(reason) or type(error).__name__
        raise FileError(f"'{path}' cannot be written: {reason}") from error
    with contextlib.suppress(OSError):  # not every system can do this with a folder
        _to_disk(target.parent)


def _create(scratch: Path, target: Path) -> None:
    """Give a file its name, unless somebody else has taken it meanwhile."""
    try:
        os.link(scratch, target)
    except FileExistsError as error:
        raise _exists(target) from error
    except OSError:  # not every file system has links
        _create_without_links(scratch, target)


def _create_without_links(scratch: Path, target: Path) -> None:
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError as error:
        raise _exists(target) from error
    try:
        scratch.replace(target)
    except BaseException:
        target.unlink()
        raise


def _replace(scratch: Path, target: Path) -> None:
    """Put a file in the place of another, with its permissions."""
    with contextlib.suppress(FileNotFoundError):
        scratch.chmod(stat.S_IMODE(target.stat().st_mode))
    scratch.replace(target)


def _to_disk(path: Path) -> None:
    """Have the system write what it still keeps in memory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
