"""Layers re-created with other constructor arguments and computed weights, many in one step."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ramet.graph.data import Edit, Layer
from ramet.graph.edits.nested import placed_layers, rebuilt
from ramet.graph.values import Recipe

if TYPE_CHECKING:
    from ramet.graph.core import Graph


@dataclass(frozen=True)
class Remade:
    """What becomes of one layer."""

    changes: Mapping[str, Any] | None = field(default_factory=dict[str, Any])
    """Constructor arguments that differ from before; `None` if the layer stays as it is, and all
    its weights keep their shapes. Then its calls need not be made again."""
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
    records = placed_layers(graph)

    def renewed(layer: Layer) -> Layer:
        remade = layers.get(layer.identity)
        return layer if remade is None else remade_layer(records[layer.identity], remade, edit)

    return rebuilt(graph, edit, renewed, lambda inner: inner)


def remade_layer(layer: Layer, remade: Remade, edit: Edit) -> Layer:
    """Return the record of a layer with other constructor arguments and computed weights."""
    stays = remade.changes is None and not layer.is_changed
    return dataclasses.replace(
        layer,
        changes=None if stays else _merged(layer.changes, remade.changes),
        recipe=MappingProxyType(dict(remade.recipe)),
        weights="fit",
        earlier=layer if layer.is_changed else None,
        place=None,
        edit=edit,
    )


def _merged(before: Mapping[str, Any] | None, changes: Mapping[str, Any] | None) -> Any:
    return MappingProxyType({**(before or {}), **(changes or {})})


def recreated(graph: "Graph") -> "Graph":
    """Return a graph in which all layers with computed weights are re-created.

    So they have variables of their own where the other layers share theirs with the source.
    """

    def renewed(layer: Layer) -> Layer:
        stays = layer.recipe is not None and layer.changes is None and not layer.brought
        return dataclasses.replace(layer, changes=_merged(None, None)) if stays else layer

    return rebuilt(graph, None, renewed, lambda inner: inner)
