"""What depends on what: calls that the author wrote, readers, what lies below an edit."""

import dataclasses
from typing import TYPE_CHECKING

from ramet.graph.parts import Call, Ref
from ramet.graph.tree import leaves

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def written_calls(graph: "Graph") -> list[Call]:
    """Lists the calls that the outputs need, derived arguments left out, and the inputs.

    In the order of the graph. Costs O(calls).
    """
    needed = {ref.call for ref in leaves((graph.inputs, graph.outputs))}
    for call in reversed([*graph.calls.values()]):
        if call.name in needed:
            needed.update(ref.call for ref in call.written_refs)
    return [call for call in graph.calls.values() if call.name in needed]


def mask_makers(graph: "Graph") -> dict[Ref, str]:
    """Return, for every mask, the first call whose output carries it, by name.

    Later calls only pass it on. Costs O(calls).
    """
    makers: dict[Ref, str] = {}
    for call in graph.calls.values():
        if call.masked:
            for spec in call.outputs:
                if isinstance(spec.mask, Ref):
                    makers.setdefault(spec.mask, call.name)
    return makers


def after_mask_makers(graph: "Graph", makers: dict[Ref, str]) -> list[Call]:
    """List the calls so that whoever reads a mask by hand comes after the call that carries it.

    Where that is impossible, since the carrier itself depends on the reader, the order
    stays. Costs O(calls) where nobody reads masks by hand.
    """
    calls = [*graph.calls.values()]
    readers = {
        call.name: [
            makers[ref] for ref in call.written_refs if makers.get(ref, call.name) != call.name
        ]
        for call in calls
    }
    if not any(readers.values()):
        return calls
    done: dict[str, Call] = {}
    waiting = calls
    while waiting:
        late: list[Call] = []
        for call in waiting:
            masks = [graph.calls[ref.call].outputs[ref.index].mask for ref in call.refs]
            needed = [ref.call for ref in (*call.refs, *masks) if isinstance(ref, Ref)]
            if all(name in done for name in (*needed, *readers[call.name])):
                done[call.name] = call
            else:
                late.append(call)
        if len(late) == len(waiting):
            return calls
        waiting = late
    return [*done.values()]


def unsettled_calls(graph: "Graph") -> set[str]:
    """Names the calls at or below an edit: their specs are inferred again on build.

    Costs O(calls).
    """
    found: set[str] = set()
    for call in graph.calls.values():
        layer = None if call.layer is None else graph.layers[call.layer]
        edited = call.edit is not None or (layer is not None and layer.edit is not None)
        if edited or any(ref.call in found for ref in call.written_refs):
            found.add(call.name)
    return found


def pruned(graph: "Graph") -> "Graph":
    """Leaves out calls that neither an output nor a mask on the way needs.

    Costs O(calls). A graph in which everything is needed is returned as it is.
    """
    needed = {ref.call for ref in leaves((graph.inputs, graph.outputs))}
    waiting = [*needed]
    while waiting:
        call = graph.calls[waiting.pop()]
        refs = [*call.refs, *(spec.mask for spec in call.outputs if isinstance(spec.mask, Ref))]
        for ref in refs:
            if ref.call not in needed:
                needed.add(ref.call)
                waiting.append(ref.call)
    if len(needed) == len(graph.calls):
        return graph
    calls = {name: call for name, call in graph.calls.items() if name in needed}
    used = {call.layer for call in calls.values()}
    layers = {key: layer for key, layer in graph.layers.items() if key in used}
    return dataclasses.replace(graph, calls=calls, layers=layers)
