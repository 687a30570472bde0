"""Where to cut a graph so that its stages cost about the same."""

import itertools
from collections import deque
from collections.abc import Sequence
from typing import Any

from ramet import keras_internals as internals
from ramet._arguments import check_word, shown
from ramet.errors import GraphError, OptionError
from ramet.graph import Graph
from ramet.graph.edits.pipeline import computing_calls, cut_at, frontiers, ready_to_cut
from ramet.graph.names import counted, listed
from ramet.graph.paths import call_labels
from ramet.profiling.profile import profile_of
from ramet.profiling.tensors import Tensor
from ramet.results.profile import CallCost, Profile
from ramet.tracing.settled import settled

MEASURES = ("macs", "params", "memory")
"""What stages can be balanced by."""

_MOST = 10**9
"""The largest number of stages that is looked at."""
_SLACK = 0.1
"""By what share the largest stage may exceed the best, if fewer bytes cross the cuts then."""


def stages_of(graph: Graph, n: Any, by: Any, shapes: Any) -> tuple[Graph, ...]:
    """Cut a graph into balanced stages; see `Graph.stages`."""
    check_word(by, "by", MEASURES)
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= _MOST:
        raise OptionError(f"n must be a positive number of stages, got {shown(n)}")
    _check_enough(graph, n)
    graph = settled(graph)
    with internals.room_for(graph):
        graph = ready_to_cut(graph)
        _check_enough(graph, n)
        profile = profile_of(graph, shapes=shapes)
        costs = _costs(graph, profile, by)
        chosen = places(costs, _crossing_bytes(graph, profile), n)
        if chosen is None:
            message = (
                f"graph '{graph.name}' cannot be cut into {n:,} balanced stages, because tensors "
                "without axes cross the cuts, and a model cannot take them; ask for fewer stages"
            )
            raise GraphError(message)
        return cut_at(graph, chosen)


def _check_enough(graph: Graph, n: int) -> None:
    """Check that there is a call for each stage.

    Raises:
        GraphError: If there is none.
    """
    count = len(computing_calls(graph))
    if n > count:
        more = any(layer.graph is not None for layer in graph.layers.values())
        remedy = "; inline its nested models first, with flatten()" if more else "; ask for fewer"
        message = f"graph '{graph.name}' has {counted(count, 'call')}, not enough for {n:,} stages"
        raise GraphError(f"{message}{remedy}")


def _costs(graph: Graph, profile: Profile, by: str) -> list[int]:
    """Return what each call costs.

    Raises:
        GraphError: If that is not known.
    """
    labels, by_path = call_labels(graph), {cost.path: cost for cost in profile.calls}
    costs = [by_path[labels[call.name]] for call in computing_calls(graph)]
    if by == "params":
        return [cost.new_params for cost in costs]
    unknown = [cost for cost in costs if cost.uncounted]
    open_sizes = [cost for cost in costs if any(None in shape for shape in cost.outputs)]
    if (by == "macs" and unknown) or open_sizes:
        paths = listed([cost.path for cost in (open_sizes or unknown)])
        what = "sizes of the outputs" if open_sizes else "multiply-accumulates"
        remedy = (
            "pass shapes=... for the inputs"
            if open_sizes
            else "register a rule with ramet.profiling.counts"
        )
        message = f"the {what} of {paths} of graph '{graph.name}' are not known"
        raise GraphError(f"{message}; {remedy}, or balance by='params'")
    return [_cost(cost, by) for cost in costs]


def _cost(cost: CallCost, by: str) -> int:
    return cost.macs if by == "macs" else cost.new_weight_bytes + cost.activation_bytes


def _crossing_bytes(graph: Graph, profile: Profile) -> list[float]:
    """Return how many bytes cross each place between two calls.

    Infinitely many if a tensor without axes does: Keras has no inputs of that kind.
    """
    labels, by_path = call_labels(graph), {cost.path: cost for cost in profile.calls}

    def size(call: str, index: int) -> int:
        spec, cost = graph.calls[call].outputs[index], by_path.get(labels[call])
        shape = spec.shape if cost is None else cost.outputs[index]
        return Tensor(shape, spec.dtype).nbytes

    known: dict[Any, float] = {}
    sums: list[float] = []
    for refs in frontiers(graph):
        for ref in refs:
            if ref not in known:
                has_axes = bool(graph.calls[ref.call].outputs[ref.index].shape)
                known[ref] = size(ref.call, ref.index) if has_axes else float("inf")
        sums.append(sum(known[ref] for ref in refs))
    return sums


def places(costs: Sequence[int], crossing: Sequence[float], n: int) -> list[int] | None:
    """Return before which calls to cut; `None` if no cut can be made where it has to be.

    The largest stage costs as little as it can, or at most a tenth more if fewer bytes cross
    the cuts then. Takes O(calls * n).

    Args:
        costs: What each call costs.
        crossing: How many bytes cross the place before each call, and the one at the end.
        n: How many stages to make, each of at least one call.
    """
    least = _least(costs, n)
    tight = _within(costs, crossing, n, least)
    loose = _within(costs, crossing, n, int(least * (1 + _SLACK)))
    return min(tight, loose, key=lambda found: found[0])[1]


def _within(
    costs: Sequence[int], crossing: Sequence[float], n: int, limit: int
) -> tuple[float, list[int] | None]:
    """Return the cuts that the fewest bytes cross, of stages within a limit, and those bytes."""
    sums = [0, *itertools.accumulate(costs)]
    count = len(costs)
    best: list[float] = [0.0] + [float("inf")] * count
    cuts: list[list[int]] = []
    for number in range(1, n + 1):
        after, origin = [float("inf")] * (count + 1), [0] * (count + 1)
        window: deque[int] = deque()
        for end in range(number, count + 1):
            start = end - 1
            while window and best[window[-1]] >= best[start]:
                window.pop()
            window.append(start)
            while window and sums[end] - sums[window[0]] > limit:
                window.popleft()
            if window:
                bytes_here = crossing[end] if end < count else 0
                after[end] = best[window[0]] + bytes_here
                origin[end] = window[0]
        best = after
        cuts.append(origin)
    if best[count] == float("inf"):
        return best[count], None
    found, end = [0] * n, count
    for number in reversed(range(n)):
        end = cuts[number][end]
        found[number] = end
    return best[count], found[1:]


def _least(costs: Sequence[int], n: int) -> int:
    """Return the smallest limit that n stages can keep."""
    low, high = max(costs), sum(costs)
    while low < high:
        middle = (low + high) // 2
        if _needed(costs, middle) <= n:
            high = middle
        else:
            low = middle + 1
    return low


def _needed(costs: Sequence[int], limit: int) -> int:
    """Return how many stages there are if each takes as many calls as its limit allows."""
    stages, current = 1, 0
    for cost in costs:
        if current + cost > limit:
            stages, current = stages + 1, 0
        current += cost
    return stages
