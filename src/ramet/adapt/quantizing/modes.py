"""Which layers can be quantized, and how."""

import functools
from typing import Any

import keras
from keras import layers

from ramet import keras_internals as internals
from ramet.adapt.quantizing.convolutions import INT8_CLASSES, Int8Kernel
from ramet.graph import Layer
from ramet.layers import Adapted

MODES = ("int8", "int4", "float8")
"""The ways to quantize a layer."""

CALIBRATED = ("gptq", "awq")
"""Those of Keras that need data, and are refused."""

DENSE = (layers.Dense, layers.EinsumDense)
"""Classes that Keras quantizes in every mode."""

KERNELS: dict[type, tuple[str, ...]] = {
    **dict.fromkeys((*DENSE, *INT8_CLASSES), ("kernel",)),
    layers.Embedding: ("embeddings",),
    layers.ReversibleEmbedding: ("embeddings", "reverse_embeddings"),
}
"""The weights that are quantized, by the exact class of the layer."""


def reason_against(layer: Layer, mode: str) -> str | None:
    """Return why a layer cannot be quantized; `None` if it can be."""
    live, cls = layer.origin, type(layer.origin)
    if mode_of(layer) is not None:
        return f"it is quantized already ({mode_of(layer)})"
    if cls not in KERNELS:
        return _reason_against_class(layer)
    if not layer.facts.built:
        return "it has no weights yet; build the graph first"
    if layer.steps:
        return "it has adapters; merge them first, or quantize it before you add them"
    if getattr(live, "lora_enabled", False) or (layer.changes or {}).get("lora_rank"):
        return "it has LoRA weights; merge them first"
    return _reason_against_mode(layer, mode)


def _reason_against_mode(layer: Layer, mode: str) -> str | None:
    cls, policy = type(layer.origin), keras.dtype_policies.get(source_policy(layer))
    reason = None
    if cls in INT8_CLASSES and mode != "int8":
        reason = "convolutions are quantized to int8 only"
    elif cls not in (*DENSE, *INT8_CLASSES) and mode not in ("int8", "int4"):
        reason = f"Keras quantizes {layer.kind} to int8 and int4 only"
    elif cls not in INT8_CLASSES and mode == "int8" and policy.compute_dtype == "float16":
        reason = "Keras's int8 does not work in float16; cast it to bfloat16 first"
    return reason


def has_kernel(layer: Layer) -> bool:
    """Whether a layer has weights by which it multiplies, so that to quantize it makes sense."""
    parts = internals.all_layers(layer.origin) if isinstance(layer.origin, keras.Layer) else []
    variables = (variable for part in parts for variable in internals.layer_state(part))
    return layer.graph is None and (
        type(layer.origin) in KERNELS or any(len(each.shape) > 1 for each in variables)
    )


def _reason_against_class(layer: Layer) -> str:
    if isinstance(layer.origin, Adapted):
        return "it has adapters; merge them and build the graph, or quantize before you add them"
    bases = (known.__name__ for known in KERNELS if isinstance(layer.origin, known))
    base = next(bases, None)
    if base is not None:
        return f"a subclass of {base} may need its kernel as floats, so Keras does not quantize it"
    inner = internals.all_layers(layer.origin)[1:]
    if any(type(part) in KERNELS for part in inner):
        return (
            f"the config of a {layer.kind} does not say how the layers inside of it are "
            "quantized, so that a file could not be loaded"
        )
    return f"there is no quantized {layer.kind}"


def mode_of(layer: Layer) -> str | None:
    """Return how a layer is quantized, by itself or by an edit; `None` if it is not."""
    if isinstance(layer.origin, Int8Kernel):
        return "int8"
    policy = (layer.changes or {}).get("dtype", layer.origin)
    return getattr(policy, "quantization_mode", None)


def source_policy(layer: Layer) -> str:
    """Return the name of the dtype policy of a layer that is not quantized."""
    policy = keras.dtype_policies.get((layer.changes or {}).get("dtype", layer.origin.dtype_policy))
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        policy = policy[layer.origin.path]
    return str(policy.name)


@functools.cache
def quantized_policy(mode: str, source: str) -> Any:
    """Return the dtype policy that Keras gives to a layer that it quantizes.

    Args:
        mode: How.
        source: The name of the policy before.
    """
    with internals.untouched_names(), internals.untouched_randomness():
        probe = layers.Dense(1, dtype=source)
        probe.build((1, 1))
        probe.quantize(mode)
    return probe.dtype_policy
