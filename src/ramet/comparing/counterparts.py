"""The layers of two live models, side by side: by their graphs, or by where they are held."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import keras

from ramet.building.weights.roles import labelled
from ramet.comparing.alignment.align import Alignment, align
from ramet.comparing.alignment.nodes import Node
from ramet.graph import Graph
from ramet.graph.names import is_automatic
from ramet.tracing.trace import has_graph, trace

Place = tuple[str, Any]
"""The path of a layer in its model, and the layer."""


@dataclass(frozen=True, slots=True)
class LayerPair:
    """Two layers that belong together."""

    path: str
    """Where the first model has it; "" for the model itself."""
    old: Any
    """The first model's layer."""
    other: str
    """Where the second model has it."""
    new: Any
    """The second model's layer."""
    opened: tuple[str, ...] = ()
    """Names of nested models around one of them that the other model has inlined."""

    @property
    def where(self) -> str:
        """The layer in words."""
        return f"layer '{self.path}'" if self.path else "the model"


@dataclass(frozen=True, slots=True)
class CallPair:
    """Two calls that belong together."""

    path: str
    """Where the first model makes it: `conv#2`, `encoder/conv`."""
    old: Node
    """The first model's call."""
    other: str
    """Where the second model makes it."""
    new: Node
    """The second model's call."""
    level: Alignment
    """What the graphs that hold them have in common."""


@dataclass
class Pairs:
    """Which layers of two models belong together, on all levels."""

    first: Any
    """The first model."""
    second: Any
    """The second model."""
    graphs: tuple[Graph | None, Graph | None] = (None, None)
    """Their graphs; `None` for a model without one."""
    alignment: Alignment | None = None
    """What their graphs have in common; `None` if one of them has none."""
    layers: list[LayerPair] = field(default_factory=list[LayerPair])
    """The layers that belong together, the models themselves first, each pair once."""
    alone: tuple[list[Place], list[Place]] = field(default_factory=lambda: ([], []))
    """Layers of the first and of the second model that the other does not have."""
    alignments: list[tuple[str, Alignment]] = field(default_factory=list[tuple[str, Alignment]])
    """What graphs have in common, behind their paths: of the models, and inside of layers."""
    inlined: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))
    """Nested models of either whose layers stand in the other's graph themselves."""

    def levels(self) -> Iterator[tuple[str, Alignment]]:
        """Yield what graphs have in common, also nested ones, behind the first one's path."""
        for path, whole in self.alignments:
            for one, _, level in whole.walk():
                yield path + one, level

    def calls(self) -> Iterator[CallPair]:
        """Yield the calls that belong together, those inside a nested model per use of it."""
        if self.alignment is not None:
            yield from _calls(self.alignment)


def pair(first: Any, second: Any) -> Pairs:
    """Pair the layers of two models. Costs O(calls), and one config per layer."""
    return _Pairing(first, second).paired()


