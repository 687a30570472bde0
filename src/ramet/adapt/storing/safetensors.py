"""The safetensors format: a header in JSON, and one buffer without holes.

It is read and written here, in a few lines, since a file comes from anybody: nothing is run,
nothing is requested that the file does not hold, and everything else ends in a `FileError`.
"""

import json
import math
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import ml_dtypes
import numpy as np

from ramet.errors import FileError
from ramet.files import config

MAX_HEADER = 100_000_000
"""Bytes of the header; the limit of the format."""

DTYPES: dict[str, Any] = {
    "F64": np.dtype("float64"),
    "F32": np.dtype("float32"),
    "F16": np.dtype("float16"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype("int64"),
    "I32": np.dtype("int32"),
    "I16": np.dtype("int16"),
    "I8": np.dtype("int8"),
    "U8": np.dtype("uint8"),
    "U32": np.dtype("uint32"),
    "BOOL": np.dtype("bool"),
}
"""The dtypes of the format that models are made of."""


def written(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """Return a file with arrays and texts."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    start = 0
    for name, array in tensors.items():
        end = start + array.nbytes
        kind = names[array.dtype]
        header[name] = {"dtype": kind, "shape": [*array.shape], "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    data = [np.ascontiguousarray(array).tobytes() for array in tensors.values()]
    return b"".join([len(text).to_bytes(8, "little"), text, *data])


def read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the arrays and the texts of a file.

    Raises:
        FileError: If it is not such a file, or a broken or hostile one.
    """
    data = content_of(path)
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(len(data) - 8, MAX_HEADER):  # noqa: PLR2004 bytes of the size
        raise FileError(f"'{path}' is not a safetensors file: its header is longer than the file")
    header = config.parse(path, bytes(data[8 : 8 + size]))
    if not isinstance(header, dict):
        raise FileError(f"'{path}' is not a safetensors file: its header is not an object")
    plain = cast("dict[str, Any]", header)
    texts = plain.pop("__metadata__", {})
    if not _are_texts(texts):
        raise FileError(f"'{path}' has metadata that are not texts")
    buffer = data[8 + size :]
    arrays = {name: _array(path, name, one, buffer) for name, one in plain.items()}
    spans = sorted(tuple(one["data_offsets"]) for one in plain.values())
    ends = [0, *(end for _, end in spans)]
    if [start for start, _ in spans] != ends[:-1] or ends[-1] != len(buffer):
        raise FileError(f"'{path}' has tensors that overlap, or bytes that belong to none")
    return arrays, cast("dict[str, str]", texts)


def content_of(path: Path) -> memoryview:
    """Return the bytes of a regular file.

    Raises:
        FileError: If it is none, or cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise FileError(f"'{path}' is not a regular file")
        return memoryview(path.read_bytes())
    except OSError as error:
        raise FileError(f"'{path}' cannot be read: {error.strerror}") from error


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(text, str) for text in cast("dict[str, Any]", value).values()
    )


def _array(path: Path, name: str, described: Any, buffer: memoryview) -> np.ndarray:
    """Return one tensor, which is a view of the buffer."""
    wrong = FileError(f"'{path}' describes tensor '{config.brief(name)}' in an unknown way")
    if not isinstance(described, dict):
        raise wrong
    entry = cast("dict[str, Any]", described)
    dtype = entry.get("dtype")
    shape, span = entry.get("shape"), entry.get("data_offsets")
    numbers = [*_counts(shape), *_counts(span)]
    if not isinstance(dtype, str) or dtype not in DTYPES or None in numbers or len(span or ()) != 2:  # noqa: PLR2004 start and end
        raise wrong
    start, end = cast("list[int]", span)
    kind = DTYPES[dtype]
    fits = start <= end <= len(buffer)
    if not fits or math.prod(cast("list[int]", shape)) * kind.itemsize != end - start:
        raise FileError(
            f"'{path}' has a tensor '{config.brief(name)}' of another size than it says"
        )
    return np.frombuffer(buffer[start:end], kind).reshape(cast("list[int]", shape))


def _counts(value: Any) -> list[int | None]:
    """Return the items of a list that are counts; `None` for what is not one."""
    if not isinstance(value, list) or len(cast("list[Any]", value)) > 32:  # noqa: PLR2004 axes of an array
        return [None]
    items = cast("list[Any]", value)
    return [one if type(one) is int and 0 <= one < 1 << 63 else None for one in items]
