"""What a model costs, call by call.

`registry` holds one rule for each class of layers and operations, `formulas` the rules for
everything in Keras. `count` follows the sizes of tensors (`shapes`) through a graph, asks the
rules, and notes what is alive (`memory`). `counts` registers a rule for a class of your own.
"""

from ramet.profiling.registry import Called, UncountedError, counts
from ramet.profiling.tensors import Tensor

__all__ = ["Called", "Tensor", "UncountedError", "counts"]
