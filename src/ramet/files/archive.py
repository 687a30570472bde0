"""Checks of a file before anything in it is trusted.

Nothing here unpacks a file or imports Keras. The limits are generous for a model, and small for
a machine.
"""

import stat
import zipfile
from pathlib import Path, PurePosixPath, PureWindowsPath

from ramet.errors import FileError
from ramet.files.words import brief, one_line

ZIP_MAGIC = b"PK\x03\x04"
HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"

ARCHIVE_SUFFIXES = (".keras",)
HDF5_SUFFIXES = (".h5", ".hdf5")

MAX_MEMBERS = 10_000
"""Members of an archive. Keras writes three, and one per asset."""
MAX_TOTAL = 1 << 40
"""Bytes that all members may declare together: 1 TiB."""
MAX_RATIO = 32
"""How many bytes a byte of the file may expand to. Keras stores without compression."""
RATIO_FLOOR = 1 << 24
"""Files that expand to no more than this (16 MiB) may have any ratio."""
MAX_CONFIG = 1 << 26
"""Bytes of config.json: 64 MiB. Large vocabularies are written into it."""

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""How members may be compressed. Other methods expand before Python can count the bytes."""

CONFIG = "config.json"
METADATA = "metadata.json"
WEIGHTS = "model.weights.h5"


def check_path(path: Path) -> None:
    """Check that a path is a file that can be a model.

    Raises:
        FileError: If it does not.
    """
    try:
        path.stat()
    except (OSError, ValueError) as error:
        raise FileError(f"there is no file '{path}'") from error
    if path.is_dir():
        raise FileError(f"'{path}' is a directory, not a model file; name a .keras file")
    if not path.is_file():
        raise FileError(f"'{path}' is not a regular file")
    if path.suffix not in (*ARCHIVE_SUFFIXES, *HDF5_SUFFIXES):
        message = f"'{path}' has the suffix '{path.suffix}'; models are .keras or .h5 files"
        raise FileError(message)
    magic = HDF5_MAGIC if path.suffix in HDF5_SUFFIXES else ZIP_MAGIC
    if _first_bytes(path, len(magic)) != magic:
        kind = "an HDF5 file" if path.suffix in HDF5_SUFFIXES else "a Keras archive"
        raise FileError(f"'{path}' is not {kind}, despite its suffix")


def _first_bytes(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise FileError(f"'{path}' cannot be read: {error.strerror}") from error


def read_config(path: Path) -> bytes:
    """Check all members of a `.keras` archive, and return the config.

    Raises:
        FileError: If the archive is broken or hostile.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            _check_members(path, members)
            _check_sums(path, archive)
            return archive.read(CONFIG)
    except FileError:
        raise
    except Exception as error:  # zipfile raises many types on a broken file
        raise FileError(
            f"'{path}' is a broken or truncated archive: {one_line(str(error))}"
        ) from error


def _check_sums(path: Path, archive: zipfile.ZipFile) -> None:
    damaged = archive.testzip()
    if damaged is not None:
        message = f"'{path}' is damaged: the checksum of its member '{brief(damaged)}' is wrong"
        raise FileError(message)


def _check_members(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS:
        raise FileError(f"'{path}' has {len(members)} members; {MAX_MEMBERS} is the limit")
    seen: set[str] = set()
    for member in members:
        _check_name(path, member)
        _check_size(path, member)
        if member.filename in seen:
            raise FileError(f"'{path}' has two members named '{brief(member.filename)}'")
        seen.add(member.filename)
    _check_totals(path, members)
    for wanted in (CONFIG, METADATA, WEIGHTS):
        if wanted not in seen:
            raise FileError(f"'{path}' is not a Keras archive: it has no '{wanted}'")


def _check_name(path: Path, member: zipfile.ZipInfo) -> None:
    # `filename` was cleaned by `zipfile`: cut at a NUL, and with the separators of this system.
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
        raise FileError(f"'{path}' has a member with the unsafe name {brief(repr(name))}")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise FileError(f"'{path}' has a member '{brief(name)}' that is a link")
    if member.flag_bits & 1:
        raise FileError(f"'{path}' has a member '{brief(name)}' that is encrypted")
    if member.compress_type not in METHODS:
        message = f"'{path}' has a member '{brief(name)}' that is compressed in an unusual way"
        raise FileError(f"{message}; save the model with Keras, which does not compress")


def check_expansion(path: Path, size: int, what: str) -> None:
    """Check that a file does not expand to far more than it has, all its parts taken together.

    Raises:
        FileError: If it does.
    """
    stored = path.stat().st_size
    if size > RATIO_FLOOR and size > MAX_RATIO * stored:
        message = (
            f"'{path}' has {stored} bytes and {what} that declare {size}; more than {MAX_RATIO} "
            "to 1 is refused as a bomb"
        )
        raise FileError(message)


def _check_size(path: Path, member: zipfile.ZipInfo) -> None:
    size, name = member.file_size, member.filename
    if name == CONFIG and size > MAX_CONFIG:
        raise FileError(f"'{path}' has a config of {size} bytes; {MAX_CONFIG} is the limit")


def _check_totals(path: Path, members: list[zipfile.ZipInfo]) -> None:
    total = sum(member.file_size for member in members)
    check_expansion(path, total, "members")
    if total > MAX_TOTAL:
        raise FileError(f"'{path}' declares {total} bytes; {MAX_TOTAL} is the limit")
    # With overlapping members, a small file can declare much at a low ratio.
    stored, size = sum(member.compress_size for member in members), path.stat().st_size
    if stored > size:
        message = f"'{path}' has {size} bytes, and its members claim {stored} of them"
        raise FileError(message)
