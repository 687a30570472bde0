"""Which layers can be quantized, and how."""

import functools
import re
from typing import Any

import keras
from keras import layers

from ramet import keras_internals as internals
from ramet.adapt.quantizing.attention import ATTENTION_CLASSES, QuantizedProjections
from ramet.adapt.quantizing.convolutions import INT8_CLASSES, Int8Kernel
from ramet.adapt.quantizing.moments import Contraction
from ramet.graph import Layer
from ramet.layers import Adapted

MODES = ("int8", "int4", "float8")
"""The ways to quantize a layer that need no data."""

CALIBRATED = "gptq"
"""The way that needs data: int4, rounded by what the layer reads."""

DENSE = (layers.Dense, layers.EinsumDense)
"""Classes that Keras quantizes in every mode without data."""

EMBEDDINGS = (layers.Embedding, layers.ReversibleEmbedding)
"""Classes that Keras quantizes to integers."""

KERNELS: dict[type, tuple[str, ...]] = {
    **dict.fromkeys((*DENSE, *INT8_CLASSES), ("kernel",)),
    **dict.fromkeys(EMBEDDINGS, ("embeddings", "reverse_embeddings")),
}
"""The weights that are quantized, by the exact class of the layer."""


def reason_against(layer: Layer, mode: str) -> str | None:
    """Return why a layer cannot be quantized; `None` if it can be."""
    if mode_of(layer) is not None:
        return f"it is already quantized ({mode_of(layer)})"
    cls = type(layer.origin)
    if cls not in KERNELS and cls not in ATTENTION_CLASSES:
        return _reason_against_class(layer)
    if not layer.facts.built:
        return "it has no weights yet; build the graph first"
    return _reason_against_state(layer) or _reason_against_mode(layer, mode)


def _reason_against_state(layer: Layer) -> str | None:
    reason = None
    if layer.steps:
        reason = "it has adapters; merge them first, or quantize it before you add them"
    elif any(
        getattr(part, "lora_enabled", False) for part in internals.all_layers(layer.origin)
    ) or (layer.changes or {}).get("lora_rank"):
        reason = "it has LoRA weights; merge them first"
    elif type(layer.origin) in ATTENTION_CLASSES and layer.is_changed:
        reason = "an edit changes it before; build the graph first"
    return reason


def _reason_against_mode(layer: Layer, mode: str) -> str | None:
    cls, policy = type(layer.origin), keras.dtype_policies.get(source_policy(layer))
    reason = None
    if cls in INT8_CLASSES and mode != "int8":
        reason = "convolutions are quantized to int8 only"
    elif cls in EMBEDDINGS and mode not in ("int8", "int4"):
        reason = f"Keras quantizes {layer.kind} to int8 and int4 only"
    elif cls not in INT8_CLASSES and mode == "int8" and policy.compute_dtype == "float16":
        reason = "Keras's int8 does not work in float16; cast it to bfloat16 first"
    elif cls is layers.EinsumDense and mode != "float8":
        reason = _reason_against_equation(layer.origin.equation, mode)
    if reason is None and mode == CALIBRATED:
        reason = _reason_against_calibration(layer)
    return reason


def _reason_against_equation(equation: str, mode: str) -> str | None:
    """Return why Keras cannot quantize an EinsumDense; `None` if it can."""
    if "..." in equation:
        return f"Keras cannot quantize the equation '{equation}'; write it without an ellipsis"
    inputs, kernel, outputs = re.split(r",|->", equation.replace(" ", ""))
    alone = {*inputs} - {*kernel} - {*outputs}
    if alone and mode == "int8":
        axes = ", ".join(sorted(alone))
        return f"Keras's int8 gives '{equation}' wrong scales, as it sums over {axes}; use int4"
    return None


def _reason_against_calibration(layer: Layer) -> str | None:
    if type(layer.origin) not in DENSE:
        return f"{CALIBRATED} is for Dense and EinsumDense"
    rank = len((internals.build_shapes(layer.origin) or {}).get("input_shape") or ())
    return Contraction.of(layer.origin, rank).reason


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
    if isinstance(layer.origin, QuantizedProjections):
        return layer.origin.mode
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
        with internals.quick_collections():
            probe.quantize(mode)
    return probe.dtype_policy
