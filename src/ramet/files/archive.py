"""What a file has to be before anything in it is believed.

Nothing here unpacks a file or imports Keras. The limits are generous for models and
small for a machine.
"""

import stat
import zipfile
from pathlib import Path, PurePosixPath, PureWindowsPath

from ramet.errors import FileError
from ramet.files.words import one_line

ZIP_MAGIC = b"PK\x03\x04"
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"

ARCHIVE_SUFFIXES = (".keras",)
HDF5_SUFFIXES = (".h5", ".hdf5")

MAX_MEMBERS = 100_000
"""Members of an archive. Keras writes three, and one per asset."""
MAX_TOTAL = 1 << 40
"""Bytes that all members may declare together: 1 TiB."""
MAX_RATIO = 100
"""How many bytes a stored byte may stand for. Keras stores without compression."""
RATIO_FLOOR = 1 << 24
"""Members up to this size (16 MiB) may be compressed as well as they can be."""
MAX_CONFIG = 1 << 28
"""Bytes of config.json: 256 MiB. Large vocabularies are written into it."""

CONFIG = "config.json"
METADATA = "metadata.json"
WEIGHTS = "model.weights.h5"


def check_path(path: Path) -> None:
    """Checks that a path leads to a file of a kind that can be a model.

    Raises:
        FileError: If it does not.
    """
    if path.is_dir():
        raise FileError(f"'{path}' is a directory, not a model file; name a .keras file")
    if not path.exists():
        raise FileError(f"there is no file '{path}'")
    if not path.is_file():
        raise FileError(f"'{path}' is not a regular file")
    if path.suffix not in (*ARCHIVE_SUFFIXES, *HDF5_SUFFIXES):
        message = f"'{path}' has the suffix '{path.suffix}'; models are .keras or .h5 files"
        raise FileError(message)
    magic = HDF5_MAGIC if path.suffix in HDF5_SUFFIXES else ZIP_MAGIC
    if _first_bytes(path, len(magic)) != magic:
        kind = "an HDF5 file" if path.suffix in HDF5_SUFFIXES else "a Keras archive"
        raise FileError(f"'{path}' is not {kind}, whatever its name says")


def _first_bytes(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise FileError(f"'{path}' cannot be read: {error.strerror}") from error


def read_config(path: Path) -> bytes:
    """Checks every member of a `.keras` archive by what it declares, and reads the config.

    Raises:
        FileError: If the archive is broken or hostile.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_members(path, members)
            return archive.read(CONFIG)
    except FileError:
        raise
    except Exception as error:  # zipfile raises whatever a broken file makes it stumble on
        raise FileError(
            f"'{path}' is a broken or truncated archive: {one_line(str(error))}"
        ) from error


def _check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS:
        raise FileError(f"'{path}' has {len(members)} members; {MAX_MEMBERS} is the limit")
    seen: set[str] = set()
    for member in members:
        _check_name(path, member)
        _check_size(path, member)
        if member.filename in seen:
            raise FileError(f"'{path}' has two members named '{member.filename}'")
        seen.add(member.filename)
    _check_totals(path, members)
    for wanted in (CONFIG, METADATA, WEIGHTS):
        if wanted not in seen:
            raise FileError(f"'{path}' is not a Keras archive: it has no '{wanted}'")


def _check_name(path: Path, member: zipfile.ZipInfo) -> None:
    # What `zipfile` shows was cleaned: cut at a NUL, and with the separators of this system.
    name = member.orig_filename
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    unsafe = (
        not name
        or posix.is_absolute()
        or windows.drive
        or windows.root
        or ".." in windows.parts
        or "\\" in name
        or any(ord(letter) < ord(" ") for letter in name)
    )
    if unsafe:
        raise FileError(f"'{path}' has a member with the unsafe name {name!r}")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise FileError(f"'{path}' has a member '{name}' that is a link")
    if member.flag_bits & 1:
        raise FileError(f"'{path}' has a member '{name}' that is encrypted")


def _check_size(path: Path, member: zipfile.ZipInfo) -> None:
    size, name = member.file_size, member.filename
    if size > RATIO_FLOOR and size > MAX_RATIO * member.compress_size:
        message = (
            f"'{path}' has a member '{name}' that declares {size} bytes and stores "
            f"{member.compress_size}; more than {MAX_RATIO} to 1 is refused as a bomb"
        )
        raise FileError(message)
    if name == CONFIG and size > MAX_CONFIG:
        raise FileError(f"'{path}' has a config of {size} bytes; {MAX_CONFIG} is the limit")


def _check_totals(path: Path, members: list[zipfile.ZipInfo]) -> None:
    total = sum(member.file_size for member in members)
    if total > MAX_TOTAL:
        raise FileError(f"'{path}' declares {total} bytes; {MAX_TOTAL} is the limit")
    # Members that lie over one another are how a small file declares much without a ratio.
    stored, size = sum(member.compress_size for member in members), path.stat().st_size
    if stored > size:
        message = f"'{path}' has {size} bytes, and its members claim {stored} of them"
        raise FileError(message)
