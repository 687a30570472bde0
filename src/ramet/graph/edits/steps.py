"""Steps that are taken with new layers once they have their weights, such as adding adapters."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ramet.graph.data import Edit, Layer, Step
from ramet.graph.edits.nested import rebuilt

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def has_steps(graph: "Graph") -> bool:
    """Whether building a graph takes a step with any of its layers."""
    return any(layer.steps for visit in graph.walk() for layer in visit.graph.layers.values())


def with_steps(
    graph: "Graph",
    steps: Mapping[tuple[int, int], tuple[str, tuple[Step, ...]]],
    flags: Mapping[tuple[int, int], bool],
    edit: Edit,
) -> "Graph":
    """Take steps with layers wherever they are called, without an entry in the journal.

    Args:
        graph: The outermost graph.
        steps: The class that each layer will have, and the steps; by the layers' identities.
        flags: The `trainable` flags that change, by the layers' identities.
        edit: The edit that they belong to.
    """

    def renewed(layer: Layer) -> Layer:
        if layer.identity in steps:
            kind, taken = steps[layer.identity]
            taken = (*layer.steps, *taken)
            layer = dataclasses.replace(layer, kind=kind, steps=taken, edit=edit)
        if layer.identity in flags:
            layer = dataclasses.replace(layer, trainable=flags[layer.identity])
        return layer

    return rebuilt(graph, None, renewed, lambda inner: inner)
