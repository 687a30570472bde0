"""The layers and calls of a graph, and of those nested in it, by path."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ramet.graph.data import Call, Layer
from ramet.graph.reach import written_calls

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def layer_paths(graph: "Graph") -> Iterator[tuple[str, Layer]]:
    """Yield every layer that the author wrote with its path, nested ones after their model.

    A model that several graphs share has a path in each of them.
    """
    waiting = [_layers_in_order(graph, "")]
    while waiting:
        for path, layer in waiting[-1]:
            yield path, layer
            if layer.graph is not None:
                waiting.append(_layers_in_order(layer.graph, f"{path}/"))
                break
        else:
            waiting.pop()


def _layers_in_order(graph: "Graph", prefix: str) -> Iterator[tuple[str, Layer]]:
    keys = dict.fromkeys(call.layer for call in written_calls(graph))
    return iter([(prefix + key, graph.layers[key]) for key in keys if key is not None])


def call_labels(graph: "Graph") -> dict[str, str]:
    """Return an unambiguous name for each call: `conv#1` for the first of several.

    Costs O(calls).
    """
    counts = Counter(call.layer for call in graph.calls.values())
    return {
        name: f"{name}#1" if name == call.layer and counts[call.layer] > 1 else name
        for name, call in graph.calls.items()
    }


def call_paths(graph: "Graph") -> Iterator[tuple[str, Call]]:
    """Yield every call that the author wrote with its path, once per call of a nested model."""
    waiting = [_calls_in_order(graph, "")]
    while waiting:
        for path, call, inner in waiting[-1]:
            yield path, call
            if inner is not None:
                waiting.append(_calls_in_order(inner, f"{path}/"))
                break
        else:
            waiting.pop()


def _calls_in_order(graph: "Graph", prefix: str) -> "Iterator[tuple[str, Call, Graph | None]]":
    labels = call_labels(graph)
    for call in written_calls(graph):
        inner = None if call.layer is None else graph.layers[call.layer].graph
        yield prefix + labels[call.name], call, inner
