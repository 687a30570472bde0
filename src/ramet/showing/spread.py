"""Positions within layers: side by side, close to what they are joined to.

The order within each layer stays. Sweeps down and up move every item to the average position of
its neighbours in the layer before, as far as the other items leave room.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

_SWEEPS = 12
_WEIGHT = 4.0
"""Weight of a node relative to a bend: chains of nodes stay straight, and edges bend."""


@dataclass(slots=True)
class Item:
    """A node, or a bend of an edge, in its layer."""

    x: float
    """Its position; at first its order within the layer."""
    layer: float
    """Height of its layer."""
    width: float
    """Its width; 0 for a bend."""
    above: list["Item"] = field(default_factory=list["Item"])
    """What it is joined to in the layer above."""
    below: list["Item"] = field(default_factory=list["Item"])
    """What it is joined to in the layer below."""

    @property
    def weight(self) -> float:
        """How much its position counts."""
        return _WEIGHT if self.width else 1.0

    def join(self, other: "Item") -> None:
        """Join two items of neighbouring layers."""
        high, low = (self, other) if self.layer < other.layer else (other, self)
        high.below.append(low)
        low.above.append(high)


def spread(items: list[Item], gap: float) -> None:
    """Place items so that none overlap. Takes O(items)."""
    groups: dict[float, list[Item]] = defaultdict(list)
    for item in items:
        groups[item.layer].append(item)
    layers = [sorted(groups[y], key=lambda item: item.x) for y in sorted(groups)]
    for _ in range(_SWEEPS):
        for layer in reversed(layers):
            _place(layer, [_mean(item.below, item.x) for item in layer], gap)
        for layer in layers:
            _place(layer, [_mean(item.above, item.x) for item in layer], gap)


def _mean(joined: list[Item], default: float) -> float:
    weight = sum(item.weight for item in joined)
    return sum(item.x * item.weight for item in joined) / weight if joined else default


def _place(layer: list[Item], wanted: list[float], gap: float) -> None:
    """Move the items of a layer as close to the wanted positions as they fit, by pooling."""
    offset, offsets = 0.0, [0.0]
    for left, right in pairwise(layer):
        offset += (left.width + right.width) / 2 + gap
        offsets.append(offset)
    pools: list[tuple[float, float, int]] = []
    for item, place, start in zip(layer, wanted, offsets, strict=True):
        mean, weight, size = place - start, item.weight, 1
        while pools and pools[-1][0] > mean:
            other, more, count = pools.pop()
            mean = (mean * weight + other * more) / (weight + more)
            weight, size = weight + more, size + count
        pools.append((mean, weight, size))
    places = [mean for mean, _, size in pools for _ in range(size)]
    for item, place, start in zip(layer, places, offsets, strict=True):
        item.x = place + start
