"""Shapes and dtypes of tensors, with the batch size filled in."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ramet.graph.tree import Tree, leaves

Shape = tuple[int | None, ...]

_BITS = {"bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8, "int4": 4, "uint4": 4, "string": 0}
"""Bits of the values of dtypes that NumPy does not know; strings have no fixed size."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that flows through a model: a shape, and no values.

    Examples:
        >>> ramet.profiling.Tensor((2, 8), "float16").nbytes
        32
    """

    shape: Shape
    """Its shape. `None` stands for a size that is not known."""
    dtype: str
    """Name of its dtype."""

    @property
    def is_known(self) -> bool:
        """Whether all sizes are known."""
        return None not in self.shape

    @property
    def size(self) -> int:
        """How many values it has; only if all sizes are known."""
        return math.prod(size for size in self.shape if size is not None)

    @property
    def nbytes(self) -> int:
        """How many bytes its values take."""
        return nbytes(self.size, self.dtype)


def nbytes(count: int, dtype: str) -> int:
    """Return how many bytes some values of a dtype take."""
    bits = _BITS.get(dtype)
    if bits is None:
        try:
            bits = 8 * np.dtype(dtype).itemsize
        except TypeError:
            return 0  # a dtype without a size
    return -(-count * bits // 8)


def is_constant_array(value: Any) -> bool:
    """Whether a constant among the arguments of a call is an array."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


def tensor_of(value: Any) -> Tensor:
    """Return the shape and dtype of an array or a symbolic tensor."""
    dtype = getattr(value.dtype, "name", None) or str(value.dtype).rpartition(".")[2]
    return Tensor(tuple(value.shape), dtype)


def tensors_in(tree: Tree) -> Iterator[Tensor]:
    """Yield the tensors among arguments, in order."""
    for leaf in leaves(tree):
        if isinstance(leaf, Tensor):
            yield leaf
