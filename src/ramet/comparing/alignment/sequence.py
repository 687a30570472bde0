"""The cheapest way to pair two sequences in order: an edit distance with costs."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

UNPAIRED = 1.0
"""What it costs to leave an item alone."""

_CELLS = 1_000_000
"""How many pairs are weighed at most. Longer sequences are weighed near the diagonal only."""

_UP, _LEFT, _PAIR = 1, 2, 3


def cheapest(
    first: Sequence[Item], second: Sequence[Item], cost: Callable[[Item, Item], float | None]
) -> list[tuple[int, int]]:
    """Return the places of two sequences that are paired, in order, at the least cost.

    Args:
        first: A sequence.
        second: Another one.
        cost: What a pair costs; `None` if it must not be. An item alone costs `UNPAIRED`.
    """
    if not (first and second):
        return []
    rows, columns = len(first), len(second)
    reach = max(_CELLS // (2 * rows), 10) + abs(rows - columns)
    steps: list[tuple[int, bytearray]] = []
    above: list[float] = [column * UNPAIRED for column in range(min(columns, reach) + 1)]
    start = 0
    for row in range(1, rows + 1):
        center = row * columns // rows
        low, high = max(0, center - reach), min(columns, center + reach)
        taken, line = bytearray(high - low + 1), [0.0] * (high - low + 1)
        for column in range(low, high + 1):
            best, step = float("inf"), 0
            at = column - start
            if 0 <= at < len(above):
                best, step = above[at] + UNPAIRED, _UP
            if column > low and line[column - low - 1] + UNPAIRED < best:
                best, step = line[column - low - 1] + UNPAIRED, _LEFT
            # A pair that costs more than both alone is not asked for.
            if column and 0 < at <= len(above) and above[at - 1] < best:
                price = cost(first[row - 1], second[column - 1])
                if price is not None and above[at - 1] + price <= best:
                    best, step = above[at - 1] + price, _PAIR
            line[column - low], taken[column - low] = best, step
        steps.append((low, taken))
        above, start = line, low
    return _traced(steps, rows, columns)


def _traced(steps: list[tuple[int, bytearray]], row: int, column: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    while row and column:
        low, taken = steps[row - 1]
        step = taken[column - low]
        if step == _PAIR:
            pairs.append((row - 1, column - 1))
        row -= step in (_PAIR, _UP)
        column -= step in (_PAIR, _LEFT)
    return pairs[::-1]


def ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return as many pairs of places as can be in one order, sorted. Costs O(n log n)."""
    ends: list[int] = []
    tails: list[int] = []
    before: list[int] = []
    ordered = sorted(pairs)
    for number, (_, place) in enumerate(ordered):
        at = bisect_left(ends, place)
        before.append(tails[at - 1] if at else -1)
        if at == len(ends):
            ends.append(place)
            tails.append(number)
        else:
            ends[at], tails[at] = place, number
    found: list[tuple[int, int]] = []
    number = tails[-1] if tails else -1
    while number >= 0:
        found.append(ordered[number])
        number = before[number]
    return found[::-1]
