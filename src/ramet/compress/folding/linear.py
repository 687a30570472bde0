"""Layers with kernels: where their channels are, and how they absorb a scale and a shift.

One rule for each kind of layer, in `LINEAR`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ramet.compress.folding.arrays import Spread


@dataclass(frozen=True)
class Linear:
    """How one layer computes its output channels from its input channels."""

    into: int
    """The axis of the channels of its input."""
    out: int
    """The axis of the channels of its output."""
    inner: tuple[str, Spread]
    """The kernel that reads the input channels, and how they lie in it."""
    outer: tuple[str, Spread]
    """The kernel that writes the output channels, and how they lie in it."""
    sums: tuple[int, ...] | None
    """The axes of the inner kernel that a sum over all input channels and positions runs over;
    `None` if not all positions of the output sum alike."""
    obstacle: str | None = None
    """Why a shift of its input cannot be absorbed."""
    has_bias: bool = True
    """Whether it has a bias."""
    with_bias: dict[str, Any] = field(default_factory=dict[str, Any])
    """The constructor arguments by which it gets one."""
    bias_axis: tuple[int, int] = (0, 1)
    """The axis of its bias that the output channels lie along, and how many axes it has."""

    @property
    def is_separable(self) -> bool:
        """Whether it has two kernels, one after the other."""
        return self.inner[0] != self.outer[0]


def linear(layer: Any, kind: str, ranks: tuple[int, int]) -> Linear | str | None:
    """Return how a layer computes its channels.

    Args:
        layer: The live layer.
        kind: The name of its class, one of Keras's own.
        ranks: The numbers of axes of its input and of its output.

    Returns:
        The rule; the reason why there is none; or `None` for a layer without a kernel.
    """
    rule = LINEAR.get(kind)
    return None if rule is None else rule(layer, ranks)


def _padding(layer: Any) -> str | None:
    """Return why a convolution cannot absorb a shift of its input."""
    if layer.padding == "valid" or all(size == 1 for size in layer.kernel_size):
        return None
    return f"padding='{layer.padding}' pads its input with zeros, which a shift would change"


def _channels(layer: Any) -> int:
    return layer.rank + 1 if layer.data_format == "channels_last" else 1


def _conv(layer: Any, _: tuple[int, int]) -> Linear:
    inside: Spread = ("axis", -2) if layer.groups == 1 else ("groups", layer.groups)
    return Linear(
        into=_channels(layer),
        out=_channels(layer),
        inner=("kernel", inside),
        outer=("kernel", ("axis", -1)),
        sums=tuple(range(layer.rank + 1)),
        obstacle=_padding(layer),
        has_bias=layer.use_bias,
        with_bias={"use_bias": True},
    )


def _depthwise(layer: Any, _: tuple[int, int]) -> Linear:
    return Linear(
        into=_channels(layer),
        out=_channels(layer),
        inner=("kernel", ("axis", -2)),
        outer=("kernel", ("pairs", 0)),
        sums=tuple(range(layer.rank)),
        obstacle=_padding(layer),
        has_bias=layer.use_bias,
        with_bias={"use_bias": True},
    )


def _separable(layer: Any, _: tuple[int, int]) -> Linear:
    return Linear(
        into=_channels(layer),
        out=_channels(layer),
        inner=("depthwise_kernel", ("axis", -2)),
        outer=("pointwise_kernel", ("axis", -1)),
        sums=tuple(range(layer.rank)),
        obstacle=_padding(layer),
        has_bias=layer.use_bias,
        with_bias={"use_bias": True},
    )


def _transpose(layer: Any, _: tuple[int, int]) -> Linear:
    return Linear(
        into=_channels(layer),
        out=_channels(layer),
        inner=("kernel", ("axis", -1)),
        outer=("kernel", ("axis", -2)),
        sums=None,
        obstacle="the outputs of a transposed convolution sum over different numbers of inputs",
        has_bias=layer.use_bias,
        with_bias={"use_bias": True},
    )


def _dense(layer: Any, ranks: tuple[int, int]) -> Linear:
    return Linear(
        into=ranks[0] - 1,
        out=ranks[1] - 1,
        inner=("kernel", ("axis", -2)),
        outer=("kernel", ("axis", -1)),
        sums=(0,),
        has_bias=layer.use_bias,
        with_bias={"use_bias": True},
    )


def _einsum(layer: Any, ranks: tuple[int, int]) -> Linear | str:
    """Return the rule of an einsum with one letter for the input and one for the output channels.

    These are the letters of the last axes.
    """
    operands, _, result = layer.equation.replace(" ", "").partition("->")
    source, _, kernel = operands.partition(",")
    letters = kernel.replace("...", "")
    into, out = source[-1], result[-1]
    if "..." in kernel or into not in letters or out not in letters:
        return f"the last axes of '{layer.equation}' are not channels of its kernel"
    bias = [letter for letter in result if letter in (layer.bias_axes or out)]
    if out not in bias:
        return f"its bias has no axis '{out}'"
    summed = tuple(at for at, letter in enumerate(letters) if letter not in result)
    is_matrix = bias == [out] and len(summed) == len(letters) - 1 and into not in result
    return Linear(
        into=ranks[0] - 1,
        out=ranks[1] - 1,
        inner=("kernel", ("axis", letters.index(into))),
        outer=("kernel", ("axis", letters.index(out))),
        sums=summed if is_matrix else None,
        obstacle=None if is_matrix else f"'{layer.equation}' has several output axes",
        has_bias=layer.bias_axes is not None,
        with_bias={"bias_axes": out},
        bias_axis=(bias.index(out), len(bias)),
    )


LINEAR: dict[str, Callable[[Any, tuple[int, int]], Linear | str]] = {
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D"), _conv),
    **dict.fromkeys(("DepthwiseConv1D", "DepthwiseConv2D"), _depthwise),
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), _separable),
    **dict.fromkeys(("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"), _transpose),
    "Dense": _dense,
    "EinsumDense": _einsum,
}
"""The rules, by the names of Keras's classes."""
