"""What an adapter file holds: the adapter of every layer, and what was trained besides."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ramet.adapt.storing import safetensors
from ramet.errors import FileError
from ramet.files import config
from ramet.layers.entries import Entry, entry_of

KEY = "ramet"
"""The entry of the metadata with everything but the arrays."""
VERSION = 1
"""The version of the layout."""


@dataclass(frozen=True)
class Part:
    """The adapter of one layer."""

    path: str
    """The path of the layer."""
    entry: Entry
    """What is known of the adapter."""
    values: dict[str, np.ndarray] = field(repr=False)
    """The values of its variables: `0_down`, `0_up`, `0_length`."""
    digests: tuple[str, ...]
    """What identifies the values of the kernels of the base; empty if unknown."""


@dataclass(frozen=True)
class Contents:
    """An adapter as a file holds it."""

    name: str
    """Its name."""
    parts: tuple[Part, ...]
    """The layers."""
    besides: dict[str, dict[str, np.ndarray]] = field(repr=False)
    """The variables that trained besides, by the paths of layers and by role."""


def digest(variable: Any) -> str:
    """Return what identifies the values of a kernel."""
    array = np.ascontiguousarray(keras.ops.convert_to_numpy(variable))
    head = f"{array.dtype} {array.shape} ".encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()[:16]


def packed(contents: Contents) -> bytes:
    """Return the file of an adapter."""
    arrays: dict[str, np.ndarray] = {}
    parts: list[dict[str, Any]] = []
    for part in contents.parts:
        keys: dict[str, str] = {}
        for role, value in part.values.items():
            number, _, what = role.partition("_")
            keys[role] = f"{part.path}/{part.entry.targets[int(number)].path}.{what}"
            arrays[keys[role]] = value
        plain = part.entry.to_dict()
        parts.append({"path": part.path, "entry": plain, "keys": keys, "digests": [*part.digests]})
    besides: dict[str, dict[str, str]] = {}
    for path, values in contents.besides.items():
        besides[path] = {role: f"{path}/{role}" for role in values}
        arrays |= {besides[path][role]: value for role, value in values.items()}
    described = {
        "version": VERSION,
        "name": contents.name,
        "parts": parts,
        "besides": besides,
    }
    return safetensors.written(arrays, {"format": "np", KEY: json.dumps(described)})


def unpacked(path: Path) -> Contents:
    """Return the adapter in a file.

    Raises:
        FileError: If there is none, or the file is broken or hostile.
    """
    arrays, texts = safetensors.read(path)
    if KEY not in texts:
        message = (
            f"'{path}' is not an adapter file of ramet; one of PEFT is a folder with "
            "adapter_config.json: pass that folder"
        )
        raise FileError(message)
    described = config.parse(path, texts[KEY])
    try:
        contents = _contents(described, arrays)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise FileError(f"'{path}' describes no adapter: {type(error).__name__}") from error
    return contents


def _contents(described: Any, arrays: dict[str, np.ndarray]) -> Contents:
    if described["version"] != VERSION:
        raise ValueError(described["version"])
    parts = [
        Part(
            _text(one["path"]),
            entry_of(one["entry"]),
            {_text(role): arrays[key] for role, key in one["keys"].items()},
            tuple(map(_text, one["digests"])),
        )
        for one in described["parts"]
    ]
    for part in parts:
        _check_part(part)
    besides = {
        _text(path): {_text(role): arrays[key] for role, key in roles.items()}
        for path, roles in described["besides"].items()
    }
    return Contents(_text(described["name"]), tuple(parts), besides)


def _check_part(part: Part) -> None:
    """Check that an adapter has arrays for all its variables, of the right shapes.

    Raises:
        ValueError: If it has not.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    for number, target in enumerate(part.entry.targets):
        inside, outside = target.sizes
        shapes[f"{number}_down"] = (inside, target.rank)
        shapes[f"{number}_up"] = (target.rank, outside)
        if part.entry.variant == "dora":
            shapes[f"{number}_length"] = (outside,)
    if {role: value.shape for role, value in part.values.items()} != shapes:
        raise ValueError(part.path)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value
