"""The rules for everything that Keras has, by subject. Importing this package registers them."""

from ramet.profiling.formulas import (
    attention,
    convolutions,
    nothing,
    products,
    recurrent,
    wrappers,
)
from ramet.profiling.registry import macs_of

__all__ = ["attention", "convolutions", "macs_of", "nothing", "products", "recurrent", "wrappers"]
