"""Layers shared (tied), and unshared."""

import dataclasses
from typing import TYPE_CHECKING, Any

from ramet._arguments import check_word
from ramet.errors import GraphError, OptionError
from ramet.graph.data import Edit, Gist
from ramet.graph.edits.apart import apart
from ramet.graph.edits.draft import Draft
from ramet.graph.edits.nested import edit_inside
from ramet.graph.edits.resolve import promised
from ramet.graph.journal import with_entry
from ramet.graph.locate import calls_of_layer, descend, find_layer
from ramet.graph.names import listed, unique_name, with_article

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def unshare(graph: "Graph", path: str) -> "Graph":
    """Give every call of a layer except the first its own layer, with the same weights."""
    models, inner, name = descend(graph, path)
    key = find_layer(inner, name)
    calls = calls_of_layer(inner, key)
    if len(calls) == 1:
        message = f"layer '{path}' is called once, so there is nothing to unshare"
        raise GraphError(message)
    gist = Gist("unshare", inner.layers[key].kind)
    promise = promised(graph, lambda live: live.promise_of_copies(inner.layers[key]))
    edit = Edit(f"unshare '{path}' ({len(calls)} calls)", gist=gist, promise=promise)

    def change(target: "Graph") -> "Graph":
        draft = Draft(target, edit)
        record, names = target.layers[key], dict[str, str]()
        for number, call in enumerate(calls[1:], 1):
            taken = {*draft.layers, *draft.calls}
            new = unique_name(f"{record.name}_{number}", taken).replace("#", "_")
            draft.layers[new] = dataclasses.replace(apart(record), name=new, edit=edit)
            draft.change_call(call.name, layer=new)
            names[call.name] = new
        draft.rename_calls(names)
        return draft.done()

    return with_entry(edit_inside(graph, models, edit, change), edit)


@dataclasses.dataclass(frozen=True, slots=True)
class Tie:
    """The differences of two layers that are to be tied."""

    config: tuple[str, ...]
    """The constructor arguments that differ, with both values."""
    shapes: tuple[Any, Any] | None
    """The shapes of their weights, if they differ."""
    trainable: tuple[bool, bool] | None
    """Their `trainable` flags, if they differ."""


def share(graph: "Graph", first: str, others: tuple[str, ...], config: str) -> "Graph":
    """Turn the calls of some layers into calls of the first, with its weights."""
    check_word(config, "config", ("same", "first"))
    models, inner, name = descend(graph, first)
    key = find_layer(inner, name)
    keys = [_tied(graph, inner, (first, key), path) for path in others]
    if not keys or key in keys or len({*keys}) < len(keys):
        message = f"share takes layers that differ: '{first}' and at least one other, each once"
        raise OptionError(message)
    pairs = zip(others, keys, strict=True)
    notes = [_checked(graph, inner, (first, key), pair, config) for pair in pairs]
    lines = [
        "; ".join(filter(None, [f"share '{first}' with '{other}'", note]))
        for other, note in zip(others, notes, strict=True)
    ]
    text = f"share '{first}' with {listed([repr(other) for other in others])}"
    consequences = listed([note for note in notes if note], separator="; ")
    promise = graph.live_origin().promise_of_sharing(
        inner.layers[key], [inner.layers[other] for other in keys]
    )
    if any(graph.live_origin().tie(inner.layers[key], inner.layers[k]).config for k in keys):
        promise = "changed"
    edit = Edit.of_many("; ".join(filter(None, [text, consequences])), lines, promise)

    def change(target: "Graph") -> "Graph":
        draft = Draft(target, edit)
        names: dict[str, str] = {}
        for other in keys:
            for call in calls_of_layer(target, other):
                draft.change_call(call.name, layer=key)
                taken = {*draft.calls, *names.values()} - {call.name}
                names[call.name] = unique_name(key, taken)
        draft.rename_calls(names)
        return draft.done()

    return with_entry(edit_inside(graph, models, edit, change), edit)


def _tied(graph: "Graph", inner: "Graph", first: tuple[str, str], path: str) -> str:
    """Return the key of a layer that is to be tied to the first; check graph and class."""
    _, there, other = descend(graph, path)
    if there is not inner:
        message = (
            f"'{first[0]}' and '{path}' are in different graphs ('{inner.name}' and "
            f"'{there.name}'), so they cannot be tied; flatten the nested model first"
        )
        raise GraphError(message)
    key = find_layer(inner, other)
    kinds = inner.layers[first[1]].kind, inner.layers[key].kind
    if kinds[0] != kinds[1]:
        message = (
            f"'{first[0]}' is {with_article(kinds[0])} and '{path}' {with_article(kinds[1])}; only "
            "layers of one class can be tied"
        )
        raise GraphError(message)
    return key


def _checked(
    graph: "Graph", inner: "Graph", first: tuple[str, str], other: tuple[str, str], config: str
) -> str:
    """Check that a layer can replace another, and return what is lost, as text."""
    kept, gone = inner.layers[first[1]], inner.layers[other[1]]
    tie = graph.live_origin().tie(kept, gone)
    if tie.shapes is not None:
        message = (
            f"'{first[0]}' has weights of shapes {tie.shapes[0]} and '{other[0]}' of "
            f"{tie.shapes[1]}, so they cannot be tied; tie layers with weights of the same shapes"
        )
        raise GraphError(message)
    differ = ", ".join(tie.config)
    if tie.config and config == "same":
        message = (
            f"'{first[0]}' and '{other[0]}' differ in {differ}, so to tie them would change what "
            f"'{other[0]}' computes; configure one like the other, or say config='first'"
        )
        raise GraphError(message)
    notes: list[str] = []
    if gone.facts.has_weights:
        notes.append(f"the weights of '{other[0]}' are dropped")
    if tie.config:
        notes.append(f"'{first[0]}' decides on {differ}")
    if tie.trainable is not None:
        words = ["trained" if flag else "frozen" for flag in tie.trainable]
        notes.append(f"'{other[0]}' was {words[1]} and is {words[0]} now, as '{first[0]}' is")
    return ", ".join(notes)
