"""Where nodes and edges are drawn: in layers, from top to bottom."""

from dataclasses import dataclass
from itertools import pairwise

from ramet.showing.parts import View
from ramet.showing.ranks import ranked
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
    """Lay out a view. Takes about O(calls), more where many edges are long."""
    index = {node.name: number for number, node in enumerate(view.nodes)}
    edges = [(index[edge.source], index[edge.target]) for edge in view.edges]
    ranks = ranked(len(index), edges)
    items: dict[int, Item] = {}
    for number, rank in enumerate(ranks.ranks):
        for place, item in enumerate(rank):
            width = WIDTH if item < len(index) else 0
            items[item] = Item(place, number * (HEIGHT + _GAP_Y), width)
    for chain in ranks.chains:
        for one, other in pairwise(chain):
            items[one].join(items[other])
    spread([*items.values()], _GAP_X)
    points = [(items[number].x, items[number].layer) for number in range(len(index))]
    bends = [
        _passed([items[item] for item in chain[1:-1]], upwards=chain[0] != source)
        for (source, _), chain in zip(edges, ranks.chains, strict=True)
    ]
    return _moved(points, bends)


def _passed(points: list[Item], *, upwards: bool) -> list[Point]:
    """Return where an edge passes ranks: in a straight line through each."""
    half = -HEIGHT / 2 if upwards else HEIGHT / 2
    ordered = reversed(points) if upwards else points
    return [
        point
        for item in ordered
        for point in ((item.x, item.layer - half), (item.x, item.layer + half))
    ]


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
