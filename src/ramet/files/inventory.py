"""The weights in a file of which nothing else is known."""

from pathlib import Path

import h5py

from ramet.errors import FileError
from ramet.files.archive import ARCHIVE_SUFFIXES, WEIGHTS
from ramet.files.config import named_in
from ramet.files.description import Places, has_layers
from ramet.files.load import checked_file
from ramet.files.member import opened
from ramet.files.words import brief
from ramet.results.inventory import Inventory, StoredWeight


def inventory(path: Path) -> Inventory | None:
    """List the weights in a file, if only a class that is not part of Keras knows its graph.

    Raises:
        FileError: If it is a broken or hostile file.
    """
    if path.suffix not in ARCHIVE_SUFFIXES or not path.is_file():
        return None
    config = checked_file(path, trust=True)[0][0]
    named = next(iter(named_in(config)), None)
    if named is None or not named.foreign or has_layers(config):
        return None
    try:
        with opened(path, WEIGHTS) as member, h5py.File(member, "r") as file:
            weights = [*_weights(Places(file))]
    except (LookupError, TypeError, ValueError, OSError, RuntimeError) as error:
        raise FileError(f"'{path}' has weights that Keras did not write") from error
    note = (
        f"these are the weights in '{path}': only the code of {named} says which layers it has and "
        "how they are connected"
    )
    config_of: dict[str, object] = config["config"] if isinstance(config["config"], dict) else {}
    name = brief(config_of.get("name", named.layer))
    return Inventory(name, brief(named.name), tuple(weights), note)


def _weights(places: Places) -> "list[StoredWeight]":
    listed: list[StoredWeight] = []
    for variables in places.variables("/"):
        for where, data in variables:
            dtype = data.attrs.get("dtype", data.dtype)
            name = where.lstrip("/").replace("vars/", "")
            listed.append(StoredWeight(name, tuple(data.shape), str(dtype)))
    return sorted(listed, key=lambda weight: weight.path)
