"""What an edited graph builds, for verbs that only look at it."""

from typing import Any

from ramet import keras_internals as internals
from ramet.graph import Graph
from ramet.graph.edits.freeze import without_flags
from ramet.graph.edits.steps import has_steps
from ramet.tracing.origin import is_edited
from ramet.tracing.trace import trace


def settled(model: Any) -> Graph:
    """Return the graph of a model; of an edited graph, the graph of the model that it builds."""
    graph = trace(model)
    return trace(built_aside(graph)) if is_edited(graph) else graph


def built_aside(graph: Graph, *, apart: bool = False) -> Any:
    """Build a graph without side effects on names and randomness, to look at the model once.

    Its variables are those of the source, unless an edit set flags or changes live layers: a shared
    variable is trainable in both models or in none.

    Args:
        graph: The graph.
        apart: Whether the model shares no variables with the source.
    """
    shares = not apart and without_flags(graph) is graph and not has_steps(graph)
    weights = "share" if shares else "copy"
    with internals.untouched_names(), internals.untouched_randomness():
        return graph.build(weights=weights)
