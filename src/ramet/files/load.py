"""`load`: load a model from a file, after checking the file."""

import importlib
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ramet._arguments import check_flag, check_mapping, checked_path
from ramet.errors import FileError
from ramet.files import archive, config
from ramet.files.limits import check_numbers
from ramet.files.words import one_line

if TYPE_CHECKING:
    from ramet.files.hdf5 import Stored

PER_BYTE = 8
"""Bytes of variables that a byte of weights in a file may become: optimizers add several times."""
SPARE = 1 << 26
"""Bytes of variables that a file need not hold: 64 MiB."""
PER_NAME = 100
"""Symbolic tensors for each layer, operation or tensor that a config names."""
TENSORS = 10_000
"""Symbolic tensors that any file may have."""

_UNKNOWN = r"(?:Could not locate \w+|Could not deserialize(?: \w+)?|Unknown [\w ]+:) '([^']*)'"
"""How Keras says that it does not know a class or function."""


def load(
    path: str | Path, *, trust: bool = False, custom_objects: Mapping[str, Any] | None = None
) -> Any:
    """Load a model from a `.keras` file, or from a legacy `.h5` file.

    The file is checked before Keras sees it: its format, the names and sizes of its members,
    and every class and function that its config names. A model that was compiled is compiled.
    Whatever a file does not store, such as some seeds, is the same each time it is loaded.

    Args:
        path: The file.
        trust: Whether to load pickled functions, and classes that are not part of Keras.
            Both can run any code on this machine.
        custom_objects: Such classes and functions by name, as in `keras.saving.load_model`.

    Raises:
        FileError: If it is not a model file, needs `trust`, or cannot be loaded by Keras.

    Examples:
        >>> model.save("model.keras")
        >>> again = ramet.files.load("model.keras")
    """
    path = checked_path(path, "path")
    check_flag(trust, "trust")
    if custom_objects is not None:
        check_mapping(custom_objects, "custom_objects", "classes and functions by name")
    configs, stored = checked_file(path, trust=trust)
    objects = dict(custom_objects or {})

    def create() -> Any:
        import keras  # noqa: PLC0415 files are checked without Keras

        return keras.saving.load_model(path, custom_objects=objects, safe_mode=not trust)

    return created(path, configs, stored, objects, create, trust=trust)


def created(  # noqa: PLR0913 what was checked, and how it is created
    path: Path,
    configs: list[Any],
    stored: "Stored",
    objects: dict[str, Any],
    create: Callable[[], Any],
    *,
    trust: bool = False,
) -> Any:
    """Create a model that is described by configs, after checking what they name.

    Raises:
        FileError: If they need `trust`, or Keras cannot create it.
    """
    names = [named for each in configs for named in config.named_in(each)]
    from ramet import backends  # noqa: PLC0415 files are checked without Keras
    from ramet import keras_internals as internals  # noqa: PLC0415 the same

    if any(named.own or named.is_adapted for named in names):
        importlib.import_module("ramet.adapt")  # a room above, which registers its layers
    for each in configs:
        config.check_backend(path, each, backend=backends.current().name)
    if not trust:
        _check_parts(path, names, objects)
        for each in configs:
            config.check_calls(path, each)
            config.check_adapted(path, each)
    size, tensors = SPARE + PER_BYTE * stored.size, TENSORS + PER_NAME * len(names)
    limit = nullcontext() if trust else internals.limited_memory(size, tensors)
    try:
        with internals.fixed_randomness(0), internals.fresh_names(), limit:
            return create()
    except Exception as error:  # Keras raises anything on a file that it cannot read
        raise FileError(_explained(path, error, names)) from error


def checked_file(path: Path, *, trust: bool = False) -> tuple[list[Any], "Stored"]:
    """Check a file without Keras. Return its configs, of the model and of its training, and more.

    Raises:
        FileError: If it is not a model file, needs `trust`, or is a broken or hostile one.
    """
    archive.check_path(path)
    is_archive = path.suffix in archive.ARCHIVE_SUFFIXES
    texts = [archive.read_config(path)] if is_archive else []
    from ramet.files import hdf5  # noqa: PLC0415 it imports h5py, which is slow

    stored = hdf5.check_weights(path) if is_archive else hdf5.check_legacy(path)
    model, *training = texts or stored.configs
    configs = [config.parse_model(path, model), *(config.parse(path, text) for text in training)]
    if not trust:
        for each in configs:
            _check_config(path, each, stored)
    return configs, stored


def _check_config(path: Path, read: Any, stored: "Stored") -> None:
    foreign = next((named for named in config.named_in(read) if named.foreign), None)
    if foreign is not None:
        message = (
            f"'{path}' names {foreign}, which is not part of Keras and can run any code; "
            "if you trust the origin of the file, pass trust=True"
        )
        raise FileError(message)
    check_numbers(path, read, stored.lengths)


def _check_parts(path: Path, names: list[config.Named], objects: dict[str, Any]) -> None:
    """Check that a config names nothing but what models are made of.

    Raises:
        FileError: If Keras would find something else, or nothing.
    """
    import keras  # noqa: PLC0415 files are checked without Keras

    from ramet import keras_internals as internals  # noqa: PLC0415 the same

    for named in names:
        key = named.name if named.function else named.registered or named.name
        is_own = keras.saving.get_registered_object(key, objects) is not None
        if is_own or internals.may_be_created(named.described):
            continue
        if not internals.named_parts(named.described):
            raise FileError(_unknown(path, named))
        message = (
            f"'{path}' names {named}, which can run code, read files or change settings; "
            "if you trust the origin of the file, pass trust=True"
        )
        raise FileError(message)


def _unknown(path: Path, named: object) -> str:
    remedy = "if it is your own, pass it in custom_objects"
    return one_line(f"'{path}' names {named}, which Keras does not know; {remedy}")


def _explained(path: Path, error: Exception, names: list[config.Named]) -> str:
    """Return what went wrong in one line; messages of Keras end with a whole config."""
    text = str(error)
    unknown = re.search(_UNKNOWN, text)
    if unknown is not None:
        name = unknown[1].rpartition(".")[2]
        return _unknown(path, next((n for n in names if n.foreign and n.name == name), f"'{name}'"))
    return f"'{path}' cannot be loaded: {one_line(_reason(text)) or type(error).__name__}"


def _reason(text: str) -> str:
    """Return the part of a message of Keras that says what is wrong."""
    text = re.sub(r"\x1b\[\d*m", "", text.rsplit("Exception encountered:", 1)[-1])
    parts = [part.strip() for part in text.split("\n\n") if part.strip()]
    while len(parts) > 1 and parts[0].startswith("Exception encountered when calling"):
        parts = parts[1:]
    if len(parts) > 1 and parts[0].endswith(":"):  # of the first object that could not be loaded
        return f"{parts[0]} {parts[1]}"
    return parts[0] if parts else ""
