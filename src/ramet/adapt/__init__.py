"""Fine-tuning: adapters, merging, quantization and precision, on the layers that you name."""

from ramet.adapt._cast import cast
from ramet.adapt._quantize import quantize
from ramet.adapt.quantizing.convolutions import (
    Int8Conv1D,
    Int8Conv1DTranspose,
    Int8Conv2D,
    Int8Conv2DTranspose,
    Int8Conv3D,
    Int8Conv3DTranspose,
    Int8DepthwiseConv1D,
    Int8DepthwiseConv2D,
)

__all__ = [
    "Int8Conv1D",
    "Int8Conv1DTranspose",
    "Int8Conv2D",
    "Int8Conv2DTranspose",
    "Int8Conv3D",
    "Int8Conv3DTranspose",
    "Int8DepthwiseConv1D",
    "Int8DepthwiseConv2D",
    "cast",
    "quantize",
]
