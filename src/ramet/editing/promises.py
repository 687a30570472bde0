"""What edits may promise, as far as that depends on the live layers.

A promise is never stronger than what is known: of a user's layer it is only known what Keras says
of every layer.
"""

from collections.abc import Mapping
from typing import Any

import keras

from ramet._words import Promise, weakest
from ramet.backends import is_of_keras
from ramet.editing.order import marks_of
from ramet.graph import Graph, Layer, Spec
from ramet.tracing.configs import raw_config

_IN_TRAINING = frozenset(
    {
        keras.layers.ActivityRegularization,
        keras.layers.AlphaDropout,
        keras.layers.Dropout,
        keras.layers.GaussianDropout,
        keras.layers.GaussianNoise,
        keras.layers.SpatialDropout1D,
        keras.layers.SpatialDropout2D,
        keras.layers.SpatialDropout3D,
    }
)
"""Layers that do nothing except in training."""

_ENDINGS: dict[str, Promise] = {
    "_initializer": "exact",
    "_regularizer": "inference-equal",
    "_constraint": "inference-equal",
}
"""What constructor arguments promise by the ends of their names, in layers whose weights stay."""

_ARGUMENTS: dict[str, Promise] = {
    "dropout": "inference-equal",
    "recurrent_dropout": "inference-equal",
    "seed": "inference-equal",
    "trainable": "inference-equal",
    "flash_attention": "equal",
    "implementation": "equal",
    "unroll": "equal",
    "use_cudnn": "equal",
}
"""What other constructor arguments promise, in all layers of Keras that have them."""

_OF_CLASSES: dict[tuple[type, str], Promise] = {
    (keras.layers.BatchNormalization, "momentum"): "inference-equal",
    (keras.layers.BatchNormalization, "synchronized"): "inference-equal",
}
"""What constructor arguments promise in single classes."""


def promise_of_passing(layer: Layer, spec: Spec, inner: Graph) -> Promise:
    """Return what adding or removing a layer behind a tensor of a graph promises.

    `changed` for a layer that does not pass its input on as it is, with its dtype and mask.
    """
    own = _passing(layer)
    if own == "changed" or not _keeps_dtype(layer.origin, spec, inner):
        return "changed"
    return own


def _passing(layer: Layer) -> Promise:
    live, changes = layer.origin, layer.changes or {}
    if type(live) in _IN_TRAINING:
        return "changed" if "dtype" in changes else "inference-equal"
    is_linear = (
        type(live) is keras.layers.Activation and live.activation is keras.activations.linear
    )
    if changes or not (is_linear or type(live) is keras.layers.Identity):
        return "changed"
    return "exact" if live.activity_regularizer is None else "inference-equal"


def _keeps_dtype(live: Any, spec: Spec, inner: Graph) -> bool:
    """Whether a layer returns a tensor with the dtype and the mask that it has."""
    if not live.supports_masking or spec.sparse or spec.ragged:
        return False
    if spec.known:
        return spec.dtype == live.compute_dtype
    # It is not known before the graph is built, unless all of the graph has one dtype.
    return _dtypes(inner) == {live.compute_dtype}


def _dtypes(graph: Graph) -> set[str]:
    known = {spec.dtype for call in graph.calls.values() for spec in call.outputs if spec.known}
    lives = [layer.origin for layer in graph.layers.values() if not layer.is_input]
    policies = {str(live.compute_dtype) for live in lives if isinstance(live, keras.Layer)}
    changed = {"changed" for layer in graph.layers.values() if "dtype" in (layer.changes or {})}
    return {dtype for dtype in known if "float" in dtype} | policies | changed


def promise_of_changes(layer: Layer, changes: Mapping[str, Any]) -> Promise:
    """Return what other constructor arguments of a layer promise, its weights kept."""
    others = {key: value for key, value in changes.items() if key != "trainable"}
    if not others:
        return "inference-equal"
    if not is_of_keras(type(layer.origin)) or layer.graph is not None or not layer.facts.built:
        return "changed"
    config: dict[str, Any] = {} if layer.changes is not None else raw_config(layer.origin)
    promises: list[Promise] = [
        _of_change(layer.origin, config, *change) for change in changes.items()
    ]
    if any(in_training for _, _, in_training in marks_of(layer)):
        promises.append("inference-equal")  # It is re-created, with a seed of its own.
    return weakest(promises)


def _of_change(live: Any, config: dict[str, Any], name: str, value: Any) -> Promise:
    is_plain = value is None or type(value) in {bool, int, float, str}
    if is_plain and name in config and type(config[name]) is type(value) and config[name] == value:
        return "exact"
    if type(live) in _IN_TRAINING and name != "dtype":
        return "inference-equal"
    ending = f"_{name.rpartition('_')[2]}"
    known = _OF_CLASSES.get((type(live), name)) or _ARGUMENTS.get(name)
    return known or _ENDINGS.get(ending, "changed")


def promise_of_copies(layer: Layer) -> Promise:
    """Return what copies of a layer promise, one for each of its calls.

    `inference-equal` if they train apart from each other, and `changed` if one call leaves
    something behind for the next.
    """
    marks = marks_of(layer)
    is_known = layer.changes is None and (layer.facts.built or layer.is_operation)
    if not is_known or any(not in_training for _, _, in_training in marks):
        return "changed"
    return "inference-equal" if marks or layer.facts.has_weights else "exact"


def promise_of_sharing(first: Layer, others: list[Layer]) -> Promise:
    """Return what one layer in the place of several with the same arguments promises."""
    layers = [first, *others]
    lives = [layer.origin for layer in layers]
    if not all(
        isinstance(live, keras.Layer)
        and is_of_keras(type(live))
        and not isinstance(live, keras.layers.Lambda)
        and not layer.facts.has_weights
        and layer.graph is None
        and layer.changes is None
        for live, layer in zip(lives, layers, strict=True)
    ):
        return "changed"
    return weakest(promise_of_copies(layer) for layer in layers)
