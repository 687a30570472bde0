"""The arithmetic of adapters: what the factors of one add to a kernel."""

from dataclasses import dataclass
from typing import Any

from keras import ops

from ramet.layers.entries import Entry, Target


@dataclass(frozen=True)
class Factors:
    """The variables of one adapter for one kernel."""

    down: Any
    """The first factor: from what a sum runs over to the rank."""
    up: Any
    """The second factor: from the rank to the outputs; zero at the start."""
    length: Any = None
    """The lengths of the kernel's columns, for DoRA."""


def loss(kernel: Any, entry: Entry, target: Target, factors: Factors, weight: Any) -> Any:
    """Return what an adapter takes away from a kernel: minus what it adds.

    The kernel less a difference of zero has the bits of the kernel, negative zeros too; the
    kernel plus zero need not.
    """
    down, up = (ops.convert_to_tensor(each) for each in (factors.down, factors.up))
    if factors.length is None:
        return update(target, down, up * (-entry.scale(target) * weight))
    whole = kernel + update(target, down, up * entry.scale(target))
    norms = ops.sqrt(ops.sum(ops.square(whole), axis=target.ins, keepdims=True))
    length = ops.reshape(ops.convert_to_tensor(factors.length), norms.shape)
    return weight * (kernel - whole * (length / ops.stop_gradient(norms)))


def update(target: Target, down: Any, up: Any) -> Any:
    """Return the product of two factors in the layout of a kernel."""
    order = (*target.ins, *target.outs)
    product = ops.reshape(ops.matmul(down, up), [target.shape[axis] for axis in order])
    if order == tuple(range(len(order))):
        return product
    return ops.transpose(product, [order.index(axis) for axis in range(len(order))])


def lengths(target: Target, kernel: Any) -> Any:
    """Return the lengths of the columns of a kernel, in the order of its outputs."""
    norms = ops.sqrt(ops.sum(ops.square(ops.convert_to_tensor(kernel)), axis=target.ins))
    return ops.reshape(norms, (-1,))
