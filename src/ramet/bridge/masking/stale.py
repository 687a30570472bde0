"""Masks that were baked into a graph when a layer above still made them.

Keras writes the mask that a layer makes into the calls that read it. If the layer is
then exchanged for one that makes no mask, or another one, those calls keep the old.
"""

from collections.abc import Iterator
from typing import Any

from ramet.bridge.masking import layers as masking
from ramet.bridge.masking.flow import Flow
from ramet.bridge.masking.numbering import constant_of
from ramet.bridge.masking.parts import Event, Mask
from ramet.graph import Call, Graph, Ref
from ramet.graph.tree import leaves


def stale_maker(flow: Flow, event: Event) -> str | None:
    """Returns the path of the layer that would have made a mask which the author passed.

    It is stale if plain operations compute it just as a masking layer above the reader
    would, and no layer makes that mask any more.
    """
    number = event.mask.number
    if number is None or (number in flow.made and _is_live(flow, flow.made[number])):
        return None
    for call, maker in _makers_above(flow.graphs[event.prefix], event):
        made_from = _input_number(flow, event.prefix, call)
        if made_from is not None and _would_make(flow, maker, made_from, number):
            return f"{event.prefix}{call.name}"
    return None


def _is_live(flow: Flow, mask: Mask) -> bool:
    return any(masking.makes_mask(flow.layers.get(source)) for source in mask.sources)


def _would_make(flow: Flow, maker: Any, made_from: int, number: int) -> bool:
    """Tells whether a mask has the form in which such a layer makes it from a tensor."""
    if masking.is_embedding(maker):
        compared = flow.numbers.operation(number, "NotEqual")
        return (
            compared is not None
            and compared.arguments[0] == made_from
            and constant_of(compared.arguments[1]) == 0
        )
    reduced = flow.numbers.operation(number, "Any")
    inner = None if reduced is None else reduced.arguments[0]
    compared = flow.numbers.operation(inner, "NotEqual") if isinstance(inner, int) else None
    return (
        compared is not None
        and compared.arguments[0] == made_from
        and constant_of(compared.arguments[1]) is not None
    )


def _input_number(flow: Flow, prefix: str, call: Call) -> int | None:
    first = next(iter(call.refs), None)
    return None if first is None else flow.numbers.places[prefix, first]


def _makers_above(graph: Graph, event: Event) -> Iterator[tuple[Call, Any]]:
    """Yields the masking layers on the data path above a call, in its own graph."""
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
        if masking.makes_mask(layer):
            yield call, layer
        pending += _data(layer, call)


def _data(layer: Any, call: Call) -> Iterator[Ref]:
    for leaf in leaves(masking.data_arguments(layer, call)):
        if isinstance(leaf, Ref):
            yield leaf
