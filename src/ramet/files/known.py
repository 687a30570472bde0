"""Keras layers whose outputs follow from their config alone.

Each returns one tensor, creates no mask, and keeps all its weights in variables of which
`frozen_weights` counts those that are not trained. A rule computes the shape of the output from
the shapes of the inputs, or returns `None` where only Keras can.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias, cast

Shape: TypeAlias = tuple[int | None, ...]
Rule: TypeAlias = Callable[..., Shape | None]


def _same(_config: dict[str, Any], *shapes: Shape) -> Shape | None:
    return shapes[0] if len(shapes) == 1 else None  # Identity has as many outputs as inputs.


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


def _recurrent(config: dict[str, Any], shape: Shape, *_states: Shape) -> Shape:
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
    """Return the shape after sliding a window over the axes between batch and channels."""
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
    depth = channels(shape[-1] if last else shape[1])
    return (shape[0], *moved, depth) if last else (shape[0], depth, *moved)


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

Weights: TypeAlias = Callable[[dict[str, Any], Shape], list[tuple[Any, ...]]]


def _biased(config: dict[str, Any], *shapes: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [*shapes, shapes[-1][-1:]] if config["use_bias"] else [*shapes]


def _dense_weights(config: dict[str, Any], shape: Shape) -> list[tuple[Any, ...]]:
    return _biased(config, (shape[-1], config["units"]))


def _table(config: dict[str, Any], _: Shape) -> list[tuple[Any, ...]]:
    return [(config["input_dim"], config["output_dim"])]


def _gated(gates: int) -> Weights:
    def weights(config: dict[str, Any], shape: Shape) -> list[tuple[Any, ...]]:
        units = config["units"]
        bias = (2, gates * units) if config.get("reset_after") else (gates * units,)
        kernels = [(shape[-1], gates * units), (units, gates * units)]
        return [*kernels, bias] if config["use_bias"] else kernels

    return weights


def _kernel(config: dict[str, Any], shape: Shape) -> list[tuple[Any, ...]]:
    depth = _depth(config, shape)
    if depth is None:
        raise ValueError("a convolution of any number of channels")
    size = tuple(_per_axis(config["kernel_size"], len(shape) - 2))
    if "filters" not in config:
        several = config["depth_multiplier"]
        kernel = (*size, depth, several)
        return [kernel, (depth * several,)] if config["use_bias"] else [kernel]
    if "depth_multiplier" in config:
        several = depth * config["depth_multiplier"]
        deep, wide = (*size, depth, config["depth_multiplier"]), (*[1] * len(size), several)
        return _biased(config, deep, (*wide, config["filters"]))
    return _biased(config, (*size, depth // config["groups"], config["filters"]))


def _transposed(config: dict[str, Any], shape: Shape) -> list[tuple[Any, ...]]:
    size = tuple(_per_axis(config["kernel_size"], len(shape) - 2))
    kernel = (*size, config["filters"], _depth(config, shape))
    return [kernel, (config["filters"],)] if config["use_bias"] else [kernel]


def _depth(config: dict[str, Any], shape: Shape) -> int | None:
    return shape[-1] if config["data_format"] == "channels_last" else shape[1]


def _normalizing(config: dict[str, Any], shape: Shape) -> list[tuple[Any, ...]]:
    axes = config.get("axis", -1)
    axes = cast("list[int]", axes) if isinstance(axes, list) else [axes]
    one = tuple(shape[axis] for axis in axes)
    wanted = [config.get("scale", True), config.get("center", "center" in config)]
    count = sum(map(bool, wanted)) + 2 * ("moving_mean_initializer" in config)
    return [one] * count


def _slopes(config: dict[str, Any], shape: Shape) -> list[tuple[Any, ...]]:
    shared: list[int] = config["shared_axes"] or []
    return [tuple(1 if at + 1 in shared else size for at, size in enumerate(shape[1:]))]


WEIGHTS: dict[str, Weights] = {
    **dict.fromkeys(["Dense"], _dense_weights),
    **dict.fromkeys(["Embedding"], _table),
    "LSTM": _gated(4),
    "GRU": _gated(3),
    "SimpleRNN": _gated(1),
    **dict.fromkeys(
        [
            *("Conv1D", "Conv2D", "Conv3D", "SeparableConv1D", "SeparableConv2D"),
            *("DepthwiseConv1D", "DepthwiseConv2D"),
        ],
        _kernel,
    ),
    **dict.fromkeys(["Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"], _transposed),
    **dict.fromkeys(
        ["BatchNormalization", "LayerNormalization", "GroupNormalization", "RMSNormalization"],
        _normalizing,
    ),
    **dict.fromkeys(["PReLU"], _slopes),
}
"""Shapes of the weights of layers, by the names of classes: computed from a config and an input."""

PARTS = frozenset(
    name
    for line in (
        # Initializers, regularizers, constraints, dtype policies
        "Zeros Ones Constant RandomNormal RandomUniform TruncatedNormal VarianceScaling Orthogonal",
        "GlorotNormal GlorotUniform HeNormal HeUniform LecunNormal LecunUniform Identity",
        "OrthogonalInitializer IdentityInitializer L1 L2 L1L2 MaxNorm NonNeg UnitNorm MinMaxNorm",
        "DTypePolicy",
        # Optimizers, losses, metrics
        "Adam AdamW SGD RMSprop Adagrad Adadelta Adamax Nadam Lion Lamb Ftrl LossScaleOptimizer",
        "MeanSquaredError MeanAbsoluteError BinaryCrossentropy CategoricalCrossentropy Huber",
        "SparseCategoricalCrossentropy Accuracy BinaryAccuracy CategoricalAccuracy Mean",
        "SparseCategoricalAccuracy ExponentialDecay CosineDecay",
        # Activations
        "elu exponential gelu hard_sigmoid hard_silu leaky_relu linear log_softmax mish relu relu6",
        "selu sigmoid silu softmax softplus softsign swish tanh",
    )
    for name in line.split()
)
"""What configs name besides layers and operations."""

ROOMS = frozenset(
    {
        *("builtins", "keras", "keras.activations", "keras.constraints", "keras.dtype_policies"),
        *("keras.initializers", "keras.losses", "keras.metrics", "keras.optimizers"),
        *("keras.optimizers.schedules", "keras.regularizers"),
    }
)
"""The modules that they are in."""

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
"""Operations that return one tensor."""

FLOATING = ("float16", "bfloat16", "float32", "float64")
"""The dtypes that a layer casts to its own."""

_ANY = frozenset(["Reshape", "Flatten", "Dropout", "Activation", "Identity", "Concatenate"])
"""Layers that leave a dtype that is not floating as it is."""


def dtype_of(kind: str, policy: Any, dtype: str) -> str | None:
    """Return the output dtype of a layer for an input dtype; `None` where only Keras knows."""
    name = policy if isinstance(policy, str) else _policy_name(policy)
    if name is None:
        return None
    if dtype in FLOATING or kind == "Embedding":
        return name.removeprefix("mixed_")
    return dtype if kind in _ANY else None


def _policy_name(policy: Any) -> str | None:
    if not isinstance(policy, dict):
        return None
    described = cast("dict[str, Any]", policy)
    return described["config"]["name"] if described.get("class_name") == "DTypePolicy" else None


def frozen_weights(kind: str, config: dict[str, Any], count: int) -> int:
    """Return how many of a layer's own variables are not trained: the last ones."""
    if kind == "Normalization":
        return count
    if kind == "BatchNormalization":
        return count - bool(config["scale"]) - bool(config["center"])
    return 0
