"""Attention: projections, the scores of all pairs, and the sums that they weight."""

import math
from typing import Any

from ramet import keras_internals as internals
from ramet.profiling.registry import Called, counts_layers, counts_operations
from ramet.profiling.tensors import Tensor


@counts_layers("MultiHeadAttention")
def multi_head_attention(called: Called) -> int:
    """Count the projections of a multi-head attention, and the attention itself."""
    layer, (query, key, value) = called.layer, _operands(called)
    heads, width = layer.num_heads, layer.key_dim
    value_width = layer.value_dim or width
    axes = layer.attention_axes or range(1, len(query.shape) - 1)
    attended = [axis % len(query.shape) for axis in ([axes] if isinstance(axes, int) else axes)]
    pairs = _pairs(query, key, attended)
    inner = heads * pairs * (width + value_width)
    return inner + _projections(layer, query, key, value)


@counts_layers("GroupQueryAttention")
def grouped_query_attention(called: Called) -> int:
    """Count an attention whose queries share keys and values in groups."""
    layer, (query, key, value) = called.layer, _operands(called)
    pairs = _pairs(query, key, [1])
    inner = layer.num_query_heads * pairs * 2 * layer.head_dim
    return inner + _projections(layer, query, key, value)


@counts_layers("Attention", "AdditiveAttention")
def attention(called: Called) -> int:
    """Count scores and weighted sums of an attention without projections."""
    tensors = called.args[0] if called.args else called.argument("inputs")
    query, value, *rest = tensors
    key = rest[0] if rest else value
    return _pairs(query, key, [1]) * (int(query.shape[-1] or 0) + int(value.shape[-1] or 0))


@counts_operations("DotProductAttention")
def attention_operation(called: Called) -> int:
    """Count `keras.ops.dot_product_attention` on (batch, time, heads, width)."""
    query, key, value = called.inputs[:3]
    batch, time, heads, width = (int(size or 0) for size in query.shape)
    return batch * heads * time * int(key.shape[1] or 0) * (width + int(value.shape[-1] or 0))


def _operands(called: Called) -> tuple[Tensor, Tensor, Tensor]:
    query, value = called.argument("query"), called.argument("value")
    return query, called.argument("key") or value, value


def _pairs(query: Tensor, key: Tensor, attended: list[int]) -> int:
    """Return how many pairs of positions there are, batch included."""
    batch = [size for axis, size in enumerate(query.shape[:-1]) if axis not in attended]
    times = [each.shape[axis] for each in (query, key) for axis in attended]
    return math.prod(size or 0 for size in (*batch, *times))


def _projections(layer: Any, query: Tensor, key: Tensor, value: Tensor) -> int:
    """Return what the dense layers take that make queries, keys, values and outputs."""
    tensors = {"key": key, "value": value}
    total = 0
    for use, name in internals.attention_parts(layer).items():
        kernel = math.prod(getattr(layer, name).kernel.shape)
        tensor = tensors.get(use, query)
        total += math.prod(size or 0 for size in tensor.shape[:-1]) * kernel
    return total
