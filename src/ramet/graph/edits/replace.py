"""A layer replaced by another, or re-created with other constructor arguments."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from ramet._arguments import check_depth, check_word
from ramet._words import POLICIES, Promise, weakest
from ramet.errors import OptionError
from ramet.graph.data import Call, Edit, Gist, Layer
from ramet.graph.edits.draft import UNKNOWN, Draft
from ramet.graph.edits.freeze import flagged, layer_at
from ramet.graph.edits.nested import edit_everywhere, edit_inside, placed
from ramet.graph.edits.remove import check_mask_unused
from ramet.graph.edits.resolve import (
    LayerOrFunction,
    TensorFunction,
    described,
    passing_promise,
    resolve_at,
    with_free_name,
)
from ramet.graph.edits.splice import replace_call
from ramet.graph.journal import with_entry
from ramet.graph.locate import (
    calls_of_layer,
    check_not_input,
    descend,
    find_layer,
    named_call,
)
from ramet.graph.names import shown, unique_name

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def replace_layer(graph: "Graph", path: str, new: LayerOrFunction, weights: str) -> "Graph":
    """Replace a layer in all its calls; `name#2` replaces it in that call only."""
    check_policy(weights)
    models, inner, name = descend(graph, path)
    one = named_call(inner, name)
    key = find_layer(inner, name) if one is None else cast("str", one.layer)
    old = inner.layers[key]
    check_not_input(inner, old, "replaced; use with_inputs")
    whole = one is None or len(calls_of_layer(inner, key)) == 1
    resolved = resolve_at(graph, new, old, f"what replaces '{path}'")
    if isinstance(resolved, TensorFunction):
        return _replace_by_function(graph, path, resolved, old, one)
    layer = with_free_name(inner, resolved, freed=key if whole else None)
    thawed = ", which trains as the frozen one did not" if _trains_instead(old, layer) else ""
    edit = Edit(
        f"replace '{path}' ({old.kind}) with {described(graph, layer)}{thawed}",
        gist=Gist("replace", old.kind, f" with {layer.kind}{thawed}"),
        promise=_promise(graph, inner, calls_of_layer(inner, key) if one is None else [one], layer),
    )
    if layer.is_complete:
        weights = "fresh"  # It brings its own.
    layer = dataclasses.replace(
        layer,
        inherits=_weights_of(old),
        place=(inner, key),
        earlier=_earlier(inner, key),
        weights=weights,
        edit=edit,
    )
    if one is not None:
        changed = edit_inside(
            graph, models, edit, lambda target: _put(target, key, [one.name], layer, edit)
        )
    else:

        def change(target: "Graph", old_key: str) -> "Graph":
            calls = [call.name for call in calls_of_layer(target, old_key)]
            return _put(target, old_key, calls, layer, edit)

        changed = edit_everywhere(graph, old, edit, change)
    return with_entry(changed, edit)


def _promise(graph: "Graph", inner: "Graph", calls: list[Call], new: Layer) -> Promise:
    """Return what another layer in some calls promises: not much, unless both do nothing."""
    old = inner.layers[calls[0].layer or ""]
    if any(len(call.written_refs) != 1 or len(call.outputs) != 1 for call in calls):
        return "changed"
    return weakest(
        passing_promise(graph, inner, layer, call.written_refs[0])
        for call in calls
        for layer in (old, new)
    )


def _replace_by_function(
    graph: "Graph", path: str, new: TensorFunction, old: Layer, one: Call | None
) -> "Graph":
    """Replace a layer, or one call of it, by a function of tensors."""
    gist = Gist("replace", old.kind, f" with {new.text}")
    edit = Edit(f"replace '{path}' ({old.kind}) with {new.text}", gist=gist)

    def replaced(target: "Graph", call: Call) -> "Graph":
        check_mask_unused(target, call)
        return replace_call(target, call.name, new, edit)

    def change(target: "Graph", key: str) -> "Graph":
        for call in calls_of_layer(target, key):
            target = replaced(target, target.calls[call.name])
        return target

    if one is not None:
        models, _, _ = descend(graph, path)
        changed = edit_inside(graph, models, edit, lambda target: replaced(target, one))
    else:
        changed = edit_everywhere(graph, old, edit, change)
    return with_entry(changed, edit)


def _put(graph: "Graph", key: str, calls: list[str], new: Layer, edit: Edit) -> "Graph":
    """Turn some calls of a layer into calls of another."""
    draft = Draft(graph, edit)
    whole = len(calls) == len(calls_of_layer(graph, key))
    if whole:
        del draft.layers[key]
    added = draft.add_layer(new)
    names: dict[str, str] = {}
    for name in calls:
        taken = (draft.calls.keys() - calls) | set(names.values())
        names[name] = unique_name(added, taken)
    draft.rename_calls(names)
    for name in names.values():
        specs = tuple(UNKNOWN for _ in draft.calls[name].outputs)
        draft.change_call(name, layer=added, outputs=specs, origin=None)
    return draft.done()


def configure_layer(graph: "Graph", path: str, changes: Mapping[str, Any], weights: str) -> "Graph":
    """Change constructor arguments of a layer."""
    check_policy(weights)
    _, inner, name = descend(graph, path)
    old = inner.layers[find_layer(inner, name)]
    check_not_input(inner, old, "configured; use with_inputs")
    if not changes and weights == "fit":
        message = f"no arguments for '{path}'; name those that are to change, such as units=3"
        raise OptionError(message)
    for key, value in changes.items():
        check_depth(value, f"{key} of '{path}'")
    trainable = changes.get("trainable")
    rest = {key: value for key, value in changes.items() if key != "trainable"}
    graph.live_origin().check_changes(old, changes)
    written = ", ".join(f"{key}={shown(value)}" for key, value in changes.items())
    kept = "" if weights == "fit" else f", weights={weights!r}"
    how = f": {written or 're-created'}{kept}"
    edit = Edit(
        f"configure '{path}' ({old.kind}){how}",
        gist=Gist("configure", old.kind, how),
        promise=_promise_of_changes(graph, old, changes, weights),
    )
    if trainable is not None:
        graph = flagged(graph, [old], trainable=trainable)
    if not rest and weights == "fit":
        return with_entry(graph, edit)
    old = layer_at(graph, path)

    def change(target: "Graph", key: str) -> "Graph":
        record = target.layers[key]
        merged = MappingProxyType({**(record.changes or {}), **rest})
        new = dataclasses.replace(
            record,
            changes=merged,
            weights=weights,
            recipe=None,
            place=(target, key),
            earlier=_earlier(target, key),
            edit=edit,
        )
        return target.changed(layers=target.parts("layers") | {key: new})

    return with_entry(edit_everywhere(graph, old, edit, change), edit)


def _promise_of_changes(
    graph: "Graph", old: Layer, changes: Mapping[str, Any], weights: str
) -> Promise:
    if not changes or weights != "fit":
        return "changed"
    return graph.live_origin().promise_of_changes(old, changes)


def check_policy(weights: str) -> None:
    """Check that a policy for taking over weights exists.

    Raises:
        OptionError: If it does not.
    """
    check_word(weights, "weights", POLICIES)


def _trains_instead(old: Layer, new: Layer) -> bool:
    """Whether a trainable layer replaces a frozen one with weights."""
    flags = [
        layer.facts.trainable if layer.trainable is None else layer.trainable
        for layer in (old, new)
    ]
    return flags == [False, True] and old.facts.has_weights


def _earlier(graph: "Graph", key: str) -> Layer | None:
    """Return the record of a layer before an edit, if its weights are only known on build."""
    return placed(graph, key) if graph.layers[key].is_changed else None


def _weights_of(old: Layer) -> Any:
    """Return the live layer whose weights the replacement of a layer takes over."""
    fresh = old.inherits is not None and not old.facts.built
    return old.inherits if fresh else old.origin
