"""How far the outputs are off if a layer is changed, as shades of its calls."""

import dataclasses
from dataclasses import dataclass, field

from ramet.graph import Graph
from ramet.graph.paths import layer_paths
from ramet.results.sensitivity import Sensitivity, cost_text
from ramet.showing.parts import Node, Shade, View
from ramet.showing.shades import Key, names_of

_STEPS = (0.001, 0.01, 0.05, 0.2)
"""The largest difference of each shade but the last."""

_NOT_FINITE = 1e9
"""What stands for a difference that is not finite, which a page could not hold."""


def key_of(way: str) -> Key:
    """Return what the shades stand for: differences of the outputs."""
    names = names_of([f"{most:g}" for most in _STEPS])
    return Key(f"{way}: how far outputs are off", _STEPS, names, is_share=False)


def shaded(view: View, graph: Graph, costs: Sensitivity, way: str) -> View:
    """Return a view whose nodes are shaded by what it costs to change their layers.

    Every call of a layer shows the same. A nested model shows the largest cost in it.

    Args:
        view: The view.
        graph: Its graph.
        costs: The costs of the layers of this graph.
        way: Which of the ways that were tried.
    """
    records = dict(layer_paths(graph))
    tried = {records[each.path].identity: each.differences[way] for each in costs.layers}
    return _Shading(tried, way).view(view)


@dataclass(eq=False)
class _Shading:
    """Shades views, each once."""

    tried: dict[tuple[int, int], float | None]
    way: str
    views: dict[int, View] = field(default_factory=dict[int, View])

    def view(self, view: View) -> View:
        """Return a view with shades."""
        if id(view) not in self.views:
            nodes = tuple(map(self._node, view.nodes))
            self.views[id(view)] = dataclasses.replace(view, nodes=nodes)
        return self.views[id(view)]

    def _node(self, node: Node) -> Node:
        if node.inside is not None:
            inside = self.view(node.inside)
            return dataclasses.replace(node, inside=inside, shade=self._worst(inside))
        identity = None if node.layer is None else node.layer.identity
        if identity is None or identity not in self.tried:
            return node
        cost = self.tried[identity]
        return dataclasses.replace(node, shade=self._shade(cost))

    def _worst(self, view: View) -> Shade | None:
        """Return the shade of a model with nodes that have shades; `None` if none has one."""
        shades = [node.shade for node in view.nodes if node.shade is not None]
        costs = [shade.value for shade in shades if shade != self._shade(None)]
        return self._shade(max(costs), "up to ") if costs else self._shade(None) if shades else None

    def _shade(self, cost: float | None, prefix: str = "") -> Shade:
        if cost is None:
            return Shade(0.0, f"no {self.way}")
        finite = cost < _NOT_FINITE
        text = f"{prefix}{cost_text(cost)}" if finite else "not finite"
        return Shade(min(cost, _NOT_FINITE), f"{self.way}: {text}")
