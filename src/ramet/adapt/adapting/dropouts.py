"""Which updates read dropped inputs in training, and how many are dropped."""

from collections.abc import Mapping
from typing import Any

from ramet._arguments import check_number, shown
from ramet.adapt.adapting.places import (
    Chosen,
    Place,
    check_selection,
    matches,
    patterns_of,
    written,
)
from ramet.errors import GraphError, OptionError
from ramet.graph import Graph
from ramet.graph.names import listed
from ramet.layers import Kernel, dropout_obstacle

_SHOWN = 4
"""How many kernels a message lists."""


def dropouts(graph: Graph, places: list[Place], ranks: Chosen, dropout: Any) -> dict[str, float]:
    """Return the rates of the kernels whose updates read dropped inputs, by path.

    Args:
        graph: The graph.
        places: Its layers with kernels.
        ranks: The kernels that are adapted.
        dropout: A rate for all of them, or rates by what names some of them; the last counts.

    Raises:
        GraphError: If a kernel cannot have that, or a pattern names none that is adapted.
        OptionError: If a rate is none.
    """
    adapted = [
        (place, kernel)
        for place in places
        for kernel in place.kernels
        if place.full(kernel) in ranks
    ]
    if not isinstance(dropout, Mapping):
        _check_rate(dropout)
        rates = {place.full(kernel): float(dropout) for place, kernel in adapted}
    else:
        rates = _named(graph, adapted, dropout)
    rates = {path: rate for path, rate in rates.items() if rate}
    _check_kernels([each for each in adapted if each[0].full(each[1]) in rates])
    return rates


def _named(
    graph: Graph, adapted: list[tuple[Place, Kernel]], dropout: Mapping[Any, Any]
) -> dict[str, float]:
    rates: dict[str, float] = {}
    for key, rate in dropout.items():
        _check_rate(rate)
        for pattern in patterns_of(key):
            check_selection(graph, pattern)
            found = [
                place.full(kernel) for place, kernel in adapted if matches(pattern, place, kernel)
            ]
            if not found:
                has = listed([place.full(kernel) for place, kernel in adapted], _SHOWN)
                message = (
                    f"no kernel that is adapted is named by dropout={written(pattern)}; "
                    f"adapted are: {has}"
                )
                raise GraphError(message)
            rates |= dict.fromkeys(found, float(rate))
    return rates


def _check_rate(rate: Any) -> None:
    check_number(rate, "dropout")
    if not 0 <= rate < 1:
        raise OptionError(f"dropout must be at least 0 and below 1, got {shown(rate)}")


def _check_kernels(adapted: list[tuple[Place, Kernel]]) -> None:
    for place, kernel in adapted:
        obstacle = dropout_obstacle(place.live, kernel)
        if obstacle is not None:
            message = (
                f"the update of '{place.full(kernel)}' cannot have dropout: {obstacle}; pass "
                "dropout={pattern: rate} with patterns that leave it out"
            )
            raise GraphError(message)
