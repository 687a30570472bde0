"""New layers, and the calls of whole graphs, taken into the draft of an edit."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

from ramet.graph.data import Call, Edit, Layer, Ref
from ramet.graph.edits.draft import UNKNOWN, Draft
from ramet.graph.edits.resolve import TensorFunction
from ramet.graph.names import unique_name
from ramet.graph.tree import Tree, leaves, map_tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def put(
    draft: Draft, new: "Layer | Graph", args: Tree, kwargs: Tree, count: int = 1
) -> tuple[list[Ref], set[str]]:
    """Add a new layer, or a traced function, on some tensors.

    Returns:
        Its outputs, and the names of its calls.
    """
    refs = [leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, Ref)]
    if isinstance(new, Layer):
        key = draft.add_layer(new)
        name = unique_name(key, draft.calls)
        specs = tuple(UNKNOWN for _ in range(count))
        draft.add_call(Call(name, key, args, kwargs, specs), after=_last(draft, refs))
        return [Ref(name, index) for index in range(count)], {name}
    starts = dict(zip(leaves(new.inputs), dict.fromkeys(refs), strict=True))
    moved = splice(draft, new, starts, lambda layer: _take_in(draft, layer))
    added = {ref.call for ref in moved.values()} - {ref.call for ref in refs}
    return [moved[ref] for ref in leaves(new.outputs)], added


def _take_in(draft: Draft, layer: Layer) -> str:
    return draft.add_or_find(dataclasses.replace(layer, brought=True))


def _last(draft: Draft, refs: Iterable[Ref]) -> str | None:
    """Return the last of the calls that compute some tensors."""
    order = {name: place for place, name in enumerate(draft.calls)}
    return max((ref.call for ref in refs), key=order.__getitem__, default=None)


def splice(
    draft: Draft,
    new: "Graph",
    starts: dict[Ref, Ref],
    take: Callable[[Layer], str],
    more: Callable[[Layer, Call], dict[str, Any]] = lambda _, __: {},
) -> dict[Ref, Ref]:
    """Add the calls of one graph to the draft of another.

    Args:
        draft: The graph that they are added to.
        new: The graph with the calls.
        starts: The tensors that replace its inputs. The calls come after the last of these.
        take: Adds a layer to the draft, and returns its key.
        more: Returns further keyword arguments for a call.

    Returns:
        The tensors of the draft, by those of the graph.
    """
    refs = dict(starts)

    def moved(leaf: Any) -> Any:
        return refs[leaf] if isinstance(leaf, Ref) else leaf

    after = _last(draft, starts.values())
    keys: dict[str, str] = {}
    for call in new.calls.values():
        if Ref(call.name) in refs:
            continue
        key = cast("str", call.layer)
        if key not in keys:
            keys[key] = take(new.layers[key])
        name = unique_name(keys[key], draft.calls)
        extra = more(new.layers[key], call)
        copied: Call = dataclasses.replace(
            call,
            name=name,
            layer=keys[key],
            args=map_tree(moved, call.args),
            kwargs={**map_tree(moved, call.kwargs), **extra},
            derived=call.derived - extra.keys(),
            outputs=tuple(dataclasses.replace(spec, mask=None) for spec in call.outputs),
        )
        draft.add_call(copied, after=after)
        after = name
        refs.update({Ref(call.name, i): Ref(name, i) for i in range(len(call.outputs))})
    return refs


def replace_call(graph: "Graph", name: str, function: TensorFunction, edit: Edit) -> "Graph":
    """Replace a call by a function of its arguments."""
    call = graph.calls[name]
    new = function.traced(graph, call.args, call.written, len(call.outputs))
    draft = Draft(graph, edit)
    aside = unique_name(f"{name}#gone", draft.calls)
    draft.rename_calls({name: aside})  # A new call may have its name.
    if not any(c.layer == call.layer for c in draft.calls.values() if c.name != aside):
        del draft.layers[cast("str", call.layer)]
    outputs, _ = put(draft, new, call.args, call.written)
    draft.redirect({Ref(aside, index): ref for index, ref in enumerate(outputs)})
    draft.forget({aside})
    return draft.done()
