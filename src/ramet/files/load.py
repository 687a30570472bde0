"""`load`: a model from a file, if the file is what it says it is."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ramet.errors import FileError
from ramet.files import archive, config
from ramet.files.words import one_line


def load(
    path: str | Path, *, trust: bool = False, custom_objects: Mapping[str, Any] | None = None
) -> Any:
    """Loads a model from a `.keras` file, or from a legacy `.h5` file.

    The file is looked at first: what kind it is, the names and sizes of its members, and
    every class and function that its config names. Keras sees it only then. A model
    that was compiled is compiled.

    Args:
        path: The file.
        trust: Whether it may hold pickled functions, and classes that are not Keras's own.
            Both can do anything on this machine.
        custom_objects: Such classes and functions by name, as in `keras.saving.load_model`.

    Raises:
        FileError: If it is no such file, or must not be trusted, or Keras cannot load it.
    """
    path = Path(path)
    archive.check_path(path)
    read = archive.read_config if path.suffix in archive.ARCHIVE_SUFFIXES else _read_hdf5_config
    described = config.parse(path, read(path))
    foreign = config.check_trust(path, described, trust=trust)
    import keras  # noqa: PLC0415 a file that is refused is refused before Keras is there

    config.check_backend(path, described, backend=keras.backend.backend())
    try:
        return keras.saving.load_model(
            path, custom_objects=dict(custom_objects or {}), safe_mode=not trust
        )
    except Exception as error:  # Keras raises anything on a file that it cannot read
        raise FileError(_explained(path, error, foreign, keras.__version__)) from error


def _read_hdf5_config(path: Path) -> bytes | str:
    import h5py  # noqa: PLC0415 it is Keras's, and only these files need it

    try:
        with h5py.File(path, "r") as file:
            found: Any = file.attrs.get("model_config")
    except Exception as error:  # h5py raises whatever a broken file makes it stumble on
        raise FileError(f"'{path}' is a broken or truncated HDF5 file: {error}") from error
    if not isinstance(found, (bytes, str)):
        raise FileError(f"'{path}' holds no model, only weights or other data")
    return found


def _explained(path: Path, error: Exception, foreign: list[config.Named], version: str) -> str:
    """Returns what went wrong in one line; Keras's messages end with a whole config."""
    text = str(error)
    found = re.search(r"Could not locate (?:class|function) '([^']*)'", text)
    if found is not None:
        known = next((str(n) for n in foreign if n.name == found[1]), f"'{found[1]}'")
        return f"'{path}' names {known}, which Keras {version} does not know"
    cause = text.rsplit("Exception encountered:", 1)[-1].strip() or type(error).__name__
    return f"'{path}' cannot be loaded: {one_line(cause)}"
