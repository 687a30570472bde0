"""A whole block, replaced by one layer."""

import dataclasses
from typing import TYPE_CHECKING, Any

from ramet.errors import GraphError
from ramet.graph.draft import UNKNOWN, Draft, with_entry
from ramet.graph.locate import find_ref
from ramet.graph.names import unique_name
from ramet.graph.parts import Call, Edit, Ref, apart
from ramet.graph.tree import Tree, leaves, map_tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def replace_block(graph: "Graph", start: Tree, end: Tree, given: Any) -> "Graph":
    """Lets one layer stand for everything between some tensors and some others.

    It takes the first ones, as a list if there are several, and gives the others.
    """
    starts = [find_ref(graph, place) for place in leaves(start)]
    ends = [find_ref(graph, place) for place in leaves(end)]
    inside = _calls_between(graph, starts, ends)
    live = graph.live_origin()
    made = given
    if callable(given) and not isinstance(given, type) and not live.is_layer(given):
        made = given([live.current(graph.layers[key]) for key in _layers(graph, inside)])
    new = apart(live.layer(made, "what replaces the block"))
    shown = [" and ".join(f"'{ref.call}'" for ref in refs) for refs in (starts, ends)]
    edit = Edit(
        f"replace {len(inside)} calls between {shown[0]} and {shown[1]} by {new.kind} '{new.name}'"
    )
    draft = Draft(graph, edit)
    key = draft.add_layer(dataclasses.replace(new, edit=edit))
    name = unique_name(key, draft.calls)
    tree: Tree = map_tree(lambda place: find_ref(graph, place), start)
    outputs = tuple(UNKNOWN for _ in ends)
    last = max(starts, key=lambda ref: [*graph.calls].index(ref.call))
    draft.add_call(Call(name, key, (tree,), {}, outputs), after=last.call)
    draft.redirect({ref: Ref(name, index) for index, ref in enumerate(ends)}, but=name)
    draft.forget({call for call in inside if not _is_needed(draft, call, inside)})
    return with_entry(draft.done(), edit)


def _layers(graph: "Graph", calls: list[str]) -> list[str]:
    keys = {graph.calls[name].layer: None for name in calls}
    return [key for key in keys if key is not None]


def _calls_between(graph: "Graph", starts: list[Ref], ends: list[Ref]) -> list[str]:
    """Names the calls between tensors, in order.

    Raises:
        GraphError: If the end does not follow from the start alone, or what lies between
            is read from outside.
    """
    inside: set[str] = set()
    waiting = [ref for ref in ends if ref not in starts]
    while waiting:
        call = graph.calls[waiting.pop().call]
        if call.name not in inside:
            if not call.written_refs:
                message = (
                    f"'{ends[0].call}' of graph '{graph.name}' also depends on '{call.name}', "
                    "which the block does not start from; name it among the first tensors"
                )
                raise GraphError(message)
            inside.add(call.name)
            waiting += [ref for ref in call.written_refs if ref not in starts]
    for call in graph.calls.values():
        for ref in call.written_refs:
            if ref.call in inside and call.name not in inside and ref not in ends:
                message = (
                    f"'{ref.call}' lies inside the block, but '{call.name}' outside of it reads "
                    f"it; name '{ref.call}' among the last tensors, or rewire '{call.name}'"
                )
                raise GraphError(message)
    if not inside:
        message = f"nothing lies between these tensors of graph '{graph.name}'"
        raise GraphError(message)
    return [name for name in graph.calls if name in inside]


def _is_needed(draft: Draft, name: str, inside: list[str]) -> bool:
    """Tells whether a call inside a block is still read by what is left."""
    return any(ref.call == name for ref in leaves(draft.outputs)) or any(
        ref.call == name
        for call in draft.calls.values()
        if call.name not in inside
        for ref in call.written_refs
    )
