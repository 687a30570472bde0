"""The dtype policies of layers, and how they are changed in their configs."""

import functools
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.backends import is_of_keras
from ramet.building.reconfigure import check_changes, made_with
from ramet.errors import OptionError
from ramet.graph import Layer
from ramet.layers import Adapted
from ramet.tracing.configs import raw_config

POLICIES = ("float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16")
"""The policies that a layer can be cast to."""


def policy_of(layer: Layer) -> Any:
    """Return the dtype policy of a layer, with its edits."""
    live = layer.origin
    policy = keras.dtype_policies.get((layer.changes or {}).get("dtype", live.dtype_policy))
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        return policy[live.path]
    return policy


def can_be_cast(layer: Layer) -> bool:
    """Whether a layer computes with floats by a policy of its own."""
    if layer.is_input or layer.graph is not None or not isinstance(layer.origin, keras.Layer):
        return False
    compute = policy_of(layer).compute_dtype
    return compute is not None and keras.backend.is_float_dtype(compute)


def changes_for(layer: Layer, dtype: str) -> dict[str, Any]:
    """Return the constructor arguments by which a layer, and those in its config, are cast."""
    policy = keras.dtype_policies.get(dtype)
    config = {**raw_config(layer.origin), **(layer.changes or {})}
    inner = {key: _recast(value, policy) for key, value in config.items() if key != "dtype"}
    return {"dtype": policy} | {
        key: value for key, value in inner.items() if value is not config[key]
    }


def reason_against(layer: Layer, dtype: str) -> str | None:
    """Return why a layer cannot be cast; `None` if it can be."""
    if getattr(policy_of(layer), "quantization_mode", None) is not None:
        return f"it is quantized ({policy_of(layer).name}); cast before quantizing"
    try:
        changes = changes_for(layer, dtype)
        check_changes(layer, changes)
    except OptionError as error:
        return str(error)
    reason = _reason_of_initializers(layer, dtype)
    if isinstance(layer.origin, Adapted):
        reason = "it has adapters; merge them and build the graph, or cast before you add them"
    if reason is not None or is_of_keras(type(layer.origin)):
        return reason
    twin = made_with(layer.origin, {**(layer.changes or {}), **changes})
    if twin is None:
        return "it cannot be re-created from its config with another dtype"
    deaf = [part.name for part in internals.all_layers(twin) if part.dtype_policy.name != dtype]
    if deaf:
        return (
            f"its part '{deaf[0]}' does not take the policy over; pass dtype=self.dtype_policy to "
            "it in the constructor"
        )
    return None


def _reason_of_initializers(layer: Layer, dtype: str) -> str | None:
    """Return why Keras could not create the weights of a layer in a dtype, if it cannot."""
    wanted = keras.dtype_policies.get(dtype).variable_dtype
    parts = internals.all_layers(layer.origin)
    used = {type(value): value for part in parts for value in vars(part).values()}
    for cls, initializer in used.items():
        if issubclass(cls, keras.initializers.Initializer) and is_of_keras(cls):
            reason = _failure(cls, wanted)
            if reason is not None and _failure(cls, "float32") is None:
                name = type(initializer).__name__
                return f"Keras cannot create weights with {name} in {wanted} here: {reason}"
    return None


@functools.cache
def _failure(initializer: type, dtype: str) -> str | None:
    """Return how an initializer fails for a dtype on this backend; `None` if it does not."""
    try:
        with internals.untouched_randomness():
            initializer()((2, 2), dtype=dtype)
    except Exception as error:  # noqa: BLE001 backends raise anything
        return internals.reason_of(error)
    return None


def _recast(value: Any, policy: Any) -> Any:
    """Return a value of a config in which the layers have another dtype policy."""
    if isinstance(value, (list, tuple)):
        new = [_recast(item, policy) for item in value]
        same = all(a is b for a, b in zip(new, value, strict=True))
        return value if same else type(value)(new)
    if not isinstance(value, dict) or not isinstance(value.get("config"), dict):
        return value
    config = value["config"]
    new = {key: _recast(item, policy) for key, item in config.items() if key != "dtype"}
    if "dtype" in config and "class_name" in value and _is_layer(value):
        new["dtype"] = internals.serialized(policy)
    same = all(item is config[key] for key, item in new.items())
    return value if same else {**value, "config": {**config, **new}}


def _is_layer(value: dict[str, Any]) -> bool:
    return {"name", "trainable"} <= value["config"].keys()
