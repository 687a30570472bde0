"""What a layer reads: the second moments of its inputs, on data."""

import string
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras import layers

from ramet.graph.values import Array


@dataclass(frozen=True)
class Contraction:
    """How a layer multiplies its inputs by a kernel: which axes of both are summed over."""

    inputs: str
    """The letters of the axes of the inputs."""
    summed: str
    """Those that are summed over, in the order of the kernel."""
    kept: str
    """The axes of the inputs that results keep; anything else is summed over, too."""
    reason: str | None = None
    """Why the kernel cannot be seen as a matrix of inputs by outputs."""

    @classmethod
    def of(cls, layer: Any, rank: int) -> "Contraction":
        """Return what a Dense or EinsumDense does with inputs of a rank."""
        if not isinstance(layer, layers.EinsumDense):
            axes = string.ascii_letters[:rank]
            return cls(axes, axes[-1], axes[:-1])
        left, outputs = layer.equation.replace(" ", "").split("->")
        inputs, kernel = left.split(",")
        free = [letter for letter in string.ascii_letters if letter not in layer.equation]
        open_axes = "".join(free[: rank - len(inputs.replace("...", ""))])
        inputs = inputs.replace("...", open_axes)
        outputs = outputs.replace("...", open_axes)
        summed = "".join(letter for letter in kernel if letter not in outputs)
        kept = "".join(letter for letter in inputs if letter in outputs)
        reason = None
        if {*inputs} & {*kernel} & {*outputs}:
            reason = f"its equation '{layer.equation}' has a kernel for each index of an axis"
        elif not kernel.startswith(summed) or not {*summed} <= {*inputs}:
            reason = (
                f"its equation '{layer.equation}' does not sum over the first axes of its kernel"
            )
        return cls(inputs, summed, kept, reason)

    def rows(self, inputs: Array, mask: Array | None) -> Array:
        """Return inputs as a matrix: one row for each product with the kernel, in float64.

        Args:
            inputs: The inputs.
            mask: Which of them count, of the shape of their first axes; `None` if all do.
        """
        values = inputs.astype(np.float64)
        if mask is not None and mask.shape == values.shape[: mask.ndim]:
            values *= mask.reshape(mask.shape + (1,) * (values.ndim - mask.ndim))
        arranged = np.einsum(f"{self.inputs}->{self.kept}{self.summed}", values)
        width = int(np.prod(arranged.shape[len(self.kept) :]))
        return arranged.reshape(-1, width)
