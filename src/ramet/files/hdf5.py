"""What an HDF5 file has to be: data that lies in the file, and no more of it than it stores."""

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py

from ramet.errors import FileError
from ramet.files.archive import MAX_RATIO, RATIO_FLOOR, WEIGHTS
from ramet.files.member import opened
from ramet.files.words import one_line


def check_weights(path: Path) -> None:
    """Checks the weights inside a `.keras` archive.

    Raises:
        FileError: If they are broken or hostile.
    """
    try:
        with opened(path, WEIGHTS) as member:
            _read(path, member)
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, zlib.error) as error:
        raise FileError(
            f"'{path}' is a broken or truncated archive: {one_line(str(error))}"
        ) from error


def read_configs(path: Path) -> list[bytes | str]:
    """Checks a legacy file, and reads the configs of the model and of its training.

    Raises:
        FileError: If it is broken or hostile, or holds no model.
    """
    model, training = _read(path, path)
    if not isinstance(model, (bytes, str)):
        raise FileError(f"'{path}' holds no model, only weights or other data")
    return [model, *([training] if isinstance(training, (bytes, str)) else [])]


def _read(path: Path, source: Any) -> list[Any]:
    try:
        with h5py.File(source, "r") as file:
            for place, dataset in _datasets(path, file):
                _check_dataset(path, place, dataset)
            return [file.attrs.get(name) for name in ("model_config", "training_config")]
    except FileError:
        raise
    except Exception as error:  # h5py raises whatever a broken file makes it stumble on
        raise FileError(
            f"'{path}' has broken or truncated weights: {one_line(str(error))}"
        ) from error


def _datasets(path: Path, file: Any) -> Iterator[tuple[str, Any]]:
    """Yields every dataset once, and follows no link."""
    waiting, met = [("", file)], {file.id}
    while waiting:
        prefix, group = waiting.pop()
        for name in group:
            place = f"{prefix}/{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise FileError(f"'{path}' has weights '{place}' that are a link to elsewhere")
            item = group[name]
            if item.id in met:
                continue
            met.add(item.id)
            if isinstance(item, h5py.Group):
                waiting.append((place, item))
            elif isinstance(item, h5py.Dataset):
                yield place, item


def _check_dataset(path: Path, place: str, dataset: Any) -> None:
    if dataset.external or dataset.is_virtual:
        raise FileError(f"'{path}' has weights '{place}' that lie in another file")
    size, stored = dataset.nbytes, dataset.id.get_storage_size()
    if size > RATIO_FLOOR and size > MAX_RATIO * stored:
        message = (
            f"'{path}' has weights '{place}' that declare {size} bytes and store {stored}; "
            f"more than {MAX_RATIO} to 1 is refused as a bomb"
        )
        raise FileError(message)
