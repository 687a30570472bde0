"""Masks that Keras baked into a graph, and that no layer makes any more.

Keras writes the mask that a layer makes into the calls that use it. If the layer is then
replaced by one that makes no mask, or another one, those calls keep the old mask.
"""

from collections.abc import Iterator
from typing import Any

from ramet.graph import Call, Graph, Ref
from ramet.graph.tree import leaves
from ramet.masking import behavior
from ramet.masking.data import Event, Mask
from ramet.masking.flow import Flow
from ramet.masking.numbering import constant_of


def stale_maker(flow: Flow, event: Event) -> str | None:
    """Return the path of the layer that once made a mask argument, if that is stale.

    It is stale if plain operations compute it just as a masking layer above the call
    would, and no layer makes that mask any more.
    """
    number = event.mask.number
    if number is None or (number in flow.masks and _is_live(flow, flow.masks[number])):
        return None
    for call, maker in _makers_above(flow.graphs[event.prefix], event):
        source = _input_number(flow, event.prefix, call)
        if source is not None and _would_make(flow, maker, source, number):
            return f"{event.prefix}{call.name}"
    return None


def _is_live(flow: Flow, mask: Mask) -> bool:
    return any(behavior.makes_mask(flow.layers.get(source)) for source in mask.sources)


def _would_make(flow: Flow, maker: Any, source: int, number: int) -> bool:
    """Whether a mask has the form in which a layer computes it from a tensor."""
    if behavior.is_embedding(maker):
        compared = flow.numbers.operation(number, "NotEqual")
        return (
            compared is not None
            and compared.arguments[0] == source
            and constant_of(compared.arguments[1]) == 0
        )
    reduced = flow.numbers.operation(number, "Any")
    inner = None if reduced is None else reduced.arguments[0]
    compared = flow.numbers.operation(inner, "NotEqual") if isinstance(inner, int) else None
    return (
        compared is not None
        and compared.arguments[0] == source
        and constant_of(compared.arguments[1]) is not None
    )


def _input_number(flow: Flow, prefix: str, call: Call) -> int | None:
    first = next(iter(call.refs), None)
    return None if first is None else flow.numbers.places[prefix, first]


def _makers_above(graph: Graph, event: Event) -> Iterator[tuple[Call, Any]]:
    """Yield the masking layers on the data path above a call, in its own graph."""
    pending, seen = [*_data(event.layer, event.call)], set[str]()
    while pending:
        name = pending.pop().call
        if name in seen:
            continue
        seen.add(name)
        call = graph.calls[name]
        if call.layer is None:
            continue
        layer = graph.layers[call.layer].origin
        if behavior.makes_mask(layer):
            yield call, layer
        pending += _data(layer, call)


def _data(layer: Any, call: Call) -> Iterator[Ref]:
    for leaf in leaves(behavior.data_arguments(layer, call)):
        if isinstance(leaf, Ref):
            yield leaf
