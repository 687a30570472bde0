"""Which layers others can be folded into, and which lie between without minding."""

from dataclasses import replace
from typing import Any

import keras
import numpy as np

from ramet.backends import is_of_keras
from ramet.building.weights.computed import read_value
from ramet.compress.folding import arrays
from ramet.compress.folding.affine import Affine, Place, bases_among, runs_in_inference
from ramet.compress.folding.linear import LINEAR, Linear, linear
from ramet.compress.folding.site import BUILD_FIRST, Kept, Site
from ramet.compress.folding.weights import Weights
from ramet.errors import RametError
from ramet.graph import Call, Layer, Ref
from ramet.graph.tree import leaves
from ramet.graph.values import Array, Value
from ramet.layers import Adapted

# --- layers with kernels ---


def rule_of(site: Site, call: Call) -> Linear | None:
    """Return how the layer of a call computes its channels; `None` if it has no kernel.

    Raises:
        Kept: If its weights may not be changed.
    """
    place = site.place(call)
    if place is None or place.layer.is_operation or not call.outputs[0].known or not place.shape:
        return None
    kind, name = place.layer.kind, place.layer.name
    if place.layer.steps:
        raise Kept(f"an edit changes the weights of '{name}' on build; {BUILD_FIRST}")
    if isinstance(place.live, Adapted):
        raise Kept(f"the kernels of '{name}' have adapters; merge them into it first")
    if kind not in LINEAR or not is_of_keras(type(place.live)):
        known = bases_among(type(place.live), frozenset(LINEAR))
        if known:
            raise Kept(f"'{name}' ({kind}) may compute something else than {known[0]}")
        return None
    rule = linear(place.live, kind, (len(place.shape), len(call.outputs[0].shape)))
    if isinstance(rule, str):
        raise Kept(f"of '{name}', {rule}")
    reason = site.uses.why_shared(place.layer) or why_fixed(place.layer, place.live)
    if reason is not None:
        raise Kept(reason)
    return rule


def why_fixed(layer: Layer, live: Any) -> str | None:
    """Return why the weights of a layer may not be changed."""
    name = layer.name
    if layer.is_changed and not layer.facts.built:
        return f"'{name}' has no weights yet; {BUILD_FIRST}"
    if getattr(live, "lora_enabled", False):
        return f"the kernel of '{name}' has LoRA factors; merge them into it first"
    mode = getattr(live.dtype_policy, "quantization_mode", None)
    if mode is not None:
        return f"the kernel of '{name}' is quantized ({mode}); fold before you quantize"
    for attribute, value in vars(live).items():
        if attribute.endswith("_constraint") and value is not None:
            constraint = type(value).__name__
            return (
                f"the weights of '{name}' have a constraint ({constraint}), which folding may break"
            )
    return None


def check_no_activation(site: Site, call: Call) -> None:
    """Check that a layer returns what its kernel computes.

    Raises:
        Kept: If it has an activation.
    """
    place = site.place(call)
    activation = None if place is None else getattr(place.live, "activation", None)
    if place is not None and not is_linear(activation):
        name = getattr(activation, "__name__", type(activation).__name__)
        raise Kept(f"'{place.layer.name}' has an activation ({name})")


def is_linear(activation: Any) -> bool:
    """Whether an activation does nothing."""
    return activation is None or activation is keras.activations.linear


# --- layers between ---

IDLE_IN_INFERENCE = (
    "ActivityRegularization",
    "AlphaDropout",
    "Dropout",
    "GaussianDropout",
    "GaussianNoise",
    "SpatialDropout1D",
    "SpatialDropout2D",
    "SpatialDropout3D",
    "StochasticDepth",
)
"""Layers of Keras that return their input, except in training."""


RESHAPING = ("Flatten", "Reshape")
"""Layers that keep the order of the elements, except a Flatten of channels that come first."""


def same_order(before: tuple[int | None, ...], after: tuple[int | None, ...]) -> bool:
    """Whether a tensor of one shape is itself when it is reshaped to another."""
    return before == after and sum(size is None for size in before[1:]) <= 1


def _keeps_all(live: Any) -> bool:
    """Whether a layer that crops, pads or repeats does so by nothing."""
    sizes = [getattr(live, name, 0) for name in ("cropping", "padding")]
    repeats = leaves(getattr(live, "size", 1))
    return not any(leaves(sizes)) and all(number == 1 for number in repeats)


def is_idle(place: Place, *, inference_only: bool) -> bool:
    """Whether a layer returns its input, always or in inference."""
    live, kind = place.live, place.layer.kind
    if not is_of_keras(type(live)) or place.layer.is_operation:
        return False
    if kind in IDLE_IN_INFERENCE and kind != "ActivityRegularization":
        rates = [getattr(live, name, None) for name in ("rate", "stddev")]
        is_off = any(isinstance(rate, (int, float)) and rate == 0 for rate in rates)
        return is_off or (inference_only and runs_in_inference(place))
    return (inference_only and kind == "ActivityRegularization") or _is_identity(place)


def _is_identity(place: Place) -> bool:
    """Whether a layer always returns its input."""
    live, kind = place.live, place.layer.kind
    if kind == "Permute":
        return tuple(live.dims) == tuple(range(1, len(live.dims) + 1))
    if kind in _COPYING or kind in _PADDING or kind == "UpSampling2D":
        return _keeps_all(live)
    if kind in RESHAPING:
        return place.is_settled and same_order(place.shape, place.call.outputs[0].shape)
    return kind == "Identity" or (kind == "Activation" and is_linear(live.activation))


