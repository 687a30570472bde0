"""Keras's layers and operations that pass channels on: as they are, joined or moved."""

from collections.abc import Sequence
from typing import Any, cast

from ramet import keras_internals as internals
from ramet.building.growth.axes import Axes, Part, agreed, crossed, joined
from ramet.building.growth.makers import channel_axis
from ramet.building.growth.site import Meaning, Rule, Site, Slots

_KEEPING = (
    # Layers that change values, or nothing.
    "Activation ReLU LeakyReLU ELU Softmax Dropout BaseSpatialDropout AlphaDropout "
    "GaussianDropout GaussianNoise ActivityRegularization Identity Masking Rescaling "
    "UnitNormalization "
    # Operations on one tensor.
    "Absolute Abs Arctan Cbrt Ceil Clip Copy Cos Cosh Exp Exp2 Expm1 Floor Log Log10 Log1p Log2 "
    "Negative Reciprocal Round Rsqrt Sign Sin Sinh Sqrt Square Tan Tanh Trunc NanToNum Erf "
    "OnesLike ZerosLike Relu Relu6 Sigmoid SparseSigmoid Softplus Softsign SoftShrink SparsePlus "
    "Silu Squareplus LogSigmoid LeakyRelu HardSigmoid HardSilu Elu Selu Gelu Celu TanhShrink "
    "HardTanh HardShrink Threshold LogSoftmax Sparsemax Cast SaturateCast StopGradient Cumsum "
    "Normalize"
)
_MERGING = (
    "Add Subtract Multiply Average Maximum Minimum Divide TrueDivide DivideNoNan FloorDivide "
    "Power Mod Where"
)


def _keep(site: Site) -> Meaning:
    axes = site.tensor()
    return Meaning([] if axes is None else [axes])


def _merge(site: Site) -> Meaning:
    """Merge tensors by Add or the like; smaller ones are broadcast first."""
    tensors = site.tensors()
    if not tensors or not site.shapes or hasattr(site.layer, "axis"):
        return Meaning()  # The operation Average computes a mean along an axis.
    output: list[Part] = []
    for axis in range(-len(site.shapes[0]), 0):
        parts = [axes[axis] for axes in tensors if len(axes) >= -axis]
        size = site.shapes[0][axis]
        output.append(agreed([part for part in parts if part.size == size] or parts))
    return Meaning([tuple(output)])


def _concatenate(site: Site) -> Meaning:
    tensors = site.tensors()
    if not tensors:
        return Meaning()
    output: list[Part] = []
    for axis in range(len(tensors[0])):
        parts = [axes[axis] for axes in tensors]
        along = axis == site.layer.axis % len(tensors[0])
        output.append(joined(parts) if along else agreed(parts))
    return Meaning([tuple(output)])


def _reshape(site: Site) -> Meaning:
    """Reshape and Flatten: axes stay as they are, or several become one."""
    axes = site.tensor()
    if axes is None or not site.shapes:
        return Meaning()
    if getattr(site.layer, "data_format", None) == "channels_first" and len(axes) > 1:
        axes = (axes[0], *axes[2:], axes[1])  # Flatten moves the channels to the end first.
    return Meaning([regrouped(site, axes, site.shapes[0])])


def regrouped(site: Site, axes: Axes, shape: Sequence[int | None]) -> Axes:
    """Return the axes of a tensor whose axes were kept or multiplied, as far as that is known."""
    output: list[Part] = []
    waiting = list(axes[1:])
    for axis, size in [*enumerate(shape)][:0:-1]:
        taken: list[Part] = []
        while waiting and (not taken or crossed(taken).size != size):
            if taken and (size is None or crossed(taken).size is None):
                break
            taken.insert(0, waiting.pop())
        if not taken or crossed(taken).size != size:
            unknown = [site.fixed(f"shape {i}", s) for i, s in enumerate(shape[: axis + 1])]
            return (*unknown, *output)
        if axis == 1:
            taken, waiting = [*waiting, *taken], []
            if crossed(taken).size != size:
                taken = [site.fixed("shape", size)]
        output.insert(0, crossed(taken))
    return (axes[0], *output)


def _permute(site: Site) -> Meaning:
    axes = site.tensor()
    dims = getattr(site.layer, "dims", None)
    return Meaning(
        [] if axes is None or dims is None else [(axes[0], *(axes[dim] for dim in dims))]
    )


def _transpose(site: Site) -> Meaning:
    axes = site.tensor()
    order: Any = getattr(site.layer, "axes", None)
    if axes is None:
        return Meaning()
    return Meaning([tuple(axes[i] for i in order) if order is not None else axes[::-1]])


def _repeat(site: Site) -> Meaning:
    axes = site.tensor()
    return Meaning([] if axes is None else [(axes[0], site.places(1), *axes[1:])])


def _expand(site: Site) -> Meaning:
    axes, at = site.tensor(), site.layer.axis
    if axes is None or not isinstance(at, int):
        return Meaning()
    at %= len(axes) + 1
    return Meaning([(*axes[:at], site.fixed("one", 1), *axes[at:])])


def _squeeze(site: Site) -> Meaning:
    axes, at = site.tensor(), site.layer.axis
    if axes is None or not isinstance(at, int):
        return Meaning()
    at %= len(axes)
    return Meaning([(*axes[:at], *axes[at + 1 :])])


