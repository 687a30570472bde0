"""Configs as a user would write them: without what Keras expands arguments to.

A constructor with the shorter arguments is checked like any other: the layer must have the same
config.
"""

from collections.abc import Mapping
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.source.deserialize import deserialized, is_harmless

_SIZES = ("kernel_size", "pool_size", "strides", "dilation_rate", "size", "padding", "cropping")
"""Arguments that Keras expands to a number per axis."""

_RECURRENT = (keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN)
"""Layers for which Keras itself creates a backward layer, and that run no user code."""

_AXES = (
    keras.layers.LayerNormalization,
    keras.layers.RMSNormalization,
)
"""Layers that turn their axis into a list when they are built."""


def before_build(layer: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the config that a Keras layer had before it was built."""
    before = dict(config)
    if type(layer) in _AXES and layer.built and len(before["axis"]) == 1:
        (before["axis"],) = before["axis"]
    if type(layer) is keras.layers.MultiHeadAttention and layer.built:
        shapes = (layer.get_build_config() or {}).get("shapes_dict") or {}
        rank = len(shapes.get("query_shape") or ())
        if before["attention_axes"] == tuple(range(1, rank - 1)):
            before["attention_axes"] = None
    return before


def shortened(layer: Any, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config with one number where all axes have the same, and without derived values."""
    before = before_build(layer, config)
    short = {key: _one(value) if key in _SIZES else value for key, value in before.items()}
    if "pool_size" in short and short.get("strides") == short["pool_size"]:
        short["strides"] = None
    short |= {key: _span(value) for key, value in short.items() if key.endswith("factor")}
    if type(layer) is keras.layers.Normalization:
        short["axis"] = _one(short["axis"])
    if isinstance(layer, keras.layers.Bidirectional):
        return _one_direction(layer, short)
    if isinstance(layer, keras.layers.MultiHeadAttention):
        value, key = short.get("value_dim"), short.get("key_dim")
        short["value_dim"] = None if value == key else value
    return short


def _one(value: Any) -> Any:
    """Return the number in a sequence of equal numbers, or of equal sequences."""
    if isinstance(value, (list, tuple)) and value:
        parts = [_one(part) for part in value]
        if type(parts[0]) is int and all(part == parts[0] for part in parts):
            return parts[0]
    return value


def _span(value: Any) -> Any:
    """Return the number in a range to either side of zero: 0.1 for `(-0.1, 0.1)`."""
    is_pair = isinstance(value, (list, tuple)) and len(value) == len(("from", "to"))
    return value[1] if is_pair and -value[0] == value[1] else value


def _one_direction(layer: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Return the config of a `Bidirectional` layer that creates its backward layer itself.

    Keras renames the layer that is passed to it, and sets one of its options.
    """
    forward = layer.forward_layer
    if type(forward) not in _RECURRENT:
        return config
    inner = internals.live_config(forward)
    name = inner["name"].removeprefix("forward_")
    inner |= {"name": name, "zero_output_for_mask": False}
    if not is_harmless(inner):
        return config
    original = deserialized(
        {
            "module": "keras.layers",
            "class_name": type(forward).__name__,
            "config": inner,
            "registered_name": None,
        },
        layer.name,
    )
    return {**config, "layer": original, "backward_layer": None}
