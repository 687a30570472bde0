"""Kernels as stacks of matrices, and their factors: the arithmetic of factorize, in float64."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ramet.graph.values import Array, Computed, Value

Part = Literal["into", "core", "out"]
"""The factors of a kernel: `kernel = into @ core @ out`, position by position."""


@dataclass(frozen=True)
class Shape:
    """How a kernel is a stack of matrices, in groups, from input to output channels."""

    axes: tuple[int, ...]
    """The axes of the kernel in the order: positions, rows, columns."""
    positions: tuple[int, ...]
    """The sizes of the axes that a window covers; none for a plain matrix."""
    rows: tuple[int, ...]
    """The sizes of the axes of the input channels of one group."""
    columns: tuple[int, ...]
    """The sizes of the axes of the output channels of all groups."""
    groups: int = 1
    """The number of groups."""

    @property
    def sides(self) -> tuple[int, int]:
        """The numbers of input and of output channels of a group."""
        return _product(self.rows), _product(self.columns) // self.groups

    @property
    def window(self) -> int:
        """The number of positions."""
        return _product(self.positions)

    @property
    def size(self) -> int:
        """The number of elements of the kernel."""
        return self.window * _product(self.rows) * _product(self.columns)

    def stack(self, kernel: Array) -> Array:
        """Return a kernel as an array of groups, positions, rows and columns."""
        inside, out = self.sides
        stacked = kernel.astype(np.float64).transpose(self.axes)
        return stacked.reshape(self.window, inside, self.groups, out).transpose(2, 0, 1, 3)


def _product(sizes: tuple[int, ...]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


@dataclass(frozen=True)
class Ranks:
    """How many dimensions of the channels of each group are kept; `None` for all, in place."""

    into: int | None
    """Of the input channels."""
    out: int | None
    """Of the output channels."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The factors that there are."""
        into: tuple[Part, ...] = () if self.into is None else ("into",)
        out: tuple[Part, ...] = () if self.out is None else ("out",)
        return (*into, "core", *out)


def factor(kernel: Value, part: Part, shape: Shape, ranks: Ranks, target: tuple[int, ...]) -> Value:
    """Return a factor of a kernel.

    Args:
        kernel: The kernel.
        part: Which factor.
        shape: How the kernel is a stack of matrices.
        ranks: How much of it is kept.
        target: The shape of the result.
    """
    options: dict[str, Any] = {"part": part, "shape": shape, "ranks": ranks, "target": target}
    return Computed(_factor, (kernel,), options)


def _factor(
    kernel: Array, *, part: Part, shape: Shape, ranks: Ranks, target: tuple[int, ...]
) -> Array:
    stack = shape.stack(kernel)
    into, out = bases(stack, ranks)
    factors = core(stack, into, out)
    if part == "into" and into is not None:
        factors = into[:, None]
    elif part == "out" and out is not None:
        factors = out.transpose(0, 2, 1)[:, None]
    # Groups are joined along the output channels.
    return factors.transpose(1, 2, 0, 3).reshape(target)


def bases(stack: Array, ranks: Ranks) -> tuple[Array | None, Array | None]:
    """Return orthonormal bases of the input and output channels that are kept, for each group.

    `None` stands for all channels, as they are.
    """
    into = None if ranks.into is None else spectrum(stack, 0)[1][:, :, : ranks.into]
    out = None if ranks.out is None else spectrum(stack, 1)[1][:, :, : ranks.out]
    return into, out


def core(stack: Array, into: Array | None, out: Array | None) -> Array:
    """Return what is left of a stack between two bases."""
    if into is not None:
        stack = into.transpose(0, 2, 1)[:, None] @ stack
    return stack if out is None else stack @ out[:, None]


_SPECTRA: OrderedDict[tuple[str, int], tuple[Array, Array]] = OrderedDict()
"""The last spectra, since each factor of a kernel asks for the same."""
_MOST_BYTES = 2**28


def spectrum(stack: Array, side: int) -> tuple[Array, Array]:
    """Return energies and directions of the channels of a kernel, the strongest first.

    Args:
        stack: The kernel, as a stack of matrices.
        side: 0 for the input channels, 1 for the output channels.

    Returns:
        The squares of the singular values, and the singular vectors, for each group.
    """
    digest = hashlib.blake2b(np.ascontiguousarray(stack).tobytes(), digest_size=16).hexdigest()
    key = f"{digest}{stack.shape}", side
    if key not in _SPECTRA:
        channels = (0, 2, 1, 3) if side == 0 else (0, 3, 1, 2)
        rows = stack.transpose(channels).reshape(len(stack), stack.shape[2 + side], -1)
        values, vectors = np.linalg.eigh(rows @ rows.transpose(0, 2, 1))
        _SPECTRA[key] = values[:, ::-1].clip(0), vectors[:, :, ::-1]
        while len(_SPECTRA) > 1 and sum(each.nbytes for _, each in _SPECTRA.values()) > _MOST_BYTES:
            _SPECTRA.popitem(last=False)
    return _SPECTRA[key]
