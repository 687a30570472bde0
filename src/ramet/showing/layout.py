"""Where nodes and edges are drawn: in layers, from top to bottom."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ramet.errors import ExtraError
from ramet.showing.parts import View
from ramet.showing.spread import Item, spread

WIDTH, HEIGHT = 204, 62
"""Size of a node."""
_GAP_X, _GAP_Y = 24, 40
"""Room between nodes."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layout:
    """Places in a view. A node's place is its centre."""

    nodes: tuple[Point, ...]
    """One place for every node."""
    bends: tuple[tuple[Point, ...], ...]
    """The points between its ends that each edge passes through."""
    width: float
    """Width of the picture."""
    height: float
    """Height of the picture."""


def lay_out(view: View) -> Layout:
    """Lay out a view. Takes about O(calls), more where many edges are long.

    Raises:
        ExtraError: If igraph is not installed.
    """
    index = {node.name: number for number, node in enumerate(view.nodes)}
    edges = [(index[edge.source], index[edge.target]) for edge in view.edges]
    graph = _igraph().Graph(n=len(index), edges=edges, directed=True)
    layers = _layers(len(index), edges) if graph.is_dag() else None
    placed = graph.layout_sugiyama(
        layers=layers, hgap=WIDTH + _GAP_X, vgap=HEIGHT + _GAP_Y, maxiter=100
    )
    points, bends = _spread(placed.coords, placed.edge_routing, edges)
    return _moved(points, bends)


def _spread(
    coords: Any, routes: Any, edges: list[tuple[int, int]]
) -> tuple[list[Point], list[list[Point]]]:
    """Space out the layers of igraph, in which nodes may overlap, and keep their order.

    A bend becomes two, so that an edge passes the nodes of a layer in a straight line.
    """
    nodes = [Item(x, y, WIDTH) for x, y in coords]
    lines = [[Item(x, y, 0) for x, y in route] for route in routes]
    for (source, target), line in zip(edges, lines, strict=True):
        line.sort(key=lambda item: item.layer, reverse=nodes[source].layer > nodes[target].layer)
        whole = [nodes[source], *line, nodes[target]]
        for one, other in pairwise(whole):
            one.join(other)
    spread([*nodes, *(item for line in lines for item in line)], _GAP_X)
    bends = [[point for item in line for point in _passed(item, line)] for line in lines]
    return [(node.x, node.layer) for node in nodes], bends


def _passed(item: Item, line: list[Item]) -> list[Point]:
    half = HEIGHT / 2 if line[0].layer <= line[-1].layer else -HEIGHT / 2
    return [(item.x, item.layer - half), (item.x, item.layer + half)]


def _igraph() -> Any:
    try:
        import igraph  # noqa: PLC0415 an optional package
    except ImportError as error:
        message = (
            "pictures of models need the package igraph, which is not installed; "
            "install it with: pip install 'ramet[show]'"
        )
        raise ExtraError(message) from error
    return igraph


def _layers(size: int, edges: list[tuple[int, int]]) -> list[int]:
    """Assign every node to a layer below its inputs and close to its consumers."""
    above: list[list[int]] = [[] for _ in range(size)]
    below: list[list[int]] = [[] for _ in range(size)]
    for source, target in edges:
        above[target].append(source)
        below[source].append(target)
    order = _sorted(above, below)
    layers = [0] * size
    for node in order:
        layers[node] = max((layers[source] + 1 for source in above[node]), default=0)
    for node in reversed(order):
        if below[node] and len(above[node]) <= len(below[node]):
            layers[node] = min(layers[target] for target in below[node]) - 1
    return layers


def _sorted(above: list[list[int]], below: list[list[int]]) -> list[int]:
    missing = [len(sources) for sources in above]
    order = [node for node, count in enumerate(missing) if not count]
    for node in order:
        for target in below[node]:
            missing[target] -= 1
            if not missing[target]:
                order.append(target)
    return order


def _moved(points: list[Point], bends: list[list[Point]]) -> Layout:
    """Shift everything so that the picture starts at a margin."""
    every = [*points, *(point for bend in bends for point in bend)]
    left = min((x for x, _ in every), default=0) - WIDTH / 2 - _GAP_X
    top = min((y for _, y in every), default=0) - HEIGHT / 2 - _GAP_Y
    right = max((x for x, _ in every), default=0) + WIDTH / 2 + _GAP_X
    bottom = max((y for _, y in every), default=0) + HEIGHT / 2 + _GAP_Y

    def moved(point: Point) -> Point:
        return round(point[0] - left, 1), round(point[1] - top, 1)

    return Layout(
        nodes=tuple(map(moved, points)),
        bends=tuple(tuple(map(moved, bend)) for bend in bends),
        width=right - left,
        height=bottom - top,
    )
