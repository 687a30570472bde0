"""Layers re-created with other constructor arguments and computed weights, many in one step."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ramet.graph.data import Edit, Layer
from ramet.graph.edits.nested import rebuilt
from ramet.graph.values import Recipe

if TYPE_CHECKING:
    from ramet.graph.core import Graph


@dataclass(frozen=True)
class Remade:
    """What becomes of one layer."""

    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Constructor arguments that differ from before."""
    recipe: Recipe = field(default_factory=dict[tuple[str, ...], Any])
    """Its weights, by role; those that it does not name stay as they are."""


def remake(graph: "Graph", layers: Mapping[tuple[int, int], Remade], edit: Edit) -> "Graph":
    """Re-create layers wherever they are called, without an entry in the journal.

    The values of a recipe refer to records of this graph, before the edit.

    Args:
        graph: The outermost graph.
        layers: What becomes of the layers, by the identities of their records.
        edit: The edit that they belong to.
    """

    def renewed(layer: Layer) -> Layer:
        remade = layers.get(layer.identity)
        return layer if remade is None else remade_layer(layer, remade, edit)

    return rebuilt(graph, edit, renewed, lambda inner: inner)


def remade_layer(layer: Layer, remade: Remade, edit: Edit) -> Layer:
    """Return the record of a layer with other constructor arguments and computed weights."""
    return dataclasses.replace(
        layer,
        changes=MappingProxyType({**(layer.changes or {}), **remade.changes}),
        recipe=MappingProxyType(dict(remade.recipe)),
        weights="fit",
        earlier=layer if layer.is_changed else None,
        place=None,
        edit=edit,
    )
