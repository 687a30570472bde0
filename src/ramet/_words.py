"""The words that options accept, as types and as tuples."""

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

Weights: TypeAlias = Literal["copy", "share", "fresh"]
"""Whether the variables of a new model are copies, shared with the source, or initialized."""

WEIGHTS: tuple[str, ...] = get_args(Weights)

Policy: TypeAlias = Literal["fit", "grow", "tile", "fresh"]
"""How a layer takes over the weights of the layer that it replaces.

`fit`: where role and shape agree. `grow`: also the common part of weights of other shapes.
`tile`: the same, with the rest filled by repetition. `fresh`: not at all.
"""

POLICIES: tuple[str, ...] = get_args(Policy)

Promise: TypeAlias = Literal["exact", "equal", "inference-equal", "changed"]
"""What an edit promises of the new model, from the strongest to the weakest.

`exact`: the same bits. `equal`: the same function, up to rounding. `inference-equal`: the same
function when called for inference; training differs. `changed`: another function.
"""

PROMISES: tuple[Promise, ...] = get_args(Promise)

ADAPTED = "ramet>Adapted"
"""The name that files have for a layer with adapters: the only class that ramet brings."""


def weakest(promises: Iterable[Promise]) -> Promise:
    """Return what several edits promise together: the weakest of their promises.

    Without any edit, nothing changes: `exact`.
    """
    known = {*promises}
    for promise in reversed(PROMISES):
        if promise in known:
            return promise
    return "exact"
