"""The Keras layers that ramet puts into models. They are registered, so files with them load."""

from ramet.layers.adapted import Adapted, attach, detach
from ramet.layers.adapters import Adapters, is_quantized
from ramet.layers.entries import Entry, Target, Variant
from ramet.layers.kernels import (
    Kernel,
    dropout_obstacle,
    kernel_at,
    kernels_of,
    plain_class,
)

__all__ = [
    "Adapted",
    "Adapters",
    "Entry",
    "Kernel",
    "Target",
    "Variant",
    "attach",
    "detach",
    "dropout_obstacle",
    "is_quantized",
    "kernel_at",
    "kernels_of",
    "plain_class",
]