_COPYING = ("Cropping1D", "Cropping2D", "Cropping3D", "UpSampling1D", "UpSampling3D")
_PADDING = ("ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D")
_AVERAGES = ("AveragePooling1D", "AveragePooling2D", "AveragePooling3D")


def _passes(place: Place, affine: Affine) -> bool:
    """Whether a layer returns the same, scaled and shifted, if its input is."""
    kind, live = place.layer.kind, place.live
    if not is_of_keras(type(live)):
        return False
    if kind in _PADDING and affine.shift is not None:
        raise Kept(f"'{place.layer.name}' ({kind}) pads with zeros, which a shift would change")
    return (
        kind in _COPYING
        or kind in _PADDING
        or (kind == "UpSampling2D" and live.interpolation == "nearest")
        or (kind in _AVERAGES and live.padding == "valid")
        or is_idle(place, inference_only=True)
    )


def above(site: Site, call: Call, affine: Affine) -> list[tuple[Ref, Affine]]:
    """Return what has to be scaled and shifted for the output of a call to be.

    Raises:
        Kept: If the layer computes something that this is not known of.
    """
    layer = site.layer(call)
    place = site.place(call)
    if place is not None and not layer.is_operation and _passes(place, affine):
        return [(site.source(ref), affine) for ref in [site.input_of(call)] if ref is not None]
    refs = [site.source(leaf) for leaf in leaves(call.args) if isinstance(leaf, Ref)]
    if is_of_keras(type(layer.origin)) and not layer.is_operation and len(refs) > 1:
        if layer.kind == "Add" and len({len(site.spec(ref).shape) for ref in refs}) == 1:
            if len({site.spec(ref).shape for ref in refs}) > 1:
                raise Kept(f"'{layer.name}' broadcasts its inputs")
            return [(refs[0], affine), *((ref, affine.without_shift()) for ref in refs[1:])]
        if layer.kind == "Concatenate":
            return _joined(site, call, refs, affine)
    raise Kept(f"'{layer.name}' ({layer.kind}) is not a layer with a kernel")


def _joined(site: Site, call: Call, refs: list[Ref], affine: Affine) -> list[tuple[Ref, Affine]]:
    """Return what has to be scaled and shifted for a concatenation to be."""
    axis = site.layer(call).origin.axis % len(call.outputs[0].shape)
    if axis != affine.axis:
        return [(ref, affine) for ref in refs]
    parts: list[tuple[Ref, Affine]] = []
    start = 0
    for ref in refs:
        size = site.size(ref, axis)
        scale, shift = (
            None if each is None else arrays.part(each, start, start + size)
            for each in (affine.scale, affine.shift)
        )
        parts.append((ref, replace(affine, scale=scale, shift=shift)))
        start += size
    return parts


def below(site: Site, call: Call, affine: Affine) -> Affine:
    """Return by what the output of a call is scaled and shifted if its input is.

    Raises:
        Kept: If the layer computes something that this is not known of.
    """
    layer, place = site.layer(call), site.place(call)
    if place is not None and not layer.is_operation:
        if _passes(place, affine):
            return affine
        if is_of_keras(type(place.live)):
            if layer.kind == "Flatten":
                return _flattened(place, affine)
            if layer.kind.startswith("GlobalAveragePooling"):
                return _pooled(place, affine)
    raise Kept(f"'{layer.name}' ({layer.kind}) is not a layer with a kernel")


def _flattened(place: Place, affine: Affine) -> Affine:
    if affine.axis is None:
        return affine
    sizes = [size for size in place.shape[1:] if size is not None]
    is_known = len(sizes) == len(place.shape) - 1 and place.is_settled
    if not is_known or place.live.data_format != "channels_last":
        raise Kept(f"the order in which '{place.layer.name}' flattens channels is not known")
    scale, shift = (
        None if each is None else arrays.flattened(each, sizes, affine.axis - 1)
        for each in (affine.scale, affine.shift)
    )
    return replace(affine, scale=scale, shift=shift, axis=1)


def _pooled(place: Place, affine: Affine) -> Affine:
    last = place.live.data_format == "channels_last"
    if affine.axis is None or affine.axis == (len(place.shape) - 1 if last else 1):
        keeps = affine.axis is None or place.live.keepdims
        return affine if keeps else replace(affine, axis=1)
    raise Kept(f"'{place.layer.name}' pools the axis that it scales")


# --- values that are known already ---


def known_value(value: Value) -> Array | None:
    """Return a value if it can be computed now: of layers that no edit changed."""
    try:
        return read_value(value, lambda _: None)
    except RametError:
        return None


def without_zeros(affine: Affine) -> Affine:
    """Return an affine function without a shift whose values are all 0."""
    if affine.shift is None:
        return affine
    shift = known_value(affine.shift)
    return affine.without_shift() if shift is not None and not shift.any() else affine


def check_range(weights: Weights, live: Any) -> None:
    """Check that folded weights fit into float16, if the layer computes in it.

    Raises:
        Kept: If they do not.
    """
    if "float16" not in (live.compute_dtype, live.variable_dtype):
        return
    most = float(np.finfo(np.float16).max)
    for value in weights.whole():
        array = known_value(value)
        if array is None or not (np.abs(array) <= most).all():
            raise Kept(f"the folded weights of '{weights.layer.name}' overflow float16")
