"""Fine-tuning: adapters, merging, quantization and precision, on the layers that you name.

Importing this module registers the classes of adapted and quantized layers, so that
`keras.models.load_model` loads models that have some.
"""

from ramet.adapt._adopt import adopt
from ramet.adapt._cast import cast
from ramet.adapt._files import load, save
from ramet.adapt._lora import lora
from ramet.adapt._merge import merge, remove, unmerge
from ramet.adapt._quantize import quantize
from ramet.adapt._sensitivity import sensitivity
from ramet.adapt._taps import taps
from ramet.adapt._use import use
from ramet.adapt.distilling.losses import TapLoss
from ramet.adapt.distilling.teacher import Teacher
from ramet.adapt.quantizing.attention import (
    QuantizedGroupQueryAttention,
    QuantizedMultiHeadAttention,
)
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
    "QuantizedGroupQueryAttention",
    "QuantizedMultiHeadAttention",
    "TapLoss",
    "Teacher",
    "adopt",
    "cast",
    "load",
    "lora",
    "merge",
    "quantize",
    "remove",
    "save",
    "sensitivity",
    "taps",
    "unmerge",
    "use",
]
