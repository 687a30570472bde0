"""Layers and operations on single elements, and on positions."""

from collections.abc import Sequence

from ramet.compress.channels.rules.making import channel_axis, image
from ramet.compress.channels.rules.zeros import activated, normalized
from ramet.compress.channels.site import Axis, Site, Tensor, fixed, rule

_KEEPING = (
    "LeakyReLU ELU Dropout BaseSpatialDropout AlphaDropout GaussianDropout GaussianNoise "
    "ActivityRegularization Identity StochasticDepth "
    # Operations
    "Absolute Abs Arctan Arcsin Arcsinh Arctanh Cbrt Ceil Copy Expm1 Floor Log1p Negative Round "
    "Sign Sin Sinh Sqrt Square Tan Tanh Trunc NanToNum Erf ZerosLike Relu Relu6 Softsign "
    "SoftShrink Silu LeakyRelu HardSilu Elu Selu Gelu Celu TanhShrink HardTanh HardShrink Mish "
    "Cast SaturateCast StopGradient Conj Real Imag Deg2rad Rad2deg"
)
_CHANGING = (
    "Sigmoid SparseSigmoid Softplus SparsePlus Squareplus LogSigmoid HardSigmoid Threshold Exp "
    "Exp2 Cos Cosh Arccos Arccosh Log Log10 Log2 Reciprocal Rsqrt OnesLike Clip LogicalNot "
    "Isnan Isinf Isfinite"
)


@rule(*_KEEPING.split())
def keep(site: Site) -> Sequence[Tensor]:
    """Zeros stay zeros."""
    return [site.tensor()]


@rule(*_CHANGING.split())
def change(site: Site) -> Sequence[Tensor]:
    """Zeros may become something else."""
    return [site.all_nonzero(site.tensor())]


@rule("ReLU")
def relu(site: Site) -> Sequence[Tensor]:
    """Zero is below a threshold, where it may get a slope."""
    layer, seen = site.layer, site.tensor()
    is_lifted = layer.threshold > 0 and layer.negative_slope
    return [site.all_nonzero(seen) if is_lifted else seen]


@rule("Activation")
def activation(site: Site) -> Sequence[Tensor] | None:
    """A function by name."""
    output = activated(site, site.tensor(), site.layer.activation)
    return None if output is None else [output]


@rule("Softmax", "LogSoftmax", "Sparsemax")
def softmax(site: Site) -> Sequence[Tensor] | None:
    """A sum along one axis or several."""
    seen, axis = site.tensor(), getattr(site.layer, "axis", -1)
    if axis is None:
        return None
    for each in axis if isinstance(axis, (list, tuple)) else [axis]:
        normalized(site, seen, each, "softmax")
    return [site.all_nonzero(seen)]


@rule("Rescaling")
def rescaling(site: Site) -> Sequence[Tensor] | None:
    """A product and a sum with constants."""
    layer, seen = site.layer, site.tensor()
    if not isinstance(layer.scale, (int, float)) or not isinstance(layer.offset, (int, float)):
        return None
    return [site.all_nonzero(seen) if layer.offset else seen]


@rule("Masking")
def masking(site: Site) -> Sequence[Tensor]:
    """A step is masked if all of its channels have one value."""
    seen = site.tensor()
    for axis in seen[1:]:
        site.lose(axis, f"{site.name} compares all channels")
    return [seen]


# --- positions ---


@rule("BasePooling", "BaseAdaptivePooling", "MaxPool", "AveragePool")
def pooling(site: Site) -> Sequence[Tensor]:
    """The channels stay; positions are mixed."""
    seen = site.tensor()
    return [image(site, seen[channel_axis(site.layer, len(seen) - 2)])]


@rule("BaseGlobalPooling")
def global_pooling(site: Site) -> Sequence[Tensor]:
    """Only the channels stay."""
    seen, shape = site.tensor(), site.shapes[0]
    at = channel_axis(site.layer, len(seen) - 2) % len(seen)
    for i, axis in enumerate(seen):
        if i not in (0, at):
            site.positions(axis, 1)
    if len(shape) == 2:  # noqa: PLR2004 batch and channels
        return [(seen[0], seen[at])]
    return [tuple(seen[i] if i in (0, at) else Axis(1) for i in range(len(seen)))]


@rule(*(f"{what}{n}D" for what in ("ZeroPadding", "Cropping", "UpSampling") for n in (1, 2, 3)))
@rule("CenterCrop", "RandomFlip", "RandomTranslation", "RandomZoom", "RandomRotation")
def spatial(site: Site) -> Sequence[Tensor]:
    """Rows and columns become more or fewer."""
    seen = site.tensor()
    rank = len(seen) - 2
    if rank < 1:
        return [fixed(site.shapes[0])]
    return [image(site, seen[channel_axis(site.layer, rank)])]


@rule("Resizing", "Resize")
def resizing(site: Site) -> Sequence[Tensor] | None:
    """Rows and columns become more or fewer; what is around them may be filled."""
    layer, seen = site.layer, site.tensor()
    if len(seen) != 4:  # noqa: PLR2004 a batch of images
        return None
    output = image(site, seen[channel_axis(layer, 2)])
    fills = layer.pad_to_aspect_ratio and layer.fill_value
    return [site.all_nonzero(output) if fills else output]


@rule("InputLayer")
def input_layer(site: Site) -> Sequence[Tensor]:
    """What a model is called on stays."""
    return [fixed(shape) for shape in site.shapes]


@rule("Cumsum", "Cumprod")
def cumulative(site: Site) -> Sequence[Tensor] | None:
    """Sums along an axis, no part of which can be removed."""
    seen, along = site.tensor(), site.layer.axis
    if along is None:
        return None
    site.lock(seen[along], f"{site.name} adds it up")
    return [seen]


@rule("Normalize")
def normalize(site: Site) -> Sequence[Tensor]:
    """Zeros add nothing to a norm."""
    seen = site.tensor()
    site.read(seen[site.layer.axis])
    return [seen]
