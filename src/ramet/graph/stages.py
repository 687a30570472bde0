"""What graphs were before their edits: kept beside the journal, to prove what edits promise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ramet.graph.tree import Tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph
    from ramet.graph.data import Ref

_KEPT = 1 << 20
"""How many calls the graphs that are kept for one journal may have together: about 100 MB."""


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
    return sum(len(stage.graph.calls) for stage in stages if stage is not None)
