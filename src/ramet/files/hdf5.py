"""Checks of an HDF5 file: its data is in the file, and no larger than what is stored."""

import math
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import h5py

from ramet.errors import FileError
from ramet.files.archive import MAX_CONFIG, WEIGHTS, check_expansion
from ramet.files.member import opened
from ramet.files.words import brief, one_line

MAX_OBJECTS = 1_000_000
"""Groups, datasets and attributes in a file."""

MAX_TEXTS = 1 << 30
"""Bytes that a list of texts may take: 1 GiB."""

_HEAP = b"GCOL"
"""What the heaps begin with in which HDF5 keeps texts."""

_FILTERS = frozenset({1, 2, 3, 4, 6, 32000})
"""Filters that HDF5 has built in, and LZF of h5py. It would load others from libraries."""

_KINDS = "biufcVS"
"""Types of data with a size of their own. HDF5 keeps other data elsewhere, and may share it."""

_CONFIGS = ("model_config", "training_config")


@dataclass
class Stored:
    """The datasets of a file."""

    size: int = 0
    """Bytes of all datasets together."""
    lengths: set[int] = field(default_factory=set[int])
    """The lengths of their axes."""
    configs: list[bytes | str] = field(default_factory=list[bytes | str])
    """The configs in a legacy file: of the model, and of its training."""


def check_weights(path: Path) -> Stored:
    """Check the weights inside a `.keras` archive.

    Raises:
        FileError: If they are broken or hostile.
    """
    try:
        with opened(path, WEIGHTS) as member:
            return _read(path, member)
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, zlib.error) as error:
        raise FileError(
            f"'{path}' is a broken or truncated archive: {one_line(str(error))}"
        ) from error


def check_legacy(path: Path) -> Stored:
    """Check a legacy file.

    Raises:
        FileError: If it is broken or hostile, or does not hold a model.
    """
    stored = _read(path, path)
    if not stored.configs:
        raise FileError(f"'{path}' holds only weights or other data, not a model")
    return stored


def _read(path: Path, source: Any) -> Stored:
    stored = Stored()
    claimed = 0
    try:
        with h5py.File(source, "r") as file:
            for place, dataset in _datasets(path, file, _longest_text(source)):
                _check_dataset(path, place, dataset)
                stored.size += dataset.nbytes
                stored.lengths |= {*dataset.shape}
                claimed += dataset.id.get_storage_size()
            _check_totals(path, stored, claimed, file.id.get_filesize())
            stored.configs = _configs(path, file)
    except FileError:
        raise
    except Exception as error:  # h5py raises many types on a broken file
        raise FileError(
            f"'{path}' has broken or truncated weights: {one_line(str(error))}"
        ) from error
    return stored


def _check_totals(path: Path, stored: Stored, claimed: int, size: int) -> None:
    if claimed > size:  # weights that lie over one another
        message = f"'{path}' has weights of {size} bytes that claim {claimed} of them"
        raise FileError(message)
    check_expansion(path, stored.size, "weights")


def _configs(path: Path, file: Any) -> list[bytes | str]:
    texts = [file.attrs.get(name) for name in _CONFIGS]
    if not isinstance(texts[0], (bytes, str)):
        return []
    for text in texts:
        if isinstance(text, (bytes, str)) and len(text) > MAX_CONFIG:
            message = f"'{path}' has a config of {len(text)} bytes; {MAX_CONFIG} is the limit"
            raise FileError(message)
    return [text for text in texts if isinstance(text, (bytes, str))]


def _datasets(path: Path, file: Any, longest: int) -> Iterator[tuple[str, Any]]:
    """Yield every dataset once; refuse links."""
    waiting, met = [("", file)], {file.id}
    _check_attributes(path, "", file, longest)
    while waiting:
        prefix, group = waiting.pop()
        for name in group:
            place = f"{prefix}/{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise FileError(
                    f"'{path}' has weights '{brief(place)}' that are a link to elsewhere"
                )
            item = group[name]
            if item.id in met:
                continue
            met.add(item.id)
            if len(met) > MAX_OBJECTS:
                raise FileError(f"'{path}' has more than {MAX_OBJECTS} groups and weights")
            _check_attributes(path, place, item, longest)
            if isinstance(item, h5py.Group):
                waiting.append((place, item))
            elif isinstance(item, h5py.Dataset):
                yield place, item


def _check_attributes(path: Path, place: str, item: Any, longest: int) -> None:
    """Refuse lists of texts that may all be the same long one, which is stored once."""
    for name in item.attrs:
        attribute = item.attrs.get_id(name)
        count = math.prod(attribute.shape)
        if attribute.dtype.kind == "O" and count > 1 and count * longest > MAX_TEXTS:
            message = (
                f"'{path}' has an attribute '{brief(name)}' of '{brief(place)}/' with {count} "
                f"texts, which may have {longest} bytes each"
            )
            raise FileError(f"{message}; save the model as a .keras file")


def _longest_text(source: Any) -> int:
    """Return a bound for the texts in a file: the size of the largest heap that holds them."""
    if not isinstance(source, Path):
        return MAX_TEXTS  # in an archive, Keras writes no lists of texts
    with source.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        sizes, at = [0], data.find(_HEAP)
        while at >= 0:
            sizes.append(int.from_bytes(data[at + 8 : at + 16], "little"))
            at = data.find(_HEAP, at + 1)
    return max(size for size in sizes if size <= source.stat().st_size)


def _check_dataset(path: Path, place: str, dataset: Any) -> None:
    if dataset.external or dataset.is_virtual:
        raise FileError(f"'{path}' has weights '{brief(place)}' that are in another file")
    if dataset.dtype.kind not in _KINDS or dataset.dtype.fields:
        raise FileError(f"'{path}' has weights '{brief(place)}' of the type {brief(dataset.dtype)}")
    filters = dataset.id.get_create_plist()
    if not {filters.get_filter(at)[0] for at in range(filters.get_nfilters())} <= _FILTERS:
        message = (
            f"'{path}' has weights '{brief(place)}' that need a filter which HDF5 has not built in"
        )
        raise FileError(message)
