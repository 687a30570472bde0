"""A graph cut into stages, each of which outputs what the next one takes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ramet.graph.data import Call, Edit, Ref
from ramet.graph.edits.cut import extract
from ramet.graph.edits.inline import flatten
from ramet.graph.journal import Journal
from ramet.graph.names import listed
from ramet.graph.reach import written_calls
from ramet.graph.tree import Tree, leaves

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def ready_to_cut(graph: "Graph") -> "Graph":
    """Return a graph in which the masks of all tensors are recorded, nested models inlined if not.

    Tensors get the masks that come out of nested models only at run time.
    """
    live = graph.live_origin()
    nested = any(layer.graph is not None for layer in graph.layers.values())
    return live.settled(flatten(graph, None)) if nested and live.hides_masks(graph) else graph


def computing_calls(graph: "Graph") -> list[Call]:
    """List the calls that the author wrote, without inputs, in an order that can be computed."""
    return [call for call in written_calls(graph) if not _is_input(graph, call)]


def frontiers(graph: "Graph") -> list[list[Ref]]:
    """Return the tensors that cross each place between two calls, and are needed below it.

    The first place is before all calls. What is crossed includes inputs and outputs of the model.
    Costs O(calls) and the sum of what crosses.
    """
    calls = computing_calls(graph)
    last: dict[Ref, int] = {}
    for number, call in enumerate(calls):
        last.update(dict.fromkeys(call.written_refs, number))
    last.update({leaf: len(calls) for leaf in leaves(graph.outputs) if isinstance(leaf, Ref)})
    alive = {leaf: None for leaf in leaves(graph.inputs) if leaf in last}
    crossing = [[*alive]]
    for number, call in enumerate(calls):
        for ref in call.written_refs:
            if last[ref] == number:
                alive.pop(ref, None)
        for index in range(len(call.outputs)):
            if last.get(Ref(call.name, index), -1) > number:
                alive[Ref(call.name, index)] = None
        crossing.append([*alive])
    return crossing


def cut_at(graph: "Graph", places: Sequence[int]) -> "tuple[Graph, ...]":
    """Cut a graph into stages.

    Args:
        graph: A graph that is ready to be cut.
        places: Before which calls to cut, in order, none twice.
    """
    crossing, calls = frontiers(graph), computing_calls(graph)
    stages: list[Graph] = []
    outputs: Tree = None
    ends = [*places, len(calls)]
    for number in reversed(range(len(ends))):
        inputs = None if not number else crossing[ends[number - 1]]
        several = inputs is not None and len(inputs) > 1
        stage = extract(graph, inputs, outputs, by_name=several)
        first = calls[ends[number - 1] if number else 0].name
        text = (
            f"stage {number + 1} of {len(ends)}: from '{first}' to '{calls[ends[number] - 1].name}'"
        )
        stages.append(_with_text(graph, stage, text))
        if inputs is not None:
            outputs = _named(graph, stage, inputs)
    stages.reverse()
    return tuple(map(_with_notes, stages, _shared(stages)))


def _named(graph: "Graph", stage: "Graph", refs: list[Ref]) -> Tree:
    """Return tensors and their masks by the names of a stage's inputs; one alone without name."""
    specs = [graph.calls[ref.call].outputs[ref.index] for ref in refs]
    tensors = [*refs, *(spec.mask for spec in specs if isinstance(spec.mask, Ref))]
    names = [ref.call for ref in leaves(stage.inputs)]
    return refs[0] if len(tensors) == 1 else dict(zip(names, tensors, strict=True))


def _shared(stages: "Sequence[Graph]") -> list[list[str]]:
    """Return for each stage the layers with weights that it calls and another stage calls too."""
    found = [
        {layer.identity: key for key, layer in stage.layers.items() if layer.facts.has_weights}
        for stage in stages
    ]
    return [
        [key for identity, key in own.items() if sum(identity in each for each in found) > 1]
        for own in found
    ]


def _with_text(graph: "Graph", stage: "Graph", text: str) -> "Graph":
    edit = stage.journal[-1]
    entry = Edit(text, promise=edit.promise)
    return stage.changed(journal=Journal.of((*graph.journal, entry), stage.journal.notes))


def _with_notes(stage: "Graph", shared: list[str]) -> "Graph":
    if not shared:
        return stage
    note = (
        f"{listed(shared)} of graph '{stage.name}' is called in several stages, each of which gets "
        "weights of its own; build them with weights='share' to keep them tied"
    )
    journal = Journal.of(tuple(stage.journal), (*stage.journal.notes, note))
    return stage.changed(journal=journal)


def _is_input(graph: "Graph", call: Call) -> bool:
    return call.layer is None or graph.layers[call.layer].is_input
