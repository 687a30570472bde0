"""Convolutions: each output value is a sum over a window of each input channel of its group."""

import math
from typing import Any

from ramet.profiling.formulas.adapters import of_adapter
from ramet.profiling.registry import Called, counts_layers, counts_operations
from ramet.profiling.tensors import Tensor


def channels_of(tensor: Tensor, data_format: str | None) -> int:
    """Return the number of channels of a tensor of images, sequences or volumes."""
    first = data_format == "channels_first"
    return int(tensor.shape[1 if first else -1] or 0)


def positions_of(tensor: Tensor, data_format: str | None) -> int:
    """Return the number of positions of a tensor: its size without the channels."""
    channels = channels_of(tensor, data_format)
    return tensor.size // channels if channels else 0


@counts_layers("Conv1D", "Conv2D", "Conv3D")
def convolution(called: Called) -> int:
    """Count a convolution, with strides, dilation and groups."""
    layer = called.layer
    window = math.prod(layer.kernel_size)
    channels = channels_of(called.inputs[0], layer.data_format) // layer.groups
    macs = called.outputs[0].size * window * channels
    return macs + of_adapter(layer, macs, layer.filters * window * channels)


@counts_layers("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose")
def transposed(called: Called) -> int:
    """Count a transposed convolution: each input value goes into a window of each filter."""
    layer = called.layer
    return called.inputs[0].size * math.prod(layer.kernel_size) * layer.filters


@counts_layers("DepthwiseConv1D", "DepthwiseConv2D")
def depthwise(called: Called) -> int:
    """Count a depthwise convolution."""
    return called.outputs[0].size * math.prod(called.layer.kernel_size)


@counts_layers("SeparableConv1D", "SeparableConv2D")
def separable(called: Called) -> int:
    """Count a depthwise convolution, and the one of size 1 after it."""
    layer = called.layer
    channels = channels_of(called.inputs[0], layer.data_format) * layer.depth_multiplier
    positions = positions_of(called.outputs[0], layer.data_format)
    return positions * channels * (math.prod(layer.kernel_size) + layer.filters)


@counts_layers("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
def convolutional_lstm(called: Called) -> int:
    """Count the convolutions of all gates, for each time step."""
    layer, sequence = called.layer, called.inputs[0]
    batch, steps, *image = sequence.shape
    window = math.prod(layer.kernel_size)
    channels = channels_of(Tensor((batch, *image), ""), layer.data_format)
    output = called.outputs[0].shape
    cell = math.prod(size or 0 for size in output[2 if layer.return_sequences else 1 :])
    return 4 * int(steps or 0) * int(batch or 0) * cell * window * (channels + layer.filters)


@counts_operations("Conv")
def conv_operation(called: Called) -> int:
    """Count `keras.ops.conv`, whose kernel ends with input channels of a group and filters."""
    return called.outputs[0].size * math.prod(_shape(called, "kernel", 1)[:-1])


@counts_operations("ConvTranspose")
def transposed_operation(called: Called) -> int:
    """Count `keras.ops.conv_transpose`, whose kernel ends with filters and input channels."""
    return called.inputs[0].size * math.prod(_shape(called, "kernel", 1)[:-1])


@counts_operations("DepthwiseConv")
def depthwise_operation(called: Called) -> int:
    """Count `keras.ops.depthwise_conv`, whose kernel ends with channels and multiplier."""
    return called.outputs[0].size * math.prod(_shape(called, "kernel", 1)[:-2])


@counts_operations("SeparableConv")
def separable_operation(called: Called) -> int:
    """Count `keras.ops.separable_conv`."""
    depthwise_kernel = _shape(called, "depthwise_kernel", 1)
    pointwise_kernel = _shape(called, "pointwise_kernel", 2)
    positions = called.outputs[0].size // pointwise_kernel[-1]
    return positions * (math.prod(depthwise_kernel) + math.prod(pointwise_kernel))


@counts_operations("GaussianBlur")
def blur(called: Called) -> int:
    """Count a blur, which is a depthwise convolution."""
    return called.outputs[0].size * math.prod(called.layer.kernel_size)


@counts_operations("SobelEdges")
def edges(called: Called) -> int:
    """Count the two 3 x 3 filters of an edge detector."""
    return called.outputs[0].size * 9


def _shape(called: Called, name: str, index: int) -> tuple[Any, ...]:
    """Return the shape of an argument of an operation: a tensor, or a constant."""
    value = called.argument(name)
    if value is None:
        value = called.args[index]
    return tuple(value.shape)
