"""How channels flow through Keras's own layers and operations: one rule for each class."""

from ramet.compress.channels.rules import (
    attention,
    making,
    normalizing,
    passing,
    rearranging,
    recurrent,
    reshaping,
    tensors,
)

__all__ = [
    "attention",
    "making",
    "normalizing",
    "passing",
    "rearranging",
    "recurrent",
    "reshaping",
    "tensors",
]
