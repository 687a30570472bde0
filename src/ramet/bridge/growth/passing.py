"""Keras's layers and operations that hand channels on: as they are, joined or moved."""

from collections.abc import Sequence
from typing import Any, cast

from ramet.bridge import internals
from ramet.bridge.growth.axes import Axes, Part, agreed, crossed, joined
from ramet.bridge.growth.makers import channel_axis
from ramet.bridge.growth.site import Made, Rule, Site, Slots

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


def _keep(site: Site) -> Made:
    axes = site.tensor()
    return Made([] if axes is None else [axes])


def _merge(site: Site) -> Made:
    """Adds tensors up, or the like; smaller ones are spread out first."""
    tensors = site.tensors()
    if not tensors or not site.shapes or hasattr(site.layer, "axis"):
        return Made()  # The operation Average takes a mean along an axis.
    made: list[Part] = []
    for axis in range(-len(site.shapes[0]), 0):
        parts = [axes[axis] for axes in tensors if len(axes) >= -axis]
        size = site.shapes[0][axis]
        made.append(agreed([part for part in parts if part.size == size] or parts))
    return Made([tuple(made)])


def _concatenate(site: Site) -> Made:
    tensors = site.tensors()
    if not tensors:
        return Made()
    made: list[Part] = []
    for axis in range(len(tensors[0])):
        parts = [axes[axis] for axes in tensors]
        along = axis == site.layer.axis % len(tensors[0])
        made.append(joined(parts) if along else agreed(parts))
    return Made([tuple(made)])


def _reshape(site: Site) -> Made:
    """Reshape and Flatten: axes stay as they are, or several become one."""
    axes = site.tensor()
    if axes is None or not site.shapes:
        return Made()
    if getattr(site.layer, "data_format", None) == "channels_first" and len(axes) > 1:
        axes = (axes[0], *axes[2:], axes[1])  # Flatten moves the channels to the end first.
    return Made([regrouped(site, axes, site.shapes[0])])


def regrouped(site: Site, axes: Axes, shape: Sequence[int | None]) -> Axes:
    """Returns the axes of a tensor whose axes were kept or multiplied, as far as that is known."""
    made: list[Part] = []
    waiting = list(axes[1:])
    for axis, size in [*enumerate(shape)][:0:-1]:
        taken: list[Part] = []
        while waiting and (not taken or crossed(taken).size != size):
            if taken and (size is None or crossed(taken).size is None):
                break
            taken.insert(0, waiting.pop())
        if not taken or crossed(taken).size != size:
            unknown = [site.fixed(f"shape {i}", s) for i, s in enumerate(shape[: axis + 1])]
            return (*unknown, *made)
        if axis == 1:
            taken, waiting = [*waiting, *taken], []
            if crossed(taken).size != size:
                taken = [site.fixed("shape", size)]
        made.insert(0, crossed(taken))
    return (axes[0], *made)


def _permute(site: Site) -> Made:
    axes = site.tensor()
    dims = getattr(site.layer, "dims", None)
    return Made([] if axes is None or dims is None else [(axes[0], *(axes[dim] for dim in dims))])


def _transpose(site: Site) -> Made:
    axes = site.tensor()
    order: Any = getattr(site.layer, "axes", None)
    if axes is None:
        return Made()
    return Made([tuple(axes[i] for i in order) if order is not None else axes[::-1]])


def _repeat(site: Site) -> Made:
    axes = site.tensor()
    return Made([] if axes is None else [(axes[0], site.places(1), *axes[1:])])


def _expand(site: Site) -> Made:
    axes, at = site.tensor(), site.layer.axis
    if axes is None or not isinstance(at, int):
        return Made()
    at %= len(axes) + 1
    return Made([(*axes[:at], site.fixed("one", 1), *axes[at:])])


def _squeeze(site: Site) -> Made:
    axes, at = site.tensor(), site.layer.axis
    if axes is None or not isinstance(at, int):
        return Made()
    at %= len(axes)
    return Made([(*axes[:at], *axes[at + 1 :])])


