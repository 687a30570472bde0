"""Masks, what tensors carry, and what happens to masks at calls."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ramet.graph import Call

Shape = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask that a tensor carries."""

    sources: tuple[str, ...]
    """Paths of the calls that first made it; several where masks were merged."""
    number: int | None
    """Number of the mask tensor; `None` if it exists only when the model runs."""
    shape: Shape
    """Shape of the mask tensor."""


@dataclass(frozen=True, slots=True)
class LostMask:
    """A mask that a tensor would carry if a call above had not lost it."""

    mask: Mask
    """The mask."""
    at: str
    """Path of the call that lost it."""


@dataclass(frozen=True, slots=True)
class Carry:
    """What a tensor carries."""

    mask: Mask | None = None
    """The mask, if it has one."""
    lost: tuple[LostMask, ...] = ()
    """The masks that it would carry if none had been lost; empty if it has one."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to a mask at a call."""

    kind: str
    """`wanted`, `unfilled`, `mismatched` or `passed`."""
    path: str
    """Path of the call."""
    prefix: str
    """Path of the graph that the call is in, with a slash; empty for the outer one."""
    call: Call
    layer: Any
    """The live layer."""
    argument: str | None
    """Name of the mask argument; `None` for a mask that the output carries."""
    shape: Shape
    """Shape of the tensor that the mask belongs to."""
    mask: Mask
    """The mask: lost, carried or passed."""
    hidden: Mask | None = None
    """The mask that the tensor carries, where another one was passed."""
    at: str | None = None
    """Path of the call that lost the mask."""


def fits(mask: Shape, tensor: Shape) -> bool:
    """Whether a mask has the leading dimensions of a tensor, where both are known."""
    return len(mask) <= len(tensor) and all(
        size is None or other is None or size == other
        for size, other in zip(mask, tensor, strict=False)
    )


def merged(masks: Sequence[Mask], *, known: bool) -> Mask | None:
    """Return one mask for several; if it is not known how they merge, its sizes are unknown."""
    if not masks:
        return None
    if len(masks) == 1 and known:
        return masks[0]
    return Mask(sources_of(masks), None, (None,) * len(masks[0].shape))


def sources_of(masks: Sequence[Mask]) -> tuple[str, ...]:
    """List the calls that first made some masks, by path, each once."""
    return tuple(dict.fromkeys(source for mask in masks for source in mask.sources))
