"""From a Graph to a new Keras model."""

from typing import Any

from ramet.bridge import internals
from ramet.bridge.checks import check_options
from ramet.bridge.copies import copy_model
from ramet.bridge.live import is_edited, live_of
from ramet.errors import GraphError
from ramet.graph import Graph


def build(graph: Graph, *, weights: str, seed: int | None, name: str | None) -> Any:
    """Makes a model of a graph that was traced from one; see `Graph.build`."""
    live = live_of(graph)
    check_options(weights, seed, name)
    if live.model is not None and internals.functional_of(live.model) is not live.function:
        message = f"model '{graph.name}' was rebuilt after it had been traced; trace it again"
        raise GraphError(message)
    if is_edited(graph):
        from ramet.bridge.edited import build_edited

        return build_edited(graph, weights=weights, seed=seed, name=name or graph.name)
    return copy_model(live.model, weights=weights, seed=seed, name=name or graph.name)
