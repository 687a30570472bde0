"""The edits of a graph one by one, with the graphs before and after each."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ramet.graph import Graph
from ramet.graph.data import Edit
from ramet.graph.stages import Stage, Stages
from ramet.tracing.origin import live_of


@dataclass(frozen=True, slots=True)
class Span:
    """One edit of a journal, or several that follow each other."""

    numbers: tuple[int, ...]
    """Their numbers in the journal, from 1."""
    edits: tuple[Edit, ...]
    """The edits."""
    stage: Stage | None
    """The graph before the first of them; `None` if it is not known."""
    after: Graph
    """The graph after the last of them."""
    stages: Stages = ()
    """The graphs before each of them."""
    has_cut: bool = False
    """Whether one of them, but not the only one, starts from other tensors."""


def spans(graph: Graph, can_build: Callable[[Graph], bool]) -> Iterator[Span]:
    """Yield the edits of a graph, those together between which no graph is kept or can be built.

    Args:
        graph: The edited graph.
        can_build: Whether a graph between two edits can be built.
    """
    journal, stages, first = graph.journal, graph.journal.stages, 0
    for number, stage in enumerate(stages, 1):
        after = graph if number == len(journal) else _next(stages, number)
        ends = number == len(journal)
        if stage is not None and stage.after is not None:
            after, ends = stage.after, True
        if after is None or not (ends or can_build(after)):
            continue
        yield _span(graph, first, number, after)
        first = number


def whole_span(graph: Graph) -> Span:
    """Return all edits of a graph, between its source and what it builds."""
    return _span(graph, 0, len(graph.journal), graph)


def _next(stages: tuple[Stage | None, ...], number: int) -> Graph | None:
    stage = stages[number]
    return None if stage is None else stage.graph


def _span(graph: Graph, first: int, last: int, after: Graph) -> Span:
    stages = graph.journal.stages[first:last]
    start = stages[0] if stages else None
    if start is None and not first:
        start = _source(graph)
    several = len(stages) > 1
    has_cut = several and any(each is not None and not each.is_plain for each in stages)
    numbers = tuple(range(first + 1, last + 1))
    return Span(numbers, tuple(graph.journal[first:last]), start, after, stages, has_cut)


def _source(graph: Graph) -> Stage | None:
    source = live_of(graph).graph
    return None if source is None else Stage(source)
