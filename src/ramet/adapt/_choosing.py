"""Which layers are meant: globs, regular expressions, selections, and words such as `head`."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

from ramet._arguments import check_text, shown
from ramet.errors import GraphError, OptionError
from ramet.graph import Graph, Layer, Ref
from ramet.graph.paths import layer_paths
from ramet.graph.select import Selection
from ramet.graph.tree import leaves

NORMS = (
    "BatchNormalization",
    "GroupNormalization",
    "LayerNormalization",
    "RMSNormalization",
    "SpectralNormalization",
    "UnitNormalization",
    "Normalization",
)
"""Classes of layers that divide by statistics."""

WORDS = ("head", "norms", "softmax")
"""Words that stand for layers, where no layer has such a name."""

_NEAR = 3
"""How many near names an error lists."""


def chosen(graph: Graph, at: Any, what: str) -> dict[str, Layer]:
    """Return the layers that a user names, by path; a nested model stands for its layers.

    Args:
        graph: The outermost graph.
        at: A glob, a regular expression, a selection, or one of `WORDS`.
        what: The name of the argument, in errors.

    Raises:
        OptionError: If it is something else.
        GraphError: If nothing is meant by it.
    """
    if isinstance(at, Selection):
        selection = _of_this(graph, at, what)
    elif isinstance(at, re.Pattern):
        selection = graph.select(regex=cast("Any", at), missing_ok=True)
    else:
        _check_pattern(at, what)
        selection = graph.select(name=at, missing_ok=True)
    records = dict(layer_paths(graph))
    paths: Iterable[str] = selection
    if not selection.paths and at in WORDS:
        paths = _by_word(graph, records, cast("str", at))
    meant = {path: records[path] for path in paths}
    if not meant:
        raise GraphError(_nothing(graph, at, what, [*records]))
    return _with_inner(graph, meant)


def chosen_by_any(graph: Graph, at: Any, what: str) -> dict[str, Layer]:
    """Return the layers that one name, or several in a list or tuple, stand for; see `chosen`."""
    if at is None:
        return {}
    several = cast("Sequence[Any]", at if isinstance(at, (list, tuple)) else [at])
    if not several:
        raise OptionError(f"{what} is {shown(at)}; name at least one layer, or leave it out")
    meant: dict[str, Layer] = {}
    for each in several:
        meant |= chosen(graph, each, what)
    return meant


def _check_pattern(at: Any, what: str) -> None:
    if not isinstance(at, str):
        message = (
            f"{what} must be a glob such as 'encoder/**', a regular expression or a selection, "
            f"got {shown(at)}"
        )
        raise OptionError(message)
    check_text(at, what)


def _of_this(graph: Graph, selection: Selection, what: str) -> Selection:
    if selection.graph is not graph and _kinds(selection.graph) != _kinds(graph):
        message = (
            f"the selection for {what} was made from another graph, '{selection.graph.name}'; "
            "select from the graph that you pass"
        )
        raise GraphError(message)
    return selection


def _kinds(graph: Graph) -> dict[str, str]:
    """Return the classes of layers by path, which building a graph does not change."""
    return {path: layer.kind for path, layer in layer_paths(graph)}


def _nothing(graph: Graph, at: Any, what: str, paths: list[str]) -> str:
    """Return the error for a pattern that matches nothing, with near names."""
    text = at.what if isinstance(at, Selection) else shown(getattr(at, "pattern", at))
    plain = re.sub(r"[^\w/]+", "", text)[:60]
    names = {path.rsplit("/", 1)[-1]: path for path in reversed(paths)}
    near = difflib.get_close_matches(plain, paths, _NEAR, 0.4)
    near += [names[name] for name in difflib.get_close_matches(plain, [*names], _NEAR, 0.4)]
    near = [*dict.fromkeys(near)][:_NEAR]
    few = [f"'{path}'" for path in near or paths[:_NEAR]]
    hint = f"; did you mean {', '.join(few)}?" if near else f"; name one of {', '.join(few)}, ..."
    return f"{what} {text} matches no layer of graph '{graph.name}' ({len(paths)} layers){hint}"


def _with_inner(graph: Graph, meant: dict[str, Layer]) -> dict[str, Layer]:
    """Add the layers inside of nested models, in the order of the graph, each layer once."""
    models = {layer.identity for layer in meant.values() if layer.graph is not None}
    inside = tuple(f"{path}/" for path, layer in layer_paths(graph) if layer.identity in models)
    identities = {layer.identity for layer in meant.values()}
    every: dict[tuple[int, int], tuple[str, Layer]] = {}
    for path, layer in layer_paths(graph):
        if layer.identity in identities or path.startswith(inside):
            every.setdefault(layer.identity, (path, layer))
    return dict(every.values())


def _by_word(graph: Graph, records: dict[str, Layer], word: str) -> list[str]:
    if word == "head":
        return _head(graph, records)
    if word == "norms":
        return [path for path, layer in records.items() if layer.kind in NORMS]
    return [path for path, layer in records.items() if _is_softmax(layer)]


def _is_softmax(layer: Layer) -> bool:
    activation = getattr(layer.origin, "activation", None)
    return "softmax" in layer.kind.lower() or "softmax" in getattr(activation, "__name__", "")


def _head(graph: Graph, records: dict[str, Layer]) -> list[str]:
    """List the layers with weights that are nearest to the outputs, and all that follow them."""
    prefix = ""
    names: dict[str, None] = {}
    waiting = [(prefix, graph, ref) for ref in leaves(graph.outputs) if isinstance(ref, Ref)]
    met: set[tuple[str, str]] = set()
    while waiting:
        prefix, inner, ref = waiting.pop()
        call = inner.calls[ref.call]
        if (prefix, call.name) in met or call.layer is None:
            continue
        met.add((prefix, call.name))
        layer = inner.layers[call.layer]
        if layer.graph is not None and layer.facts.has_weights:
            ends = [end for end in leaves(layer.graph.outputs) if isinstance(end, Ref)]
            waiting += [(f"{prefix}{call.layer}/", layer.graph, end) for end in ends]
            continue
        names[prefix + call.layer] = None
        if not layer.facts.has_weights:
            waiting += [(prefix, inner, each) for each in call.written_refs]
    has_weights = any(records[name].facts.has_weights for name in names if name in records)
    return [name for name in names if name in records] if has_weights else []
