"""Edits: each takes a graph and gives a new, checked one with a line in its journal."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from ramet.errors import GraphError, OptionError
from ramet.graph.draft import UNKNOWN, Draft, with_entry
from ramet.graph.freeze import flagged, layer_at
from ramet.graph.given import Given, TensorFunction, put, replace_call, resolve
from ramet.graph.locate import (
    calls_of_layer,
    check_not_input,
    descend,
    find_call,
    find_layer,
    find_tensor,
    find_tensor_beside,
    named_call,
    place_text,
)
from ramet.graph.names import is_automatic, next_free, shown, unique_name
from ramet.graph.nested import edit_everywhere, edit_inside
from ramet.graph.parts import POLICIES, Call, Edit, Layer, Ref
from ramet.graph.remove import check_mask_unused

if TYPE_CHECKING:
    from ramet.graph.core import Graph

Place: TypeAlias = tuple[Any, ...]
"""Where a call takes a tensor: a position or keyword, and steps into nested structures."""


def replace_layer(graph: "Graph", path: str, given: Given, weights: str) -> "Graph":
    """Puts a layer in the place of another, in all its calls; of `name#2`, in that one."""
    check_policy(weights)
    models, inner, name = descend(graph, path)
    one = named_call(inner, name)
    key = find_layer(inner, name) if one is None else cast("str", one.layer)
    old = inner.layers[key]
    check_not_input(inner, old, "replaced; use with_inputs")
    whole = one is None or len(calls_of_layer(inner, key)) == 1
    new = _resolved(graph, given, old, f"what replaces '{path}'")
    if isinstance(new, TensorFunction):
        return _replace_by_function(graph, path, new, old, one)
    new = _with_free_name(inner, new, freed=key if whole else None)
    thawed = ", which trains as the frozen one did not" if _trains_instead(old, new) else ""
    edit = Edit(f"replace '{path}' ({old.kind}) by {_described(graph, new)}{thawed}")
    if new.is_complete:
        weights = "fresh"  # It brings its own.
    new = dataclasses.replace(
        new,
        inherits=_weights_of(old),
        place=(inner, key),
        earlier=_earlier(inner, key),
        weights=weights,
        edit=edit,
    )
    if one is not None:
        changed = edit_inside(
            graph, models, edit, lambda target: _put(target, key, [one.name], new, edit)
        )
    else:

        def change(target: "Graph", found: str) -> "Graph":
            calls = [call.name for call in calls_of_layer(target, found)]
            return _put(target, found, calls, new, edit)

        changed = edit_everywhere(graph, old, edit, change)
    return with_entry(changed, edit)


def _replace_by_function(
    graph: "Graph", path: str, new: TensorFunction, old: Layer, one: Call | None
) -> "Graph":
    """Puts what a function makes of tensors in the place of a layer, or of one call of it."""
    edit = Edit(f"replace '{path}' ({old.kind}) by {new.text}")

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
    """Lets some calls of a layer be calls of another."""
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
    """Gives a layer other constructor arguments."""
    check_policy(weights)
    _, inner, name = descend(graph, path)
    old = inner.layers[find_layer(inner, name)]
    check_not_input(inner, old, "configured; use with_inputs")
    if not changes and weights == "fit":
        message = f"no arguments for '{path}'; name those that are to change, such as units=3"
        raise OptionError(message)
    trainable = changes.get("trainable")
    rest = {key: value for key, value in changes.items() if key != "trainable"}
    graph.live_origin().check_changes(old, changes)
    written = ", ".join(f"{key}={shown(value)}" for key, value in changes.items())
    kept = "" if weights == "fit" else f", weights={weights!r}"
    edit = Edit(f"configure '{path}' ({old.kind}): {written or 'made again'}{kept}")

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
            place=(target, key),
            earlier=_earlier(target, key),
            edit=edit,
        )
        return target.changed(layers=target.parts("layers") | {key: new})

    return with_entry(edit_everywhere(graph, old, edit, change), edit)


def insert_after(graph: "Graph", place: "str | Ref", given: Given) -> "Graph":
    """Lets a new layer read a tensor, and every reader of that tensor read the new layer."""
    models, inner, ref = find_tensor(graph, place)
    new = _resolved(graph, given, _maker(inner, ref), f"what follows '{place_text(place)}'")
    edit, new = _insertion(graph, inner, new, ref, f"after '{place_text(place)}'")

    def change(target: "Graph") -> "Graph":
        draft = Draft(target, edit)
        (made,), added = put(draft, new, (ref,), {})
        draft.redirect({ref: made}, but=added)
        return draft.done()

    return with_entry(edit_inside(graph, models, edit, change), edit)


def insert_on(graph: "Graph", path: str, argument: "int | str | None", given: Given) -> "Graph":
    """Lets a new layer stand between one call and one of its arguments."""
    models, inner, name = descend(graph, path)
    call = find_call(inner, name)
    places = argument_places(call)
    if argument is None and len(places) != 1:
        message = (
            f"call '{path}' takes {len(places)} tensors; say with insert_on which one the new "
            "layer stands before"
        )
        raise GraphError(message)
    at = find_argument(call, 0 if argument is None else argument, path)
    ref = places[at]
    new = _resolved(graph, given, inner.layers[cast("str", call.layer)], f"what precedes '{path}'")
    on = "" if argument is None else f", argument {argument!r}"
    edit, new = _insertion(graph, inner, new, ref, f"before '{path}'{on}")

    def change(target: "Graph") -> "Graph":
        draft = Draft(target, edit)
        (made,), _ = put(draft, new, (ref,), {})
        draft.set_argument(call.name, at, made)
        return draft.done()

    return with_entry(edit_inside(graph, models, edit, change), edit)


def rewire(graph: "Graph", path: str, argument: "int | str", tensor: "str | Ref") -> "Graph":
    """Lets one argument of a call be another tensor."""
    models, inner, name = descend(graph, path)
    call = find_call(inner, name)
    ref = find_tensor_beside(graph, models, tensor)
    at = find_argument(call, argument, path)
    edit = Edit(f"rewire argument {argument!r} of '{path}' to '{place_text(tensor)}'")

    def change(target: "Graph") -> "Graph":
        draft = Draft(target, edit)
        draft.set_argument(call.name, at, ref)
        return draft.done()

    return with_entry(edit_inside(graph, models, edit, change), edit)


def argument_places(call: Call) -> dict[Place, Ref]:
    """Returns the tensors that the author gave to a call, by place: argument, then steps."""
    kwargs = {key: item for key, item in call.kwargs.items() if key not in call.derived}
    places: dict[Place, Ref] = {}
    for start, tree in [*enumerate(call.args), *kwargs.items()]:
        _list_places((start,), tree, places)
    return places


def _list_places(place: Place, tree: Any, places: dict[Place, Ref]) -> None:
    if isinstance(tree, Ref):
        places[place] = tree
    elif isinstance(tree, dict):
        for key, item in cast("dict[Any, Any]", tree).items():
            _list_places((*place, key), item, places)
    elif isinstance(tree, (list, tuple)):
        for index, item in enumerate(cast("list[Any]", tree)):
            _list_places((*place, index), item, places)


def find_argument(call: Call, argument: "int | str", path: str) -> Place:
    """Returns the place of an argument: a number among the tensors, or a keyword.

    In `Add([a, b])`, `b` is 1.
    """
    places = argument_places(call)
    names = {".".join(map(str, place)): place for place in places}
    if isinstance(argument, int):
        if 0 <= argument < len(names):
            return [*places][argument]
    elif argument in names:
        return names[argument]
    message = (
        f"call '{path}' has no tensor at argument {argument!r}; it takes "
        f"{', '.join(f'{i} ({n})' for i, n in enumerate(names)) or 'no tensors'}"
    )
    raise GraphError(message)


def check_policy(weights: str) -> None:
    """Checks how a layer is to take over weights.

    Raises:
        OptionError: If there is no such way.
    """
    if weights not in POLICIES:
        known = ", ".join(f"'{word}'" for word in POLICIES)
        message = f"unknown weights={weights!r}; expected one of {known}"
        raise OptionError(message)


def _insertion(
    graph: "Graph", inner: "Graph", new: Layer | TensorFunction, ref: Ref, where: str
) -> "tuple[Edit, Layer | Graph]":
    """Returns the line for an insertion, and what is inserted: a layer, or calls of a function."""
    if isinstance(new, TensorFunction):
        return Edit(f"insert {new.text} {where}"), new.traced(inner, (ref,), {}, 1)
    new = _with_free_name(inner, new)
    return Edit(f"insert {_described(graph, new)} {where}"), new


def _maker(graph: "Graph", ref: Ref) -> Layer | None:
    key = graph.calls[ref.call].layer
    return None if key is None else graph.layers[key]


def _resolved(
    graph: "Graph", given: Given, old: Layer | None, where: str
) -> Layer | TensorFunction:
    live = graph.live_origin()
    return resolve(graph, given, lambda: None if old is None else live.current(old), where)


def _with_free_name(graph: "Graph", new: Layer, *, freed: str | None = None) -> Layer:
    """Gives a layer with an automatic name that is taken the next one."""
    taken = graph.layers.keys() - {freed}
    if new.name in taken and is_automatic(new.name, new.kind):
        return dataclasses.replace(new, name=next_free(new.name, taken))
    return new


def _trains_instead(old: Layer, new: Layer) -> bool:
    """Whether a layer trains that takes the place of one with weights that do not."""
    flags = [
        getattr(layer.origin, "trainable", True) if layer.trainable is None else layer.trainable
        for layer in (old, new)
    ]
    return flags == [False, True] and bool(getattr(old.origin, "weights", ()))


def _earlier(graph: "Graph", key: str) -> Layer | None:
    """Returns what a layer is before an edit, if its weights are only known once it is built."""
    record = graph.layers[key]
    if not record.is_changed:
        return None
    return record if record.place is not None else dataclasses.replace(record, place=(graph, key))


def _weights_of(old: Layer) -> Any:
    """Returns the live layer whose weights the one in its place takes over."""
    fresh = old.inherits is not None and not getattr(old.origin, "built", False)
    return old.inherits if fresh else old.origin


def _described(graph: "Graph", new: Layer) -> str:
    owner = " (a copy: it is used elsewhere too)" if graph.live_origin().is_used(new) else ""
    return f"{new.kind} '{new.name}'{owner}"
