"""Layers of Keras whose outputs follow from their config alone.

Each gives one tensor, makes no mask, and keeps all its weights in variables of which
`frozen_weights` knows how many are not trained. A rule gives the shape of the output
for the shapes of the inputs; `None` where only Keras can tell.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias, cast

Shape: TypeAlias = tuple[int | None, ...]
Rule: TypeAlias = Callable[..., Shape | None]


def _same(_config: dict[str, Any], shape: Shape) -> Shape:
    return shape


def _unknown(_config: dict[str, Any], *_shapes: Shape) -> None:
    return None


def _merged(_config: dict[str, Any], *shapes: Shape) -> Shape | None:
    return shapes[0] if len({*shapes}) == 1 else None


def _joined(config: dict[str, Any], *shapes: Shape) -> Shape | None:
    axis = config["axis"] % len(shapes[0])
    rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    sizes: list[int | None] = [shape[axis] for shape in shapes]
    if len(rest) > 1:
        return None
    whole = None if None in sizes else sum(size or 0 for size in sizes)
    return (*shapes[0][:axis], whole, *shapes[0][axis + 1 :])


def _units(config: dict[str, Any], shape: Shape) -> Shape:
    return (*shape[:-1], config["units"])


def _flat(_config: dict[str, Any], shape: Shape) -> Shape:
    sizes = shape[1:]
    whole = None if None in sizes else math.prod(size or 0 for size in sizes)
    return (shape[0], whole if sizes else 1)


def _reshaped(config: dict[str, Any], shape: Shape) -> Shape | None:
    sizes = tuple(config["target_shape"])
    return None if -1 in sizes else (shape[0], *sizes)


def _embedded(config: dict[str, Any], shape: Shape) -> Shape:
    return (*shape, config["output_dim"])


def _recurrent(config: dict[str, Any], shape: Shape) -> Shape:
    return (*shape[: 2 if config["return_sequences"] else 1], config["units"])


def _convolved(config: dict[str, Any], shape: Shape) -> Shape | None:
    if "depth_multiplier" in config and "filters" not in config:
        return _window(config, shape, lambda size: size and size * config["depth_multiplier"])
    return _window(config, shape, lambda _: config["filters"])


def _pooled(config: dict[str, Any], shape: Shape) -> Shape | None:
    return _window(config, shape, lambda size: size)


def _pooled_away(config: dict[str, Any], shape: Shape) -> Shape | None:
    last = config["data_format"] == "channels_last"
    return None if config["keepdims"] else (shape[0], shape[-1] if last else shape[1])


def _window(
    config: dict[str, Any], shape: Shape, channels: Callable[[int | None], int | None]
) -> Shape | None:
    """Returns the shape after a window went over the axes between batch and channels."""
    last = config["data_format"] == "channels_last"
    sizes = shape[1:-1] if last else shape[2:]
    window = config.get("kernel_size", config.get("pool_size"))
    step, spread = config["strides"], config.get("dilation_rate", 1)
    ways = [_per_axis(way, len(sizes)) for way in (window, step, spread)]
    if config["padding"] not in ("same", "valid") or any(len(x) != len(sizes) for x in ways):
        return None
    moved: list[int | None] = []
    for size, width, stride, gap in zip(sizes, *ways, strict=True):
        if size is None:
            moved.append(None)
        elif config["padding"] == "same":
            moved.append(-(-size // stride))
        else:
            moved.append((size - gap * (width - 1) - 1) // stride + 1)
    made = channels(shape[-1] if last else shape[1])
    return (shape[0], *moved, made) if last else (shape[0], made, *moved)


def _per_axis(value: Any, axes: int) -> list[int]:
    return cast("list[int]", value) if isinstance(value, list) else [value] * axes


def _each(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


LAYERS: dict[str, Rule] = {
    **_each("InputLayer Dense", _units),
    **_each("Activation ReLU LeakyReLU PReLU ELU Softmax", _same),
    **_each("Dropout SpatialDropout1D SpatialDropout2D SpatialDropout3D", _same),
    **_each("AlphaDropout GaussianDropout GaussianNoise ActivityRegularization", _same),
    **_each("BatchNormalization LayerNormalization GroupNormalization Identity", _same),
    **_each("UnitNormalization RMSNormalization Rescaling Normalization", _same),
    **_each("Flatten", _flat),
    **_each("Reshape", _reshaped),
    **_each("Embedding", _embedded),
    **_each("LSTM GRU SimpleRNN", _recurrent),
    **_each("Conv1D Conv2D Conv3D SeparableConv1D SeparableConv2D", _convolved),
    **_each("DepthwiseConv1D DepthwiseConv2D", _convolved),
    **_each("MaxPooling1D MaxPooling2D MaxPooling3D", _pooled),
    **_each("AveragePooling1D AveragePooling2D AveragePooling3D", _pooled),
    **_each("GlobalAveragePooling1D GlobalAveragePooling2D GlobalAveragePooling3D", _pooled_away),
    **_each("GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D", _pooled_away),
    **_each("Add Subtract Multiply Average Maximum Minimum", _merged),
    **_each("Concatenate", _joined),
    **_each("Conv1DTranspose Conv2DTranspose Conv3DTranspose EinsumDense", _unknown),
    **_each("UpSampling1D UpSampling2D UpSampling3D Permute RepeatVector Dot", _unknown),
    **_each("ZeroPadding1D ZeroPadding2D ZeroPadding3D", _unknown),
    **_each("Cropping1D Cropping2D Cropping3D", _unknown),
    **_each("MultiHeadAttention GroupQueryAttention", _unknown),
}
"""Rules by the names of classes."""

OPERATIONS = frozenset(
    name
    for line in (
        "Absolute Add Cast Clip Concatenate Cos Divide Exp ExpandDims Gelu GetItem Log Matmul",
        "Max Maximum Mean Min Minimum Multiply Negative OnesLike Power Relu Repeat Reshape",
        "Sigmoid Silu Sin Softmax Softplus Sqrt Square Squeeze Stack Subtract Sum Tanh Tile",
        "Transpose TrueDivide Where ZerosLike",
    )
    for name in line.split()
)
"""Operations that give one tensor."""

FLOATING = ("float16", "bfloat16", "float32", "float64")
"""What a layer casts to its own dtype."""

_ANY = frozenset(["Reshape", "Flatten", "Dropout", "Activation", "Identity", "Concatenate"])
"""Layers that leave a dtype that is not floating as it is."""


def dtype_of(kind: str, policy: Any, given: str) -> str | None:
    """Returns the dtype of what a layer gives for another; `None` where only Keras can tell."""
    name = policy if isinstance(policy, str) else _policy_name(policy)
    if name is None:
        return None
    made = name.removeprefix("mixed_")
    if given in FLOATING or kind == "Embedding":
        return made
    return given if kind in _ANY else None


def _policy_name(policy: Any) -> str | None:
    if not isinstance(policy, dict):
        return None
    described = cast("dict[str, Any]", policy)
    return described["config"]["name"] if described.get("class_name") == "DTypePolicy" else None


def frozen_weights(kind: str, config: dict[str, Any], count: int) -> int:
    """Returns how many of a layer's own variables are not trained; they come last."""
    if kind == "Normalization":
        return count
    if kind == "BatchNormalization":
        return count - bool(config["scale"]) - bool(config["center"])
    return 0
