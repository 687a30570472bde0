"""Kernels rounded so that a layer's results on its inputs change least.

All that is known of the inputs is their second moments, a matrix of inputs by inputs: the squared
error of the results is a quadratic form of the error of the kernel.
"""

from dataclasses import dataclass

import numpy as np

from ramet.graph.values import Array

_DAMPING = 0.01
"""What is added to the moments of each input, relative to their mean."""

_BLOCK = 128
"""How many inputs are rounded before all that follow make up for them."""

_LEAST, _MOST = -8, 7
"""The integers of int4."""


@dataclass(frozen=True)
class Grid:
    """What the weights of a kernel are rounded to, of the kernel's shape."""

    scale: Array
    """The step of each weight."""
    zero: Array
    """The integer that stands for zero."""

    def integers(self, weights: Array) -> Array:
        """Return weights as integers, each rounded by itself."""
        return np.clip(np.rint(weights / self.scale + self.zero), _LEAST, _MOST)

    def floats(self, integers: Array) -> Array:
        """Return what integers stand for."""
        return (integers - self.zero) * self.scale

    def at(self, rows: Array | slice) -> "Grid":
        """Return the grid of some rows."""
        return Grid(self.scale[rows], self.zero[rows])


def squared_error(error: Array, moments: Array) -> float:
    """Return the mean squared error of results, by the error of a kernel of inputs by outputs."""
    return float(np.sum(error * (moments @ error)))


def rounded_in_turn(weights: Array, grid: Grid, moments: Array) -> Array:
    """Return a kernel as integers; later inputs make up for what earlier ones are off (GPTQ).

    Inputs with the largest moments come first. Where that is not better than to round each weight
    by itself, that is returned. Takes O(inputs² (inputs + outputs)).

    Args:
        weights: The kernel, inputs by outputs, in float64.
        grid: What is rounded to.
        moments: The second moments of the inputs, in float64.
    """
    plain = grid.integers(weights)
    order = np.argsort(-np.diag(moments), kind="stable")
    factor = _factor(moments[np.ix_(order, order)])
    left, steps = weights[order], grid.at(order)
    integers = np.empty_like(left)
    for start in range(0, len(left), _BLOCK):
        stop = min(start + _BLOCK, len(left))
        errors = np.empty_like(left[start:stop])
        for row in range(start, stop):
            step = steps.at(slice(row, row + 1))
            integers[row] = step.integers(left[row : row + 1])[0]
            off = left[row] - step.floats(integers[row : row + 1])[0]
            errors[row - start] = off / factor[row, row]
            left[row + 1 : stop] -= np.outer(factor[row, row + 1 : stop], errors[row - start])
        left[stop:] -= factor[start:stop, stop:].T @ errors
    compensated = np.empty_like(integers)
    compensated[order] = integers
    both = (plain, compensated)
    return min(both, key=lambda each: squared_error(grid.floats(each) - weights, moments))


def _factor(moments: Array) -> Array:
    """Return the upper Cholesky factor of the inverse of moments, damped."""
    size = np.diag(moments)
    damped = moments + np.diag(np.where(size == 0, 1.0, _DAMPING * size.mean()))
    inverse = np.linalg.inv(damped)
    return np.linalg.cholesky((inverse + inverse.T) / 2).T
