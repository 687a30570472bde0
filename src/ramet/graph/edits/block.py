"""A block of calls replaced by one layer or function."""

from typing import TYPE_CHECKING

from ramet.errors import GraphError, OptionError
from ramet.graph.data import Edit, Ref
from ramet.graph.edits.draft import Draft
from ramet.graph.edits.nested import edit_inside
from ramet.graph.edits.resolve import LayerOrFunction, TensorFunction, resolve
from ramet.graph.edits.splice import put
from ramet.graph.journal import with_entry
from ramet.graph.locate import find_tensor, place_text
from ramet.graph.tree import Tree, leaves, map_tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def replace_block(graph: "Graph", start: Tree, end: Tree, new: LayerOrFunction) -> "Graph":
    """Replace all calls between some tensors and some others by one layer or function.

    Its inputs are the first tensors, as a list if there are several; its outputs replace the
    others.
    """
    models, inner, starts, ends = _ends(graph, start, end)
    inside = _calls_between(inner, starts, ends)
    live = graph.live_origin()
    resolved = resolve(
        graph,
        new,
        lambda: [live.current(inner.layers[key]) for key in _layers(inner, inside)],
        "what replaces the block",
    )
    prefix = "".join(f"{key}/" for key in models)
    shown = [" and ".join(f"'{prefix}{ref.call}'" for ref in refs) for refs in (starts, ends)]
    is_function = isinstance(resolved, TensorFunction)
    by = resolved.text if is_function else f"{resolved.kind} '{resolved.name}'"
    edit = Edit(f"replace {len(inside)} calls between {shown[0]} and {shown[1]} by {by}")
    rest = iter(starts)
    tree = map_tree(lambda _: next(rest), start)
    part = resolved.traced(inner, (tree,), {}, len(ends)) if is_function else resolved

    def change(target: "Graph") -> "Graph":
        draft = Draft(target, edit)
        outside = {call.layer for call in target.calls.values() if call.name not in inside}
        for key in _layers(target, inside):
            if key not in outside:
                del draft.layers[key]
        outputs, added = put(draft, part, (tree,), {}, len(ends))
        draft.redirect(dict(zip(ends, outputs, strict=True)), but=added)
        draft.forget(set(inside))
        return draft.done()

    return with_entry(edit_inside(graph, models, edit, change), edit)


def _ends(
    graph: "Graph", start: Tree, end: Tree
) -> "tuple[tuple[str, ...], Graph, list[Ref], list[Ref]]":
    """Return the keys of the models around a block, its graph, and the tensors at both ends."""
    places = [*leaves(start)], [*leaves(end)]
    tensors = [[find_tensor(graph, place) for place in side] for side in places]
    both = [tensor for side in tensors for tensor in side]
    if not all(tensors):
        message = "a block needs a tensor at either end; name at least one for each"
        raise OptionError(message)
    models, inner, _ = both[0]
    for place, (_, there, _) in zip([*places[0], *places[1]], both, strict=True):
        if there is not inner:
            message = (
                f"a block lies in one graph, but '{place_text(place)}' is in '{there.name}' and "
                f"'{place_text(places[0][0])}' in '{inner.name}'; flatten the nested models first"
            )
            raise GraphError(message)
    starts, ends = ([ref for _, _, ref in side] for side in tensors)
    return models, inner, starts, ends


def _layers(graph: "Graph", calls: list[str]) -> list[str]:
    keys = {graph.calls[name].layer: None for name in calls}
    return [key for key in keys if key is not None]


def _calls_between(graph: "Graph", starts: list[Ref], ends: list[Ref]) -> list[str]:
    """Return the names of the calls between tensors, in order.

    Raises:
        GraphError: If the end depends on other tensors than the start, or a tensor inside is
            used outside.
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
    for ref in leaves(graph.outputs):
        if ref.call in inside and ref not in ends:
            message = (
                f"'{ref.call}' lies inside the block, but is an output of '{graph.name}'; name it "
                "among the last tensors"
            )
            raise GraphError(message)
    if not inside:
        message = f"nothing lies between these tensors of graph '{graph.name}'"
        raise GraphError(message)
    return [name for name in graph.calls if name in inside]