def _item(site: Site) -> Meaning:
    """An item or slice: axes that are taken whole stay."""
    axes, key = site.tensor(), site.constants.get("key")
    if axes is None or not site.shapes:
        return Meaning()
    steps = [*key] if isinstance(key, tuple) else [key]
    if any(not isinstance(step, (int, slice)) and step is not Ellipsis for step in steps):
        return Meaning()
    if Ellipsis in steps:
        at = steps.index(Ellipsis)
        steps[at : at + 1] = [slice(None)] * (len(axes) - len(steps) + 1)
    steps += [slice(None)] * (len(axes) - len(steps))
    output: list[Part] = []
    for part, step in zip(axes, steps, strict=True):
        if isinstance(step, slice):
            whole = step == slice(None)
            size = site.shapes[0][len(output)]
            output.append(part if whole else site.fixed(f"slice {len(output)}", size))
    return Meaning([tuple(output)])


def _reduce(site: Site) -> Meaning:
    """Means and sums over axes: the other axes stay."""
    axes, over = site.tensor(), site.layer.axis
    if axes is None:
        return Meaning()
    gone = {i % len(axes) for i in (range(len(axes)) if over is None else _tuple(over))}
    one = site.fixed("one", 1)
    kept = [
        one if i in gone else part
        for i, part in enumerate(axes)
        if i not in gone or site.layer.keepdims
    ]
    return Meaning([tuple(kept)])


def _tuple(value: Any) -> tuple[int, ...]:
    return tuple(cast("Any", value)) if isinstance(value, (list, tuple)) else (value,)


def _spatial(site: Site) -> Meaning:
    """Pooling, padding, cropping, upsampling: the channels stay, the positions change."""
    axes = site.tensor()
    if axes is None or not site.shapes or len(site.shapes[0]) != len(axes):
        return Meaning()
    output = [axes[0], *(site.places(axis) for axis in range(1, len(axes)))]
    data_format = getattr(site.layer, "data_format", "channels_last")
    at = 1 if data_format == "channels_first" else -1
    output[at] = axes[at]
    return Meaning([tuple(output)])


def _global(site: Site) -> Meaning:
    axes = site.tensor()
    if axes is None:
        return Meaning()
    at = channel_axis(site.layer, len(axes) - 2)
    if not site.layer.keepdims:
        return Meaning([(axes[0], axes[at])])
    output = [axes[0], *[site.fixed("one", 1)] * (len(axes) - 1)]
    output[at] = axes[at]
    return Meaning([tuple(output)])


# --- layers that keep axes and have a weight for some ---


def _along(site: Site, names: Sequence[str], axis: Any, family: str) -> Meaning:
    """Weights that have one value per index of some axes of the input."""
    axes = site.tensor()
    rank = len(axes or (internals.build_shapes(site.layer) or {}).get("input_shape") or ())
    at = sorted(i % rank if rank else i for i in _tuple(axis))
    slots: Slots = tuple((f"in{i}", site.input(i)) for i in at)
    return Meaning([] if axes is None else [axes], dict.fromkeys(names, slots), family=family)


def _batch_norm(site: Site) -> Meaning:
    stats = ("moving_mean", "moving_variance", "moving_stddev", "renorm_mean", "renorm_stddev")
    return _along(site, ("gamma", "beta", *stats), site.layer.axis, "norm")


def _norm(site: Site) -> Meaning:
    return _along(site, ("gamma", "beta", "scale"), site.layer.axis, "norm")


def _normalization(site: Site) -> Meaning:
    return _along(site, ("mean", "variance"), site.layer.axis, "normalization")


def _prelu(site: Site) -> Meaning:
    axes = site.tensor()
    if axes is None:
        return Meaning(family="prelu")
    shared = site.layer.shared_axes or ()
    slots: Slots = tuple(
        ("shared", site.fixed("one", 1)) if i in shared else (f"in{i}", axes[i])
        for i in range(1, len(axes))
    )
    return Meaning([axes], {"alpha": slots}, family="prelu")


def _encoding(site: Site) -> Meaning:
    """CategoryEncoding: one channel per token."""
    axes = site.tensor()
    if axes is None or not site.shapes:
        return Meaning()
    rank, tokens = len(site.shapes[0]), site.own("tokens", site.layer.num_tokens)
    return Meaning([(*(site.places(axis) for axis in range(rank - 1)), tokens)])


PASSING: dict[str, Rule] = {
    **dict.fromkeys(_KEEPING.split(), _keep),
    **dict.fromkeys(_MERGING.split(), _merge),
    **dict.fromkeys(("Mean", "Sum", "Max", "Min", "Prod", "Amax", "Amin", "Var", "Std"), _reduce),
    "Concatenate": _concatenate,
    "Flatten": _reshape,
    "Reshape": _reshape,
    "Permute": _permute,
    "Transpose": _transpose,
    "RepeatVector": _repeat,
    "ExpandDims": _expand,
    "Squeeze": _squeeze,
    "GetItem": _item,
    "BasePooling": _spatial,
    "BaseAdaptivePooling": _spatial,
    "BaseGlobalPooling": _global,
    **dict.fromkeys(
        [
            f"{what}{rank}D"
            for what in ("ZeroPadding", "Cropping", "UpSampling")
            for rank in (1, 2, 3)
        ],
        _spatial,
    ),
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _norm,
    "GroupNormalization": _norm,
    "RMSNormalization": _norm,
    "Normalization": _normalization,
    "PReLU": _prelu,
    "CategoryEncoding": _encoding,
}
"""Rules for layers and operations that pass channels on, by class."""
