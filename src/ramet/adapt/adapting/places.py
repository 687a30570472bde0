"""The kernels of a graph that can be adapted, and which of them a user means."""

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import keras

from ramet._arguments import check_index, did_you_mean, shown
from ramet.errors import GraphError, OptionError
from ramet.graph import Graph, Layer, Selection
from ramet.graph.names import counted, listed
from ramet.graph.paths import layer_paths
from ramet.graph.select import path_matches
from ramet.layers import Kernel, is_quantized, kernels_of

_SHOWN = 6
"""How many kernels a message lists."""


@dataclass(frozen=True)
class Place:
    """A layer of a graph with its kernels."""

    path: str
    """Its path in the graph."""
    record: Layer
    """Its record."""
    live: Any
    """The live layer, as it will be built."""
    kernels: tuple[Kernel, ...]
    """The kernels in it."""

    def full(self, kernel: Kernel) -> str:
        """Return the path of one of its kernels in the graph."""
        return f"{self.path}/{kernel.path}"


def places_of(graph: Graph) -> list[Place]:
    """List the layers of a graph that have kernels, each once."""
    places: dict[tuple[int, int], Place] = {}
    for path, record in layer_paths(graph):
        if record.can_train and record.graph is None and record.identity not in places:
            live = live_layer(graph, record)
            kernels = tuple(kernels_of(live)) if isinstance(live, keras.Layer) else ()
            if kernels:
                places[record.identity] = Place(path, record, live, kernels)
    return [*places.values()]


def live_layer(graph: Graph, record: Layer) -> Any:
    """Return the live layer of a record as it will be built, whatever its flag will be."""
    if record.changes is None:
        return record.origin
    return graph.live_origin().current(dataclasses.replace(record, trainable=None))


Chosen = dict[str, int]
"""Ranks by the paths of kernels."""

At = Any
"""What a user names kernels by: a glob, a regular expression, a selection, or several."""


def patterns_of(at: At) -> list[Any]:
    """Return what a user names kernels by as a list.

    Raises:
        OptionError: If it is something else.
    """
    several = cast("Iterable[Any]", at) if isinstance(at, (list, tuple, set, frozenset)) else (at,)
    patterns = [*several]
    for each in patterns:
        if not isinstance(each, (str, re.Pattern, Selection)) or each == "":
            message = (
                f"layers are named by a glob, a compiled regular expression or a selection, got "
                f"{shown(each)}; pass a text such as 'encoder/*' or '**/query'"
            )
            raise OptionError(message)
    return patterns


def check_selection(graph: Graph, pattern: Any) -> None:
    """Check that a selection belongs to a graph, and is not empty.

    Raises:
        GraphError: If it belongs to another graph.
    """
    if isinstance(pattern, Selection):
        if pattern.graph is not graph:
            message = (
                f"the selection is of graph '{pattern.graph.name}' after "
                f"{counted(len(pattern.graph.journal), 'edit')}, which is not the one that is "
                "adapted; trace the model once, and pass that graph and its selection"
            )
            raise GraphError(message)
        pattern.need()


def matches(pattern: Any, place: Place, kernel: Kernel) -> bool:
    """Whether a user's pattern names a kernel: itself, its layer, or a layer in between."""
    if isinstance(pattern, Selection):
        return any(place.path == path or place.path.startswith(f"{path}/") for path in pattern)
    steps = kernel.path.split("/")
    paths = ["/".join([place.path, *steps[:number]]) for number in range(len(steps) + 1)]
    if isinstance(pattern, re.Pattern):
        return any(pattern.search(path) is not None for path in paths)
    return any(path_matches(path, pattern) for path in paths)


def written(pattern: Any) -> str:
    """Return a pattern as messages show it."""
    if isinstance(pattern, Selection):
        return f"the selection by {pattern.what}"
    return repr(pattern.pattern) if isinstance(pattern, re.Pattern) else repr(pattern)


