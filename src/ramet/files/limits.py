"""Limits for the numbers in a config, which Keras turns into lists, loops and memory.

The memory of variables is limited when they are created (see `load.py`). Everything else that a
layer creates is small, unless a number in its config is large: those are limited for the whole
file, except where a number says nothing about a size.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, cast

from ramet.errors import FileError
from ramet.files.words import brief

LARGEST = 1 << 31
"""What no number in a config reaches, other than data."""
SMALL = 1 << 16
"""Up to this, a number is not counted."""
MAX_SUM = 1 << 24
"""What all other numbers may add up to, without those that are lengths of weights in the file."""

_DATA = frozenset(
    {
        *("seed", "salt", "vocabulary", "value", "values", "mask_value", "mask_token", "oov_token"),
        *("bin_boundaries", "boundaries", "fill_value", "shared_object_id"),
    }
)
"""Entries that hold data or identities, not sizes."""

_SHAPES = frozenset(
    {"shape", "batch_shape", "input_shape", "build_config", "build_input_shape", "keras_history"}
)
"""Entries with shapes of symbolic tensors, which have no memory."""

_KEPT = _SHAPES | {"arguments"}
"""Entries that say what all numbers inside are."""

_COUNTS = frozenset({"indices_or_sections", "num", "num_oov_indices", "arguments"})
"""Entries that say how many objects to create, or what a function is called with at once."""


def check_numbers(path: Path, config: Any, lengths: AbstractSet[int]) -> None:
    """Check the numbers in a config.

    Args:
        path: The file.
        config: The config.
        lengths: The lengths of the axes of the weights in the file.

    Raises:
        FileError: If they are too large for what is in the file.
    """
    total = 0
    for key, number in _numbers(config):
        if number >= LARGEST or (key in _COUNTS and number > SMALL):
            raise FileError(
                f"'{path}' has a config with {brief(key)}={number:.4g}, which is too large"
            )
        if key not in _SHAPES and number > SMALL and number not in lengths:
            total += number
    if total > MAX_SUM:
        message = (
            f"'{path}' has a config with sizes that add up to {total} and are not those of its "
            f"weights; {MAX_SUM} is the limit; if you trust the origin of the file, pass trust=True"
        )
        raise FileError(message)


def _numbers(config: Any) -> Iterator[tuple[str, int]]:
    """Yield the numbers that are sizes, with the entry that they are in."""
    waiting: list[tuple[str, Any]] = [("config", config)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            waiting += [(key if key in _KEPT else name, item) for name, item in items]
        elif isinstance(value, list):
            waiting += [(key, item) for item in cast("list[Any]", value)]
        elif type(value) is int and key not in _DATA and abs(value) > SMALL:
            yield key, abs(value)
