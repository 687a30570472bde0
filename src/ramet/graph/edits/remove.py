"""A layer removed, and its consumers reconnected."""

from typing import TYPE_CHECKING, Any, cast

from ramet._arguments import check_depth
from ramet._words import Promise, weakest
from ramet.errors import GraphError
from ramet.graph.data import Call, Edit, Gist, Ref
from ramet.graph.edits.draft import Draft
from ramet.graph.edits.nested import edit_everywhere, edit_inside
from ramet.graph.edits.resolve import passing_promise
from ramet.graph.journal import with_entry
from ramet.graph.locate import (
    calls_of_layer,
    check_not_input,
    descend,
    find_layer,
    find_tensor_beside,
    named_call,
)
from ramet.graph.names import counted, shown
from ramet.graph.reach import written_calls
from ramet.graph.tree import leaves

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def remove(graph: "Graph", path: str, reconnect: Any = None) -> "Graph":
    """Remove a layer, and reconnect its consumers to its input, or to `reconnect`."""
    models, inner, name = descend(graph, path)
    one = named_call(inner, name)
    old = inner.layers[find_layer(inner, name) if one is None else cast("str", one.layer)]
    check_not_input(inner, old, "removed; use extract")
    check_depth(reconnect, "reconnect")
    instead = "" if reconnect is None else f", reconnecting {shown(reconnect)}"
    gist = Gist("remove", old.kind, instead)
    calls = calls_of_layer(inner, find_layer(inner, name)) if one is None else [one]
    promise: Promise = "changed"
    if reconnect is None:
        inputs = (ref for call in calls for ref in call.written_refs)
        promise = weakest(passing_promise(graph, inner, old, ref) for ref in inputs)
    edit = Edit(f"remove '{path}' ({old.kind}){instead}", gist=gist, promise=promise)
    detour = None
    if reconnect is not None:
        detour = [find_tensor_beside(graph, models, item) for item in leaves(reconnect)]

    def without(target: "Graph", calls: list[Call]) -> "Graph":
        mapping: dict[Ref, Ref] = {}
        for call in calls:
            check_mask_unused(target, call)
            for index, ref in enumerate(_detour(call, detour, path)):
                mapping[Ref(call.name, index)] = ref
        draft = Draft(target, edit)
        draft.redirect({ref: _end(ref, mapping) for ref in mapping})
        draft.forget({call.name for call in calls})
        return draft.done()

    if one is not None:
        changed = edit_inside(graph, models, edit, lambda target: without(target, [one]))
    elif reconnect is not None:
        changed = edit_inside(graph, models, edit, lambda target: without(target, calls))
    else:
        changed = edit_everywhere(
            graph, old, edit, lambda target, key: without(target, calls_of_layer(target, key))
        )
    return with_entry(changed, edit)


def _end(ref: Ref, mapping: dict[Ref, Ref]) -> Ref:
    """Follow the mapping to a tensor that stays."""
    met: set[Ref] = set()
    while ref in mapping and ref not in met:
        met.add(ref)
        ref = mapping[ref]
    return ref


def _detour(call: Call, reconnect: list[Ref] | None, path: str) -> list[Ref]:
    """Return, for each output of a removed call, the tensor that replaces it."""
    count = len(call.outputs)
    if reconnect is not None:
        if len(reconnect) != count:
            message = (
                f"'{path}' has {count} outputs, but reconnect names {len(reconnect)} tensors; name "
                "one for each"
            )
            raise GraphError(message)
        for ref in reconnect:
            if ref.call == call.name:
                message = f"'{path}' cannot be reconnected to itself; name another tensor"
                raise GraphError(message)
        return reconnect
    inputs = list(dict.fromkeys(call.written_refs))
    if len(inputs) != 1 or count != 1:
        message = (
            f"'{path}' has {counted(len(inputs), 'input tensor')} and "
            f"{counted(count, 'output')}, so it is unclear what its consumers should read instead; "
            "pass reconnect='<tensor>'"
        )
        raise GraphError(message)
    return inputs


def check_mask_unused(graph: "Graph", call: Call) -> None:
    """Check that no mask of a call that is removed is passed explicitly to another."""
    masks = {spec.mask for spec in call.outputs if isinstance(spec.mask, Ref)}
    masks -= {graph.calls[ref.call].outputs[ref.index].mask for ref in call.written_refs}
    for other in written_calls(graph) if masks else ():
        if masks.intersection(other.written_refs):
            message = (
                f"'{call.name}' of graph '{graph.name}' makes a mask that is passed to "
                f"'{other.name}'; rewire that argument of '{other.name}' before you remove "
                f"'{call.name}'"
            )
            raise GraphError(message)
