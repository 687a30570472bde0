"""`rewrite`: replace a pattern everywhere in a graph."""

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, cast, overload

from ramet._arguments import check_depth, check_flag, check_name
from ramet.editing.inferred import Inferred
from ramet.editing.likeness import AnyLayer, kinds_of
from ramet.editing.patterns import Replacement, name_of, parameters_of, trace_pattern
from ramet.errors import GraphError
from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.data import Edit
from ramet.graph.edits.draft import Draft
from ramet.graph.edits.nested import edit_inside
from ramet.graph.edits.splice import splice
from ramet.graph.journal import with_entry, with_one_entry, without_stages
from ramet.graph.match import Match, Matcher, Miss
from ramet.graph.names import counted, listed
from ramet.graph.tree import leaves
from ramet.results.explanation import Explanation
from ramet.tracing.trace import trace


def any_layer(
    kind: type | str | tuple[type | str, ...], *, name: str | None = None, **constraints: Any
) -> AnyLayer:
    """Return a placeholder for any layer of a class in a pattern, optionally constrained.

    `layers.Conv2D(64, 3)` in a pattern matches 64 filters of size 3;
    `any_layer(layers.Conv2D, kernel_size=3)` matches any number of filters.

    Args:
        kind: A layer class, which matches its subclasses too; its name; or a tuple of them.
        name: Name in the pattern, by which a replacement finds the layer in `match`.
        **constraints: Arguments that the layer must have, in any form that its
            constructor accepts.

    Examples:
        >>> narrow = ramet.any_layer(layers.Conv2D, filters=4)
        >>> graph = ramet.rewrite(
        ...     model,
        ...     lambda x: layers.ReLU()(layers.BatchNormalization()(narrow(x))),
        ...     lambda x: layers.Conv2D(4, 3, padding="same", activation="relu")(x),
        ... )
    """
    if name is not None:
        check_name(name, "name")
    for key, value in constraints.items():
        check_depth(value, f"constraint {key}")
    return AnyLayer(kinds_of(kind), name, constraints)


@overload
def rewrite(
    model: Any,
    pattern: Callable[..., Any],
    replacement: Callable[..., Any],
    *,
    explain: Literal[False] = False,
    missing_ok: bool = False,
) -> Graph: ...
@overload
def rewrite(
    model: Any,
    pattern: Callable[..., Any],
    replacement: Callable[..., Any],
    *,
    explain: Literal[True],
    missing_ok: bool = False,
) -> Explanation: ...
def rewrite(
    model: Any,
    pattern: Callable[..., Any],
    replacement: Callable[..., Any],
    *,
    explain: bool = False,
    missing_ok: bool = False,
) -> Graph | Explanation:
    """Replace a pattern wherever it matches, in nested models too.

    Pattern and replacement are functions of tensors, written with Keras layers. Layers match
    if their classes and the arguments written in the pattern agree; parameters of the pattern
    match any tensor. Every call is part of at most one match, and replacements are not
    searched again, so rewriting always ends.

    Args:
        model: A graph or a model.
        pattern: A function of tensors that returns one or several tensors.
        replacement: A function with the same number of inputs and outputs. A parameter
            `match` receives a dict of copies of the matched layers, weights included, by
            their names in the pattern (automatic names count from there: `dense`,
            `dense_1`). Calling such a copy keeps the layer.
        explain: Whether to return matches and near misses instead.
        missing_ok: Whether to accept that the pattern matches nowhere.

    Returns:
        The new Graph; with `explain`, an `Explanation`.

    Raises:
        GraphError: If the pattern matches nowhere, or the replacement returns a different
            number of tensors.
        OptionError: If the pattern is not a function, or fits no tensor of the graph.

    Examples:
        >>> graph = ramet.rewrite(
        ...     model,
        ...     lambda x: layers.ReLU()(layers.BatchNormalization()(x)),
        ...     lambda x: layers.LeakyReLU()(layers.LayerNormalization()(x)),
        ... )
        >>> "norm" in graph.layers
        False
    """
    check_flag(explain, "explain")
    check_flag(missing_ok, "missing_ok")
    graph = before = trace(model)
    traced = trace_pattern(pattern, graph)
    new = Replacement(replacement, graph, len(parameters_of(pattern)))
    wanted = traced.graph
    places: list[str] = []
    misses: list[Miss] = []
    for visit in graph.walk():
        models, inner, path = visit.path, visit.graph, visit.prefix
        matcher = Matcher(inner, wanted, traced)
        matches = matcher.matches()
        end = next(iter(leaves(wanted.outputs))).call
        places += [path + match.calls[end] for match in matches]
        misses += [dataclasses.replace(miss, place=path + miss.place) for miss in matcher.misses]
        if not explain:
            moved: dict[Ref, Ref] = {}
            inferred = Inferred(inner)
            for match in matches:
                tensors = {ask: moved.get(ref, ref) for ask, ref in match.tensors.items()}
                match = dataclasses.replace(match, tensors=tensors)  # noqa: PLW2901 after the others
                graph = _replaced(graph, models, wanted, match, new, moved, inferred)
                if len(matches) > 1:
                    graph = without_stages(before, graph)
    if explain:
        return Explanation(tuple(places), tuple(misses))
    if not places and not missing_ok:
        nearest = f"; nearest miss: {misses[0]}" if misses else ""
        message = (
            f"the pattern matches nowhere in graph '{graph.name}'{nearest}; pass explain=True to "
            "see all near misses, or missing_ok=True to leave the graph as it is"
        )
        raise GraphError(message)
    name = name_of(pattern)
    what = f"{len(places)} matches" if name == "<lambda>" else f"{len(places)} matches of {name}"
    return with_one_entry(before, graph, f"rewrite {what} with {new.text}")


