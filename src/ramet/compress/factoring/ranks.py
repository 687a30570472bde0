"""How much of each kernel is kept: by rank, by energy, or to a budget of parameters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ramet.compress.factoring.kernels import Ranks, Shape, bases, core, spectrum
from ramet.graph.values import Array

_STEPS = 40
"""How often a budget halves the range of energies."""


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be factorized."""

    shape: Shape
    """How it is a stack of matrices."""
    value: Array
    """Its value."""
    prefers_out: bool
    """Whether a plain matrix keeps its first layer in place, as a convolution with strides does."""

    @property
    def full(self) -> int:
        """The largest rank that means anything."""
        inside, out = self.shape.sides
        most = min(inside, out)
        return most if self.shape.window == 1 else max(inside, out)

    def of_rank(self, rank: int) -> Ranks:
        """Return what keeps a number of dimensions."""
        inside, out = self.shape.sides
        return self._smallest(min(rank, inside), min(rank, out))

    def of_energy(self, energy: float) -> Ranks:
        """Return what keeps a share of the sum of squares, on each side."""
        return self._smallest(*(self._kept(side, energy) for side in (0, 1)))

    @cached_property
    def _shares(self) -> tuple[Array, Array]:
        """Which shares of the squares the strongest channels keep on each side, by their number.

        Both sides of a plain matrix have the same; the smaller one is quicker.
        """
        stack = self.shape.stack(self.value)
        inside, out = self.shape.sides
        sides = (0, 1) if self.shape.window > 1 else (0, 0) if inside <= out else (1, 1)
        values = [spectrum(stack, side)[0] for side in dict.fromkeys(sides)]
        tiny = np.finfo(float).tiny
        shares = [each.cumsum(1) / np.maximum(each.sum(1, keepdims=True), tiny) for each in values]
        return shares[0], shares[-1]

    def _kept(self, side: int, energy: float) -> int:
        shares = self._shares[side]
        # What is lost to rounding counts as kept, as far as float64 squares can tell.
        enough = shares >= min(energy, 1 - 1e-12)
        return int(max(row.argmax() + 1 if row.any() else 1 for row in enough))

    def _smallest(self, into: int, out: int) -> Ranks:
        """Return the factors with the fewest parameters that keep some ranks."""
        if self.shape.window == 1:
            rank = min(into, out)
            inside, outside = self.shape.sides
            both = Ranks(rank, None), Ranks(None, rank)
            return both[1] if self.prefers_out or outside < inside else both[0]
        options = (Ranks(into, out), Ranks(into, None), Ranks(None, out))
        return min(options, key=self.size)

    def size(self, ranks: Ranks) -> int:
        """Return the number of elements of the factors."""
        inside, out = self.shape.sides
        into, outer = ranks.into or inside, ranks.out or out
        size = into * outer * self.shape.window
        size += inside * into if ranks.into is not None else 0
        size += out * outer if ranks.out is not None else 0
        return size * self.shape.groups

    def error(self, ranks: Ranks) -> float:
        """Return the norm of what is lost, relative to that of the kernel."""
        if self.shape.window == self.shape.groups == 1:
            return float(
                np.sqrt(max(0.0, 1 - self._shares[0][0][(ranks.into or ranks.out or 1) - 1]))
            )
        stack = self.shape.stack(self.value)
        total = float((stack**2).sum())
        kept = float((core(stack, *bases(stack, ranks)) ** 2).sum())
        return float(np.sqrt(max(0.0, total - kept) / total)) if total else 0.0


def to_budget(kernels: Sequence[Kernel], spare: Callable[[Sequence[Ranks]], int]) -> list[Ranks]:
    """Return the ranks of the largest energy, the same for all kernels, that fit a budget.

    Args:
        kernels: The kernels.
        spare: Returns how many parameters ranks leave of the budget; negative if too many.
    """
    low, high = 0.0, 1.0
    best = [kernel.of_rank(1) for kernel in kernels]
    for _ in range(_STEPS):
        middle = (low + high) / 2
        ranks = [kernel.of_energy(middle) for kernel in kernels]
        if spare(ranks) >= 0:
            low, best = middle, ranks
        else:
            high = middle
    return best