def _item(site: Site) -> Made:
    """An item or slice: axes of which all is taken stay."""
    axes, key = site.tensor(), site.constants.get("key")
    if axes is None or not site.shapes:
        return Made()
    steps = [*key] if isinstance(key, tuple) else [key]
    if any(not isinstance(step, (int, slice)) and step is not Ellipsis for step in steps):
        return Made()
    if Ellipsis in steps:
        at = steps.index(Ellipsis)
        steps[at : at + 1] = [slice(None)] * (len(axes) - len(steps) + 1)
    steps += [slice(None)] * (len(axes) - len(steps))
    made: list[Part] = []
    for part, step in zip(axes, steps, strict=True):
        if isinstance(step, slice):
            whole = step == slice(None)
            size = site.shapes[0][len(made)]
            made.append(part if whole else site.fixed(f"slice {len(made)}", size))
    return Made([tuple(made)])


def _reduce(site: Site) -> Made:
    """Means and sums over axes: the other axes stay."""
    axes, over = site.tensor(), site.layer.axis
    if axes is None:
        return Made()
    gone = {i % len(axes) for i in (range(len(axes)) if over is None else _tuple(over))}
    one = site.fixed("one", 1)
    kept = [
        one if i in gone else part
        for i, part in enumerate(axes)
        if i not in gone or site.layer.keepdims
    ]
    return Made([tuple(kept)])


def _tuple(value: Any) -> tuple[int, ...]:
    return tuple(cast("Any", value)) if isinstance(value, (list, tuple)) else (value,)


def _spatial(site: Site) -> Made:
    """Pooling, padding, cropping, upsampling: the channels stay, the places are others."""
    axes = site.tensor()
    if axes is None or not site.shapes or len(site.shapes[0]) != len(axes):
        return Made()
    made = [axes[0], *(site.places(axis) for axis in range(1, len(axes)))]
    data_format = getattr(site.layer, "data_format", "channels_last")
    at = 1 if data_format == "channels_first" else -1
    made[at] = axes[at]
    return Made([tuple(made)])


def _global(site: Site) -> Made:
    axes = site.tensor()
    if axes is None:
        return Made()
    at = channel_axis(site.layer, len(axes) - 2)
    if not site.layer.keepdims:
        return Made([(axes[0], axes[at])])
    made = [axes[0], *[site.fixed("one", 1)] * (len(axes) - 1)]
    made[at] = axes[at]
    return Made([tuple(made)])


# --- layers that keep axes and have a weight for some ---


def _along(site: Site, names: Sequence[str], axis: Any, family: str) -> Made:
    """Weights that have one value per index of some axes of what is read."""
    axes = site.tensor()
    rank = len(axes or (internals.build_shapes(site.layer) or {}).get("input_shape") or ())
    at = sorted(i % rank if rank else i for i in _tuple(axis))
    slots: Slots = tuple((f"in{i}", site.input(i)) for i in at)
    return Made([] if axes is None else [axes], dict.fromkeys(names, slots), family=family)


def _batch_norm(site: Site) -> Made:
    stats = ("moving_mean", "moving_variance", "moving_stddev", "renorm_mean", "renorm_stddev")
    return _along(site, ("gamma", "beta", *stats), site.layer.axis, "norm")


def _norm(site: Site) -> Made:
    return _along(site, ("gamma", "beta", "scale"), site.layer.axis, "norm")


def _normalization(site: Site) -> Made:
    return _along(site, ("mean", "variance"), site.layer.axis, "normalization")


def _prelu(site: Site) -> Made:
    axes = site.tensor()
    if axes is None:
        return Made(family="prelu")
    shared = site.layer.shared_axes or ()
    slots: Slots = tuple(
        ("shared", site.fixed("one", 1)) if i in shared else (f"in{i}", axes[i])
        for i in range(1, len(axes))
    )
    return Made([axes], {"alpha": slots}, family="prelu")


def _encoding(site: Site) -> Made:
    """CategoryEncoding: one channel per token."""
    axes = site.tensor()
    if axes is None or not site.shapes:
        return Made()
    rank, tokens = len(site.shapes[0]), site.own("tokens", site.layer.num_tokens)
    return Made([(*(site.places(axis) for axis in range(rank - 1)), tokens)])


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
"""What layers and operations of Keras's hand on, by class."""