def chosen(graph: Graph, places: list[Place], at: At, rank: int) -> Chosen:
    """Return the rank of each kernel that a user names.

    Args:
        graph: The graph.
        places: Its layers with kernels.
        at: What names them, or a dict of that with ranks; the last that matches counts.
        rank: The rank where `at` has none.

    Raises:
        GraphError: If a pattern matches no kernel.
        OptionError: If there is no pattern.
    """
    ranked = (
        [(pattern, at[key]) for key in at for pattern in patterns_of(key)]
        if isinstance(at, Mapping)
        else [(pattern, rank) for pattern in patterns_of(at)]
    )
    if not ranked:
        raise OptionError("at names nothing; pass a glob of layers, such as '**/query'")
    ranks: Chosen = {}
    for pattern, wanted in ranked:
        check_selection(graph, pattern)
        found = [
            (place, kernel)
            for place in places
            for kernel in place.kernels
            if matches(pattern, place, kernel)
        ]
        if not found:
            raise _nothing(graph, places, pattern)
        for place, kernel in found:
            ranks[place.full(kernel)] = wanted
    return ranks


def _nothing(graph: Graph, places: list[Place], pattern: Any) -> GraphError:
    """Return an error for a pattern that names no kernel."""
    known = [place.full(kernel) for place in places for kernel in place.kernels]
    layers = [path for path, record in layer_paths(graph) if record.graph is None]
    paths = dict.fromkeys([*(place.path for place in places), *known])
    message = f"nothing in graph '{graph.name}' that can be adapted is named by {written(pattern)}"
    if isinstance(pattern, str) and any(path_matches(path, pattern) for path in layers):
        message += ", only layers without a kernel of a kind that ramet adapts"
    near = did_you_mean(pattern, [*paths]) if isinstance(pattern, str) else ""
    return GraphError(f"{message}{near or f'; it has: {listed(known, _SHOWN) or None}'}")


def check_ranks(places: list[Place], ranks: Chosen) -> None:
    """Check that kernels have updates of the ranks that a user wants.

    Raises:
        OptionError: If a rank is not a positive integer, or larger than its kernel.
    """
    for place in places:
        for kernel in place.kernels:
            rank = ranks.get(place.full(kernel), 1)
            check_index(rank, "a rank")
            sizes = [
                math.prod(
                    size for axis, size in enumerate(kernel.shape) if (axis in kernel.outs) is out
                )
                for out in (False, True)
            ]
            if not 1 <= rank <= max(min(sizes), 1):
                message = (
                    f"rank {shown(rank)} does not fit the kernel '{place.full(kernel)}' of shape "
                    f"{kernel.shape}, a matrix of {sizes[0]} x {sizes[1]}; its rank is 1 to "
                    f"{min(sizes)}: pass a smaller one, or a dict of ranks"
                )
                raise OptionError(message)


def check_supported(places: list[Place], ranks: Chosen, variant: str) -> None:
    """Check that kernels can be adapted where they are.

    Raises:
        GraphError: If one is quantized in a way that cannot be adapted, is set anew by every call,
            or belongs to two layers.
    """
    holders: dict[int, tuple[Place, Kernel]] = {}
    for place in places:
        for kernel in place.kernels:
            full = place.full(kernel)
            if full in ranks:
                _check_one(place, kernel, variant)
            other = holders.setdefault(id(kernel.variable), (place, kernel))
            if other[0] is not place and (full in ranks or other[0].full(other[1]) in ranks):
                message = (
                    f"the kernel '{full}' is also '{other[0].full(other[1])}', so an adapter of "
                    "one layer would leave the other as it is; give each a kernel of its own first"
                )
                raise GraphError(message)


def _check_one(place: Place, kernel: Kernel, variant: str) -> None:
    full = place.full(kernel)
    if getattr(kernel.owner, "lora_enabled", False):
        message = (
            f"the kernel '{full}' has an adapter from Keras's enable_lora; convert it first, "
            "with ramet.adapt.adopt"
        )
        raise GraphError(message)
    mode = getattr(kernel.owner, "quantization_mode", None)
    if mode not in (None, "int8", "int4") or (mode is None and is_quantized(kernel.variable)):
        kind = mode or keras.backend.standardize_dtype(kernel.variable.dtype)
        message = (
            f"the kernel '{full}' is quantized ({kind}) in a way that cannot be adapted; adapt the "
            "model before it is quantized, and merge"
        )
        raise GraphError(message)
    if mode is not None and variant == "dora":
        message = (
            f"the kernel '{full}' is quantized ({mode}), so the lengths of its columns are "
            "not known exactly; use variant='lora' or 'rslora'"
        )
        raise GraphError(message)
    if isinstance(place.live, keras.layers.SpectralNormalization):
        message = (
            f"the kernel '{full}' is recomputed whenever '{place.path}' (SpectralNormalization) "
            "trains, so no adapter can be added to it; name other layers"
        )
        raise GraphError(message)
