"""A layer inserted after a tensor, or between a call and one of its arguments."""

from typing import TYPE_CHECKING, cast

from ramet.errors import GraphError
from ramet.graph.data import Edit, Gist, Layer, Ref
from ramet.graph.edits.arguments import argument_places, find_argument
from ramet.graph.edits.draft import Draft
from ramet.graph.edits.nested import edit_inside
from ramet.graph.edits.resolve import (
    LayerOrFunction,
    TensorFunction,
    described,
    passing_promise,
    resolve_at,
    with_free_name,
)
from ramet.graph.edits.splice import put
from ramet.graph.journal import with_entry
from ramet.graph.locate import descend, find_call, find_tensor, place_text

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def insert_after(graph: "Graph", place: "str | Ref", new: LayerOrFunction) -> "Graph":
    """Insert a layer after a tensor and reconnect its consumers."""
    models, inner, ref = find_tensor(graph, place)
    where = f"what follows '{place_text(place)}'"
    resolved = resolve_at(graph, new, _maker(inner, ref), where)
    edit, part = _insertion(graph, inner, resolved, ref, ("after", f"'{place_text(place)}'"))

    def change(target: "Graph") -> "Graph":
        draft = Draft(target, edit)
        (output,), added = put(draft, part, (ref,), {})
        draft.redirect({ref: output}, but=added)
        return draft.done()

    return with_entry(edit_inside(graph, models, edit, change), edit)


def insert_on(
    graph: "Graph", path: str, argument: "int | str | None", new: LayerOrFunction
) -> "Graph":
    """Insert a layer between one call and one of its arguments."""
    models, inner, name = descend(graph, path)
    call = find_call(inner, name)
    places = argument_places(call)
    if argument is None and len(places) != 1:
        message = (
            f"call '{path}' takes {len(places)} tensors; use insert_on to say which one gets "
            "the new layer"
        )
        raise GraphError(message)
    at = find_argument(call, 0 if argument is None else argument, path)
    ref = places[at]
    layer = inner.layers[cast("str", call.layer)]
    resolved = resolve_at(graph, new, layer, f"what precedes '{path}'")
    on = "" if argument is None else f", argument {argument!r}"
    edit, part = _insertion(graph, inner, resolved, ref, ("before", f"'{path}'{on}"))

    def change(target: "Graph") -> "Graph":
        draft = Draft(target, edit)
        (output,), _ = put(draft, part, (ref,), {})
        draft.set_argument(call.name, at, output)
        return draft.done()

    return with_entry(edit_inside(graph, models, edit, change), edit)


def _insertion(
    graph: "Graph",
    inner: "Graph",
    new: Layer | TensorFunction,
    ref: Ref,
    where: tuple[str, str],
) -> "tuple[Edit, Layer | Graph]":
    """Return the entry of an insertion, and what is inserted: a layer, or a traced function.

    Args:
        graph: The outermost graph.
        inner: The graph with the tensor.
        new: What is inserted.
        ref: The tensor.
        where: `after` or `before`, and the place.
    """
    side, place = where
    maker = _maker(inner, ref)
    kind = "" if maker is None or side == "before" else maker.kind
    if isinstance(new, TensorFunction):
        gist = Gist(f"insert {new.text} {side}", kind)
        edit = Edit(f"insert {new.text} {side} {place}", gist=gist)
        return edit, new.traced(inner, (ref,), {}, 1)
    new = with_free_name(inner, new)
    gist = Gist(f"insert {new.kind} {side}", kind)
    promise = passing_promise(graph, inner, new, ref)
    edit = Edit(f"insert {described(graph, new)} {side} {place}", gist=gist, promise=promise)
    return edit, new


def _maker(graph: "Graph", ref: Ref) -> Layer | None:
    key = graph.calls[ref.call].layer
    return None if key is None else graph.layers[key]
