"""The records of quantized layers."""

import dataclasses
from typing import Any

from ramet import keras_internals as internals
from ramet.adapt.quantizing.attention import ATTENTION_CLASSES, projections
from ramet.adapt.quantizing.convolutions import INT8_CLASSES
from ramet.adapt.quantizing.modes import quantized_policy, source_policy
from ramet.adapt.quantizing.weights import recipe_for
from ramet.building.reconfigure import reconfigured
from ramet.building.weights.roles import roles_of
from ramet.graph import Graph, Layer
from ramet.graph.data import Edit
from ramet.graph.edits.apart import apart
from ramet.graph.edits.remake import Remade, remade_layer
from ramet.graph.values import Recipe, Value, Variable
from ramet.tracing.configs import raw_config


def quantized_layer(
    graph: Graph, layer: Layer, mode: str, edit: Edit, recipe: Recipe | None = None
) -> Layer:
    """Return the record of a layer that is quantized on build.

    Args:
        graph: The outermost graph.
        layer: The record before the edit.
        mode: How.
        edit: The edit.
        recipe: The weights, if they are known already.
    """
    cls = type(layer.origin)
    if cls in ATTENTION_CLASSES:
        return _attention(graph, layer, mode, edit)
    if cls in INT8_CLASSES:
        config = internals.live_config(reconfigured(layer))
        new = INT8_CLASSES[cls].from_config({**config, "name": layer.name})
        return _of_other_class(graph, layer, new, recipe_for(layer, mode, None), edit)
    policy = quantized_policy(mode, source_policy(layer))
    recipe = recipe_for(layer, mode, policy) if recipe is None else recipe
    return remade_layer(layer, Remade({"dtype": policy}, recipe), edit)


def _attention(graph: Graph, layer: Layer, mode: str, edit: Edit) -> Layer:
    """Return the record of an attention layer whose projections are quantized."""
    recipe: dict[tuple[str, ...], Value] = {}
    for name, projection in projections(layer.origin).items():
        policy = quantized_policy(mode, str(projection.dtype_policy.name))
        recipe |= recipe_for(layer, mode, policy, (name,))
    config = {**raw_config(layer.origin), "name": layer.name, "mode": mode}
    new = ATTENTION_CLASSES[type(layer.origin)].from_config(config)
    return _of_other_class(graph, layer, new, recipe, edit)


def _of_other_class(graph: Graph, layer: Layer, new: Any, recipe: Recipe, edit: Edit) -> Layer:
    """Return the record of a new layer of another class, with computed weights."""
    same: dict[tuple[str, ...], Value] = {
        role: Variable(layer, role) for role in roles_of(layer.origin) if role not in recipe
    }
    brought = apart(graph.live_origin().layer(new, "a quantized layer"))
    return dataclasses.replace(
        brought,
        name=layer.name,
        inherits=layer.origin,
        recipe={**recipe, **same},
        trainable=layer.trainable,
        earlier=layer if layer.is_changed else None,
        brought=True,
        edit=edit,
    )
