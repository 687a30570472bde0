"""`load`: a model from a file, if the file is what it says it is."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ramet.errors import FileError
from ramet.files import archive, config
from ramet.files.words import one_line

_UNKNOWN = r"(?:Could not locate \w+|Could not deserialize(?: \w+)?|Unknown [\w ]+:) '([^']*)'"
"""How Keras says that it does not know a class or function."""


def load(
    path: str | Path, *, trust: bool = False, custom_objects: Mapping[str, Any] | None = None
) -> Any:
    """Loads a model from a `.keras` file, or from a legacy `.h5` file.

    The file is looked at first: what kind it is, the names and sizes of its members, and
    every class and function that its config names. Keras sees it only then. A model
    that was compiled is compiled. What a file does not hold, some seeds and the names
    of masks, is the same each time it is loaded.

    Args:
        path: The file.
        trust: Whether it may hold pickled functions, and classes that are not Keras's own.
            Both can do anything on this machine.
        custom_objects: Such classes and functions by name, as in `keras.saving.load_model`.

    Raises:
        FileError: If it is no such file, or must not be trusted, or Keras cannot load it.
    """
    path = Path(path)
    configs = checked_configs(path)
    foreign = [named for each in configs for named in config.foreign(each)]
    if foreign and not trust:
        message = (
            f"'{path}' names {foreign[0]}, which is not part of Keras and could do anything; "
            "if you trust where the file comes from, load it with trust (--trust)"
        )
        raise FileError(message)
    import keras  # noqa: PLC0415 a file that is refused is refused before Keras is there

    from ramet.bridge import internals  # noqa: PLC0415 the same

    for each in configs:
        config.check_backend(path, each, backend=keras.backend.backend())
    try:
        with internals.fixed_randomness(0), internals.fresh_names():
            return keras.saving.load_model(
                path, custom_objects=dict(custom_objects or {}), safe_mode=not trust
            )
    except Exception as error:  # Keras raises anything on a file that it cannot read
        raise FileError(_explained(path, error, foreign)) from error


def checked_configs(path: Path) -> list[Any]:
    """Returns the configs in a file that is sound: of the model, and of its training.

    Raises:
        FileError: If it is no such file, or a broken or hostile one.
    """
    archive.check_path(path)
    if path.suffix in archive.ARCHIVE_SUFFIXES:
        text = archive.read_config(path)
        from ramet.files import hdf5  # noqa: PLC0415 it imports h5py, which takes a moment

        hdf5.check_weights(path)
        return [config.parse_model(path, text)]
    from ramet.files import hdf5  # noqa: PLC0415 the same

    model, *training = hdf5.read_configs(path)
    return [config.parse_model(path, model), *(config.parse(path, text) for text in training)]


def _explained(path: Path, error: Exception, foreign: list[config.Named]) -> str:
    """Returns what went wrong in one line; Keras's messages end with a whole config."""
    text = str(error)
    found = re.search(_UNKNOWN, text)
    if found is not None:
        name = found[1].rpartition(".")[2]
        known = next((str(n) for n in foreign if n.name == name), f"'{name}'")
        remedy = "if it is your own, make it known by custom_objects (--trust --import)"
        return one_line(f"'{path}' names {known}, which Keras does not know; {remedy}")
    cause = text.rsplit("Exception encountered:", 1)[-1].strip() or type(error).__name__
    return f"'{path}' cannot be loaded: {one_line(cause)}"
