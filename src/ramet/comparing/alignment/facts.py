"""What tells the layers of two graphs apart: class, config, weights, and what is inside."""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

import keras
import numpy as np

from ramet.backends.values import to_numpy
from ramet.comparing.alignment.nodes import Node, nodes_of
from ramet.graph import Graph, Layer, Ref
from ramet.graph.tree import map_tree
from ramet.tracing.configs import comparable_config as config_of

_SAMPLED = 256
"""How many values of a weight are looked at to tell it from others."""


@dataclass(frozen=True, eq=False)
class LayerFacts:
    """What tells a layer from others."""

    fact: str = ""
    """Digest of its class and config, and of the graph inside it, without names."""
    content: frozenset[Any] = frozenset()
    """Fingerprints of those weights that no other layer is likely to have."""
    parts: Counter[str] = field(default_factory=Counter[str])
    """The facts of all layers inside a model, of inner models too."""
    models: "tuple[LayerFacts, ...]" = ()
    """The facts of the models inside a model."""
    calls: Counter[str] = field(default_factory=Counter[str])
    """The facts of the layers inside a model, once for each call that one call of it makes."""

    @property
    def contents(self) -> Counter[str]:
        """The facts of all layers and models inside a model."""
        return self.parts + Counter(model.fact for model in self.models)

    def inner_like(self, other: "LayerFacts") -> "LayerFacts | None":
        """Return the model inside this one that another model is more like than this one."""

        def likeness(model: LayerFacts) -> float:
            if model.fact == other.fact:
                return 1.0
            mine, theirs = model.contents, other.contents
            return sum((mine & theirs).values()) / max(1, sum((mine | theirs).values()))

        best = max(self.models, key=likeness, default=None)
        is_it = best is not None and (best.fact == other.fact or likeness(best) > likeness(self))
        return best if is_it else None


def share_parts(first: Counter[str], second: Counter[str]) -> bool:
    """Whether at least half of the smaller of two collections of facts is in the other."""
    common = sum((first & second).values())
    return 2 * common >= min(sum(first.values()), sum(second.values()))


class Facts:
    """What tells the layers of two graphs apart, each layer read once."""

    def __init__(self, *graphs: Graph, weights: bool) -> None:
        self._weights = weights
        self._known: dict[tuple[tuple[int, int], int], LayerFacts] = {}
        for graph in _inside_out(graphs):
            for layer in graph.layers.values():
                self._known[layer.identity, id(layer.graph)] = self._read(layer)

    def of_node(self, node: Node) -> LayerFacts:
        """Return the facts of a node's layer."""
        if node.layer is None:
            return LayerFacts()
        return self._known[node.layer.identity, id(node.layer.graph)]

    def _read(self, layer: Layer) -> LayerFacts:
        config = without_trainable(config_of(layer))
        content = _content(layer) if self._weights else frozenset[Any]()
        if layer.graph is None:
            return LayerFacts(_digest(layer.kind, config), content)
        nodes = nodes_of(layer.graph)
        places = {id(node): place for place, node in enumerate(nodes.order)}
        parts: Counter[str] = Counter()
        called: Counter[str] = Counter()
        models: dict[int, LayerFacts] = {}
        calls: list[Any] = []
        met: set[str | None] = set()
        for node in nodes.order:
            facts = self.of_node(node)
            reads = [(places[id(maker)], index) for maker, index in node.inputs]
            calls.append((facts.fact, constants_of(node), reads))
            if not node.is_input:
                called += facts.calls or Counter([facts.fact])
            if not node.is_input and node.key not in met:
                met.add(node.key)
                parts += facts.parts or Counter([facts.fact])
                if facts.parts:
                    models |= {id(inner): inner for inner in (facts, *facts.models)}
        ends = map_tree(
            lambda ref: (places[id(nodes.tensors[ref][0])], ref.index), layer.graph.outputs
        )
        fact = _digest(config, calls, ends)
        return LayerFacts(fact, content, parts, tuple(models.values()), called)


def _inside_out(graphs: "tuple[Graph, ...]") -> list[Graph]:
    """List graphs and those inside of them, each once and after those inside of it."""
    done: dict[int, Graph] = {}
    waiting = [(graph, False) for graph in graphs]
    while waiting:
        graph, is_left = waiting.pop()
        if is_left:
            done[id(graph)] = graph
        elif id(graph) not in done:
            inner = [layer.graph for layer in graph.layers.values() if layer.graph is not None]
            waiting += [(graph, True), *((each, False) for each in inner)]
    return [*done.values()]


def without_trainable(config: Any) -> Any:
    """Return a config without what may be another for the same layer: whether it trains."""
    if isinstance(config, dict):
        items = cast("dict[str, Any]", config).items()
        return {key: without_trainable(item) for key, item in items if key != "trainable"}
    if isinstance(config, list):
        return [without_trainable(item) for item in cast("list[Any]", config)]
    return config


def _content(layer: Layer) -> frozenset[Any]:
    """Return fingerprints of a layer's weights but for those that are all of one value."""
    found: set[Any] = set()
    for variable in getattr(layer.origin, "weights", ()):
        try:
            values = np.asarray(to_numpy(variable)).reshape(-1)
            some = values[:: max(1, values.size // _SAMPLED)]
            if some.size and (some != some[0]).any():
                found.add((tuple(variable.shape), hash(some.tobytes())))
        except (TypeError, ValueError):  # strings, and values that are nowhere yet
            continue
    return frozenset(found)


def constants_of(node: Node) -> str:
    """Return the arguments of a call as text, without tensors."""
    tree = map_tree(
        lambda leaf: "·" if isinstance(leaf, Ref) else constant(leaf), (node.call.args, node.kwargs)
    )
    return repr(without_tuples(tree))


def without_tuples(tree: Any) -> Any:
    """Return a tree with lists for tuples: in files, Keras saves tuples of slices as lists."""
    if isinstance(tree, dict):
        items = cast("dict[Any, Any]", tree).items()
        return {key: without_tuples(value) for key, value in items}
    if isinstance(tree, (list, tuple)):
        return [without_tuples(item) for item in cast("list[Any]", tree)]
    return tree


def constant(leaf: Any) -> str:
    """Returns a constant of a call's arguments as text by which it can be compared."""
    if leaf is None or isinstance(leaf, (bool, int, float, str, slice)):
        return repr(leaf)
    if isinstance(leaf, keras.Variable):
        return f"variable {leaf.dtype}{tuple(leaf.shape)}"
    try:
        array = keras.ops.convert_to_numpy(leaf)
    except Exception:  # noqa: BLE001 not every constant is an array
        return type(leaf).__name__
    if array.dtype.hasobject:  # Its bytes are addresses.
        return type(leaf).__name__
    return f"{array.dtype}{array.shape}{hashlib.sha256(array.tobytes()).hexdigest()}"


def _digest(*facts: Any) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()
