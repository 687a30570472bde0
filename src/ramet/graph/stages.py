"""What graphs were before their edits: kept beside the journal, to prove what edits promise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ramet.graph.tree import Tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph
    from ramet.graph.data import Ref

_KEPT = 1 << 20
"""How many calls the graphs that are kept for one journal may have together: about 100 MB."""


@dataclass(frozen=True, slots=True)
class Zeros:
    """A part of one variable that is zero when some channels are masked."""

    layer: str
    """Path of the layer."""
    variable: str
    """The variable in its layer: `kernel`, `cell.recurrent_kernel`."""
    axis: int
    """The axis."""
    indices: tuple[int, ...]
    """Where it is zero."""


class Removed(Protocol):
    """Channels that an edit removed, and what the graph without them is to compute."""

    @property
    def graph(self) -> "Graph":
        """The graph that had them."""
        ...

    @property
    def exact(self) -> tuple[int, int]:
        """How many channels, of how many groups, are removed exactly."""
        ...

    @property
    def lossy(self) -> tuple[int, int]:
        """How many channels, of how many groups, are not."""
        ...

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why they are not."""
        ...

    def zeros(self, *, exact: bool) -> Sequence[Zeros]:
        """List what is zero when the channels are masked: all, or those removed exactly."""
        ...

    def without_exact(self) -> "Graph":
        """Return the graph without the channels that are removed exactly, and no others."""
        ...


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stage:
    """A graph as it was before an edit."""

    graph: "Graph"
    """The graph; the first of several that were joined."""
    cut: "Graph | None" = None
    """For a part: the graph that it was cut out of, in which nested models may be inlined."""
    starts: "Mapping[Ref, Ref] | None" = None
    """For a part: the tensors of that graph by the inputs of the part that they became."""
    ends: Tree = None
    """For a part: the tensors of that graph that it returns. For joined graphs: what is returned,
    as `Ref`s to the number of a graph and to one of its outputs; `None` if something new is."""
    joined: "tuple[Graph, ...]" = ()
    """The graphs that were joined to one."""
    in_turn: bool = False
    """Whether each of them is called on the outputs of the one before."""
    after: "Graph | None" = None
    """The graph after the edit, if that is not the one that the next edit starts from."""
    removed: tuple[Removed, ...] = ()
    """The channels that the edit removed, step by step; each step starts from what the one before
    leaves."""

    @property
    def is_plain(self) -> bool:
        """Whether the edit leaves the inputs what they are, and the source one."""
        return self.starts is None and not self.joined


Stages = tuple[Stage | None, ...]
"""The stages of the edits in a journal; `None` for one that is not kept."""


def with_stage(known: Stages, stage: Stage | None) -> Stages:
    """Return the stages of a journal with one more, or `None` if too many are kept."""
    if stage is None or _size([*known, stage]) > _KEPT:
        return (*known, None)
    return (*known, stage)


def _size(stages: Sequence[Stage | None]) -> int:
    known = [stage for stage in stages if stage is not None]
    later = [step.graph for stage in known for step in stage.removed[1:]]
    return sum(len(graph.calls) for graph in (*(stage.graph for stage in known), *later))