class _Pairing:
    def __init__(self, first: Any, second: Any) -> None:
        self._pairs = Pairs(first, second)
        self._met: set[tuple[int, int]] = set()
        self._known: tuple[set[int], set[int]] = (set(), set())
        self._left: tuple[dict[int, Place], dict[int, Place]] = ({}, {})
        self._waiting: deque[tuple[LayerPair, Alignment | None]] = deque()

    def paired(self) -> Pairs:
        pairs = self._pairs
        models = pairs.first, pairs.second
        first, second = (trace(model) if has_graph(model) else None for model in models)
        pairs.graphs = first, second
        if first is not None and second is not None:
            pairs.alignment = align(first, second)
            pairs.alignments.append(("", pairs.alignment))
        self._add(LayerPair("", pairs.first, "", pairs.second), pairs.alignment)
        while self._waiting:
            both, alignment = self._waiting.popleft()
            if alignment is not None:
                self._graphs(both, alignment)
            if isinstance(both.old, keras.Layer) and isinstance(both.new, keras.Layer):
                self._parts(both)
        for side, left in enumerate(self._left):
            known = self._known[side]
            pairs.alone[side].extend(p for i, p in left.items() if i not in known)
        return pairs

    def _add(self, both: LayerPair, inner: Alignment | None = None) -> None:
        if (id(both.old), id(both.new)) not in self._met:
            self._met.add((id(both.old), id(both.new)))
            self._known[0].add(id(both.old))
            self._known[1].add(id(both.new))
            self._pairs.layers.append(both)
            if inner is None and _are_graphs(both.old, both.new):
                inner = align(trace(both.old), trace(both.new))
                self._pairs.alignments.append((f"{both.path}/", inner))
            self._waiting.append((both, inner))

    def _graphs(self, both: LayerPair, level: Alignment) -> None:
        """Pair the layers of two graphs."""
        prefixes = [f"{path}/" if path else "" for path in (both.path, both.other)]
        for a, b in level.pairing:
            if a.layer is not None and b.layer is not None:
                old, new = a.key or "", b.key or ""
                opened = (*old.split("/")[:-1], *new.split("/")[:-1])
                pair_ = LayerPair(
                    prefixes[0] + old, a.layer.origin, prefixes[1] + new, b.layer.origin, opened
                )
                self._add(pair_, level.inside.get((old, new)))
        for side, models in enumerate((level.inlined, level.wrapped)):
            graph = (level.first, level.second)[side]
            self._pairs.inlined[side].extend(prefixes[side] + key for key in models)
            self._known[side].update(id(layer_at(graph, key)) for key in models)
            for node in level.nodes[side].order:
                if node.layer is not None and node.key is not None:
                    place = prefixes[side] + node.key, node.layer.origin
                    self._left[side].setdefault(id(node.layer.origin), place)

    def _parts(self, both: LayerPair) -> None:
        """Pair the sublayers of two layers that are in no pair of graphs."""
        sides = (both.path, both.old), (both.other, both.new)
        lists: list[list[tuple[str, str, Any]]] = []
        for side, (path, layer) in enumerate(sides):
            parts = labelled(layer)
            if _are_graphs(both.old, both.new):
                left, known = self._left[side], self._known[side]
                parts = [p for p in parts if id(p[2]) not in left and id(p[2]) not in known]
            elif both.old is self._pairs.first:
                parts = [p for p in parts if not isinstance(p[2], keras.layers.InputLayer)]
            lists.append(parts)
            for label, _, part in parts:
                self._left[side].setdefault(id(part), (_joined(path, label), part))
        for old, new in _matched(*lists):
            paths = _joined(both.path, old[0]), _joined(both.other, new[0])
            self._add(LayerPair(paths[0], old[2], paths[1], new[2]))


def _are_graphs(*layers: Any) -> bool:
    return all(isinstance(layer, keras.Layer) and has_graph(layer) for layer in layers)


def _joined(path: str, label: str) -> str:
    return f"{path}/{label}" if path else label


_Part = tuple[str, str, Any]
"""A sublayer: where it is held, its name if that says more, and itself."""


def _matched(olds: list[_Part], news: list[_Part]) -> Iterator[tuple[_Part, _Part]]:
    """Pair sublayers: by chosen name, by place, and at last those of one class in order."""
    signs: tuple[Callable[[_Part], Any], ...] = (
        lambda part: (_chosen_name(part[2]), type(part[2]).__name__),
        lambda part: (part[1], type(part[2]).__name__),
        lambda part: (part[0], type(part[2]).__name__),
        lambda part: ("", type(part[2]).__name__),
        lambda part: (part[0], ""),
    )
    for sign in signs:
        waiting: dict[Any, deque[_Part]] = {}
        for new in news:
            waiting.setdefault(sign(new), deque()).append(new)
        rest: list[_Part] = []
        for old in olds:
            mark = sign(old)
            if mark[0] is not None and waiting.get(mark):
                yield old, waiting[mark].popleft()
            else:
                rest.append(old)
        left = {id(new) for parts in waiting.values() for new in parts}
        olds, news = rest, [new for new in news if id(new) in left]


def _chosen_name(layer: Any) -> str | None:
    return None if is_automatic(layer.name, type(layer).__name__) else layer.name


def layer_at(graph: Graph, path: str) -> Any:
    """Return the live layer at a path of keys."""
    *models, key = path.split("/")
    for model in models:
        graph = cast("Graph", graph.layers[model].graph)
    return graph.layers[key].origin


def _calls(alignment: Alignment) -> Iterator[CallPair]:
    waiting = deque([("", "", alignment)])
    while waiting:
        one, two, level = waiting.popleft()
        for a, b in level.pairing:
            yield CallPair(one + a.path, a, two + b.path, b, level)
            inner = level.inside.get((a.key or "", b.key or ""))
            if inner is not None:
                waiting.append((f"{one}{a.path}/", f"{two}{b.path}/", inner))
