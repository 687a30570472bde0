"""Dependencies between calls: what the author wrote, what depends on an edit, what is unused."""

import dataclasses
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from ramet.graph.data import Call, Layer, Ref
from ramet.graph.tree import leaves

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def written_calls(graph: "Graph") -> list[Call]:
    """List the calls that the outputs depend on, ignoring derived arguments, and the inputs.

    In the order of the graph. Costs O(calls).
    """
    needed = {ref.call for ref in leaves((graph.inputs, graph.outputs))}
    for call in reversed([*graph.calls.values()]):
        if call.name in needed:
            needed.update(ref.call for ref in call.written_refs)
    return [call for call in graph.calls.values() if call.name in needed]


def layers_of(calls: Iterable[Call]) -> list[str]:
    """List the layers and operations that some calls use, each once."""
    return [*dict.fromkeys(call.layer for call in calls if call.layer is not None)]


def written_layers(graph: "Graph") -> list[str]:
    """List the layers and operations that the author called, and the inputs.

    Operations that Keras added for masks are left out. `print(graph)` counts these layers.
    Costs O(calls).
    """
    return layers_of(written_calls(graph))


def mask_makers(graph: "Graph") -> dict[Ref, str]:
    """Return, for every mask, the first call whose output carries it, by name.

    Later calls only propagate it. Costs O(calls).
    """
    makers: dict[Ref, str] = {}
    for call in graph.calls.values():
        if call.masked:
            for spec in call.outputs:
                if isinstance(spec.mask, Ref):
                    makers.setdefault(spec.mask, call.name)
    return makers


def after_mask_makers(graph: "Graph", makers: dict[Ref, str]) -> list[Call]:
    """List the calls so that a call with an explicit mask comes after the one that carries it.

    The order stays as it is where that is impossible, since the carrier depends on the call.
    Costs O(calls) if no mask is passed explicitly.
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
    """Return the names of the calls that an edit changed, and of those that depend on them.

    Their specs are inferred again on build. Costs O(calls).
    """
    edited = {key for key, layer in graph.layers.items() if layer.edit is not None}
    return _at_or_below(graph, edited)


def retrained_calls(graph: "Graph") -> set[str]:
    """Return the names of the calls that may compute otherwise in training.

    These are the unsettled ones, those of layers that an edit froze or made trainable, or that
    hold such layers, and those that depend on them: a frozen BatchNormalization uses its averages.
    """
    flagged = {
        key for key, layer in graph.layers.items() if layer.edit is not None or _is_flagged(layer)
    }
    return _at_or_below(graph, flagged)


def _is_flagged(layer: Layer) -> bool:
    inside = () if layer.graph is None else layer.graph.walk()
    layers = [layer, *(each for visit in inside for each in visit.graph.layers.values())]
    return any(each.trainable is not None for each in layers)


def _at_or_below(graph: "Graph", layers: AbstractSet[str]) -> set[str]:
    """Return the names of the calls that are edited, or of some layers, and of those below."""
    found: set[str] = set()
    for call in graph.calls.values():
        edited = call.edit is not None or call.layer in layers
        if edited or any(ref.call in found for ref in call.written_refs):
            found.add(call.name)
    return found


def pruned(graph: "Graph") -> "Graph":
    """Return a graph without calls that neither outputs nor masks depend on.

    Costs O(calls). A graph without such calls is returned unchanged.
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