def _replaced(  # noqa: PLR0913, PLR0917 all of it is one match
    graph: Graph,
    models: tuple[str, ...],
    wanted: Graph,
    match: Match,
    replacement: Replacement,
    moved: dict[Ref, Ref],
    inferred: Inferred,
) -> Graph:
    """Replace one match, and record in `moved` which tensors its consumers read now."""
    inner = graph
    for key in models:
        inner = cast("Graph", inner.layers[key].graph)
    tensors = [match.tensors[ref] for ref in leaves(wanted.inputs)]
    specs = inferred.specs(inner, tensors)
    layers = {key: inner.layers[match.layers[key]] for key in wanted.layers if key in match.layers}
    new = replacement.traced(specs, layers, lambda key: inferred.layer(inner, match.layers[key]))
    ends = [Ref(match.calls[ref.call], ref.index) for ref in leaves(wanted.outputs)]
    results = list(leaves(new.outputs))
    if len(results) != len(ends):
        message = (
            f"the pattern returns {counted(len(ends), 'tensor')} and the replacement "
            f"{counted(len(results), 'tensor')}; return the same number from both"
        )
        raise GraphError(message)
    replaced = [match.calls[name] for name in wanted.calls if name in match.calls]
    edit = Edit(f"rewrite {listed(replaced)} with {replacement.text}")

    def change(target: Graph) -> Graph:
        draft = Draft(target, edit)
        starts = dict(zip(leaves(new.inputs), tensors, strict=True))
        refs = _take_in(draft, new, starts, match, replacement)
        mapping = dict(zip(ends, (refs[ref] for ref in results), strict=True))
        draft.redirect(mapping)
        moved.update(mapping)
        draft.forget(set(match.calls.values()))
        rewritten = draft.done()
        inferred.replaced(target, rewritten, mapping)
        return rewritten

    return with_entry(edit_inside(graph, models, edit, change), edit)


def _take_in(
    draft: Draft, new: Graph, refs: dict[Ref, Ref], match: Match, replacement: Replacement
) -> dict[Ref, Ref]:
    """Insert the calls of a replacement, and return the new refs of its tensors."""
    gone = set(match.calls.values())
    used = {call.layer for call in draft.calls.values() if call.name not in gone}
    freed = {key for key in match.layers.values() if key not in used}

    def take(layer: Layer) -> str:
        return _take_layer(draft, layer, freed, replacement)

    def more(layer: Layer, call: Call) -> dict[str, Any]:
        return replacement.handed_on(match.context, layer, call)

    return splice(draft, new, refs, take, more)


def _take_layer(draft: Draft, layer: Layer, freed: set[str], replacement: Replacement) -> str:
    """Insert a layer, which may have the name of a removed one, or be one that stays."""
    kept = replacement.kept_record(layer)
    wanted = layer if kept is None else kept
    for key, known in draft.layers.items():
        if known.identity == wanted.identity:
            freed.discard(key)
            return key
    if layer.name in freed:
        freed.discard(layer.name)
        draft.layers.pop(layer.name)
    if kept is not None:
        key = draft.add_layer(kept)
        draft.layers[key] = dataclasses.replace(kept, name=key)
        return key
    return draft.add_layer(dataclasses.replace(layer, brought=True))
