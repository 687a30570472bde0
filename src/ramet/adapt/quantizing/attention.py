"""Attention layers with quantized projections.

Keras quantizes the projections of an attention layer, but the config of the layer does not say so,
and a file cannot be loaded. These classes say it, and are registered, so that a saved model loads
where ramet is installed. What is computed is what Keras computes.
"""

import functools
from typing import Any

import keras
from keras import layers

from ramet import keras_internals as internals


class QuantizedProjections(layers.Layer):
    """What an attention layer needs to have quantized projections; a mixin."""

    mode: str

    def __init__(self, *args: Any, mode: str, **kwargs: Any) -> None:
        """Create the layer.

        Args:
            *args: Those of the attention layer.
            mode: How the projections are quantized: `"int8"`, `"int4"` or `"float8"`.
            **kwargs: Those of the attention layer.
        """
        super().__init__(*args, **kwargs)
        self.mode = mode

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return super().get_config() | {"mode": self.mode}


def projections(layer: Any) -> dict[str, Any]:
    """Return the projections of an attention layer, by the attributes that hold them."""
    return {name: getattr(layer, name) for name in internals.attention_parts(layer).values()}


_DOC = """A {base} whose projections are quantized; see `quantize`.

    Its arguments are those of {base}, and `mode`.

    Examples:
        >>> issubclass(ramet.adapt.{name}, layers.{base})
        True
    """


def _quantized(base: Any, public: str) -> Any:
    @functools.wraps(base.build)  # Keras passes shapes by the names of its parameters
    def build(self: Any, *args: Any, **kwargs: Any) -> None:
        base.build(self, *args, **kwargs)
        with internals.quick_collections():
            for projection in projections(self).values():
                projection.quantize(self.mode)

    name = f"Quantized{public}"
    doc = _DOC.format(base=public, name=name)
    body = {"__doc__": doc, "__module__": "ramet.adapt", "build": build}
    cls = type(name, (QuantizedProjections, base), body)
    return keras.saving.register_keras_serializable("ramet", name)(cls)


QuantizedMultiHeadAttention = _quantized(layers.MultiHeadAttention, "MultiHeadAttention")
QuantizedGroupQueryAttention = _quantized(layers.GroupQueryAttention, "GroupQueryAttention")

ATTENTION_CLASSES: dict[type, type] = {
    layers.MultiHeadAttention: QuantizedMultiHeadAttention,
    layers.GroupQueryAttention: QuantizedGroupQueryAttention,
}
"""The class with quantized projections, by Keras's own class."""
