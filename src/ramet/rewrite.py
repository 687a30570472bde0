"""`rewrite`: find a pattern everywhere in a graph, and put something else there."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ramet.bridge.inferred import Inferred
from ramet.bridge.likeness import AnyLayer, kinds_of
from ramet.bridge.patterns import Replacement, parameters_of, trace_pattern
from ramet.bridge.trace import trace
from ramet.errors import GraphError
from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.draft import Draft, with_entry
from ramet.graph.given import splice
from ramet.graph.match import Match, Matcher, Miss
from ramet.graph.names import counted
from ramet.graph.nested import edit_inside
from ramet.graph.parts import Edit
from ramet.graph.tree import leaves


@dataclass(frozen=True)
class Explanation:
    """What a pattern finds in a graph, and what it nearly finds. `print` tells."""

    matches: tuple[str, ...]
    """Where the pattern ends, by path."""
    misses: tuple[Miss, ...]
    """Where it would have ended, and why it does not."""

    def __str__(self) -> str:
        """Returns one line per match and near miss."""
        lines = [f"matches: {', '.join(self.matches) or 'none'}"]
        lines += [f"  not {miss}" for miss in self.misses]
        return "\n".join(lines)


def any_layer(
    kind: type | str | tuple[type | str, ...], *, name: str | None = None, **constraints: Any
) -> AnyLayer:
    """Stands in a pattern for every layer of a kind, with some arguments if named.

    `layers.Conv2D(64, 3)` in a pattern asks for 64 filters of size 3;
    `any_layer(layers.Conv2D, kernel_size=3)` for any number of filters.

    Args:
        kind: A class of layers, where a subclass will do; its name; or a tuple of them.
        name: Name in the pattern, under which a replacement finds it in `match`.
        **constraints: Arguments that the layer must have, in any form that its
            constructor accepts.
    """
    return AnyLayer(kinds_of(kind), name, constraints)


def rewrite(
    model: Any,
    pattern: Callable[..., Any],
    replacement: Callable[..., Any],
    *,
    explain: bool = False,
    missing_ok: bool = False,
) -> Any:
    """Puts a replacement wherever a pattern is found, also in nested models.

    Pattern and replacement are functions of tensors, written with Keras layers. Kinds of
    layers and the arguments that are written in the pattern must agree; parameters match
    any tensor. Every call is part of one match at most, and what a replacement brings in
    is not searched again, so rewriting ends.

    Args:
        model: A graph or a model.
        pattern: From tensors to one tensor, or several.
        replacement: From as many tensors to as many. If it has a parameter `match`, that
            is a dict of copies of the matched layers, weights included, by their names
            in the pattern (automatic names count from there: `dense`, `dense_1`). Calling
            one keeps the layer.
        explain: Whether to tell matches and near misses instead.
        missing_ok: Whether it is all right if the pattern is found nowhere.

    Returns:
        The new Graph; an `Explanation` if one is asked for.

    Raises:
        GraphError: If the pattern is found nowhere, or the replacement gives another
            number of tensors.
        OptionError: If the pattern is no function, or fits no tensor of the graph.
    """
    graph = trace(model)
    traced = trace_pattern(pattern, graph)
    new = Replacement(replacement, graph, len(parameters_of(pattern)))
    wanted = traced.graph
    found: list[str] = []
    misses: list[Miss] = []
    for models, inner in _all_graphs(graph):
        path = "".join(f"{name}/" for name in models)
        matcher = Matcher(inner, wanted, traced)
        matches = matcher.matches()
        end = next(iter(leaves(wanted.outputs))).call
        found += [path + match.calls[end] for match in matches]
        misses += [dataclasses.replace(miss, place=path + miss.place) for miss in matcher.misses]
        if not explain:
            moved: dict[Ref, Ref] = {}
            inferred = Inferred(inner)
            for match in matches:
                tensors = {ask: moved.get(ref, ref) for ask, ref in match.tensors.items()}
                match = dataclasses.replace(match, tensors=tensors)  # noqa: PLW2901 after the others
                graph = _replaced(graph, models, wanted, match, new, moved, inferred)
    if explain:
        return Explanation(tuple(found), tuple(misses))
    if not found and not missing_ok:
        nearest = f"; nearest miss: {misses[0]}" if misses else ""
        message = (
            f"the pattern is found nowhere in graph '{graph.name}'{nearest}; explain=True tells "
            "more, missing_ok=True lets it pass"
        )
        raise GraphError(message)
    return graph


def _all_graphs(graph: Graph) -> list[tuple[tuple[str, ...], Graph]]:
    """Lists a graph and those nested in it, each model once, with the way to each."""
    found: list[tuple[tuple[str, ...], Graph]] = [((), graph)]
    met: set[tuple[int, int]] = set()
    for path, inner in found:  # It grows meanwhile.
        for key, layer in inner.layers.items():
            if layer.graph is not None and layer.identity not in met:
                met.add(layer.identity)
                found.append(((*path, key), layer.graph))
    return found


def _replaced(  # noqa: PLR0913, PLR0917 all of it is one match
    graph: Graph,
    models: tuple[str, ...],
    wanted: Graph,
    match: Match,
    replacement: Replacement,
    moved: dict[Ref, Ref],
    inferred: Inferred,
) -> Graph:
    """Puts the replacement in the place of one match, and notes what its readers read now."""
    inner = graph
    for key in models:
        inner = cast("Graph", inner.layers[key].graph)
    tensors = [match.tensors[ref] for ref in leaves(wanted.inputs)]
    specs = inferred.specs(inner, tensors)
    layers = {key: inner.layers[match.layers[key]] for key in wanted.layers if key in match.layers}
    new = replacement.traced(specs, layers, lambda key: inferred.layer(inner, match.layers[key]))
    ends = [Ref(match.calls[ref.call], ref.index) for ref in leaves(wanted.outputs)]
    given = list(leaves(new.outputs))
    if len(given) != len(ends):
        message = (
            f"the pattern gives {counted(len(ends), 'tensor')} and the replacement "
            f"{counted(len(given), 'tensor')}; let both give as many"
        )
        raise GraphError(message)
    found = [match.calls[name] for name in wanted.calls if name in match.calls]
    edit = Edit(f"rewrite {', '.join(found)} by {replacement.name}")

    def change(target: Graph) -> Graph:
        draft = Draft(target, edit)
        starts = dict(zip(leaves(new.inputs), tensors, strict=True))
        refs = _take_in(draft, new, starts, match, replacement)
        mapping = dict(zip(ends, (refs[ref] for ref in given), strict=True))
        draft.redirect(mapping)
        moved.update(mapping)
        draft.forget(set(match.calls.values()))
        made = draft.done()
        inferred.replaced(target, made, mapping)
        return made

    return with_entry(edit_inside(graph, models, edit, change), edit)


def _take_in(
    draft: Draft, new: Graph, refs: dict[Ref, Ref], match: Match, replacement: Replacement
) -> dict[Ref, Ref]:
    """Takes the calls of a replacement in; returns where its tensors are found."""
    gone = set(match.calls.values())
    used = {call.layer for call in draft.calls.values() if call.name not in gone}
    freed = {key for key in match.layers.values() if key not in used}

    def take(layer: Layer) -> str:
        return _take_layer(draft, layer, freed, replacement)

    def more(layer: Layer, call: Call) -> dict[str, Any]:
        return replacement.handed_on(match.context, layer, call)

    return splice(draft, new, refs, take, more)


def _take_layer(draft: Draft, layer: Layer, freed: set[str], replacement: Replacement) -> str:
    """Takes a layer in; it may have the name of one that goes away, or be one that stays."""
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
