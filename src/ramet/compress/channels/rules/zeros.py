"""Which functions keep zeros, so that a masked channel stays masked."""

from collections.abc import Callable
from typing import Any

from ramet.backends import is_of_keras
from ramet.compress.channels.site import Site, Tensor

_KEEPING = (
    "relu relu6 leaky_relu elu selu gelu silu swish tanh linear softsign hard_silu hard_swish mish "
    "celu tanh_shrink hard_tanh soft_shrink hard_shrink"
)
_CHANGING = (
    "sigmoid softplus hard_sigmoid exponential log_sigmoid squareplus sparse_plus sparse_sigmoid "
    "threshold"
)

KEEPING = frozenset(_KEEPING.split())
"""Functions of single numbers that are zero at zero."""

CHANGING = frozenset(_CHANGING.split())
"""Functions of single numbers that may be something else at zero."""

MIXING = frozenset(["softmax", "log_softmax", "sparsemax"])
"""Functions along the last axis."""


def activated(site: Site, tensor: Tensor, function: Callable[..., Any] | None) -> Tensor | None:
    """Return a tensor after an activation; `None` if the function is not known."""
    if function is None:
        return tensor
    name = getattr(function, "__name__", "")
    if not is_of_keras(function):
        return None
    if name in KEEPING:
        return tensor
    if name in CHANGING:
        return site.all_nonzero(tensor, f"a channel is not zero after the {name} of {site.name}")
    if name in MIXING:
        return normalized(site, tensor, -1, name)
    return None


def normalized(site: Site, tensor: Tensor, axis: int, name: str) -> Tensor:
    """Return a tensor after something that divides by a sum along an axis."""
    if tensor:
        site.lose(tensor[axis], f"the {name} of {site.name} goes over all channels")
    return site.all_nonzero(tensor, f"a channel is not zero after the {name} of {site.name}")
