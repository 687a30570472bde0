"""Attention: heads, and the widths of keys and values."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ramet import keras_internals as internals
from ramet.compress.channels.site import Axis, Site, Tensor, axis_of, rule


def _projections(
    site: Site, heads: tuple[Axis, Axis], dims: tuple[Axis, Axis]
) -> Sequence[Tensor] | None:
    """Label the projections of an attention layer.

    Args:
        site: The layer.
        heads: The heads of the query, and those of key and value.
        dims: The width of a key, and that of a value.
    """
    query, value = site.tensor("query"), site.tensor("value")
    key = site.tensor("key") if "key" in site.reads else value
    names = internals.attention_parts(site.layer)
    for which, tensor, head, dim in (
        ("query", query, heads[0], dims[0]),
        ("gate", query, heads[0], dims[1]),
        ("key", key, heads[1], dims[0]),
        ("value", value, heads[1], dims[1]),
    ):
        if which in names:
            role = names[which]
            site.weight((role, "kernel"), (tensor[-1], "read"), (head, "made"), (dim, "made"))
            site.weight((role, "bias"), (head, "made"), (dim, "made"))
    out = _output(site, query)
    if out is None:
        return None
    last = names["output"]
    site.weight((last, "kernel"), (heads[0], "read"), (dims[1], "read"), (out, "made"))
    site.weight((last, "bias"), (out, "made"))
    outputs: list[Tensor] = [(*query[:-1], out)]
    if len(site.shapes) > 1:  # the scores
        outputs.append((query[0], site.nonzero(heads[0]), *map(Axis, site.shapes[1][2:])))
    return outputs


def _output(site: Site, query: Tensor) -> Axis | None:
    declared = internals.attention_output_shape(site.layer)
    if declared and len(declared) != 1:
        return None
    size = declared[0] if declared else query[-1].size
    if size is None:
        return None
    out = site.make("", size)
    if declared:
        site.size("output_shape", out)
    else:
        site.tie(out, query[-1])
    return out


def _is_plain(site: Site) -> bool:
    """Whether there are no adapters inside; axes of steps always stay."""
    for tensor in site.tensors():
        site.lock_all(tensor[1:-1], f"{site.name} takes it for steps")
    return not any("lora" in name for role in site.flow.shapes for name in role)


@rule("MultiHeadAttention")
def multi_head(site: Site) -> Sequence[Tensor] | None:
    """Heads, and the widths of a key and of a value in each head."""
    layer = site.layer
    if not _is_plain(site):
        return None
    heads = site.make("heads", layer.num_heads)
    dims = site.make("key_dim", layer.key_dim), site.make("value_dim", layer.value_dim)
    if layer.key_dim == layer.value_dim:  # On JAX, Keras requires one width for both.
        site.tie(*dims)
    site.lose(dims[0], f"{site.name} divides by the square root of the width of its keys")
    site.cross(heads, dims[0])
    site.cross(heads, dims[1])
    outputs = _projections(site, (heads, heads), dims)
    site.size("num_heads", heads)
    site.size("key_dim", dims[0])
    site.size("value_dim", dims[1])
    site.configure_by(_sizes)
    return outputs


@rule("GroupedQueryAttention")
def grouped_query(site: Site) -> Sequence[Tensor] | None:
    """Heads of keys and values, each with some heads of the query."""
    layer = site.layer
    few, all_heads = layer.num_key_value_heads, layer.num_query_heads
    if not _is_plain(site):
        return None
    heads = site.make("heads", few)
    times, dim = site.make("repeats", all_heads // few), site.make("head_dim", layer.head_dim)
    site.lose(dim, f"{site.name} divides by the square root of the width of its heads")
    site.cross(heads, times, dim)
    site.tie(site.tensor("query")[-1], site.tensor("value")[-1])  # Keras requires one width.
    site.lose(times, f"a masked query of {site.name} attends to all steps alike", mixes=False)
    query = axis_of(site.atoms.crossed(heads.label(), times.label()))
    outputs = _projections(site, (query, heads), (dim, dim))
    site.size("num_query_heads", query)
    site.size("num_key_value_heads", heads)
    site.size("head_dim", dim)
    site.configure_by(_sizes)
    return outputs


def _sizes(sizes: Any) -> Any:
    return dict(sizes)


@rule("Attention")
def attention(site: Site) -> Sequence[Tensor] | None:
    """Attention and AdditiveAttention: of [query, value, key], the value has the channels."""
    tensors = site.tensors()
    if len(tensors) < 2 or getattr(site.layer, "score_mode", "dot") != "dot":  # noqa: PLR2004 a pair
        return None
    query, value = tensors[0], tensors[1]
    key = tensors[2] if len(tensors) > 2 else value  # noqa: PLR2004 with keys
    for tensor in (query, value, key):
        site.lock_all(tensor[1:-1], f"{site.name} takes it for steps")
    site.tie(query[-1], key[-1])
    additive = any(cls.__name__ == "AdditiveAttention" for cls in type(site.layer).__mro__)
    if additive:
        site.weight("scale", (query[-1], "read"))
    elif np.all(query[-1].leak() > 0):
        site.read(query[-1])
    site.read(key[-1])
    outputs: list[Tensor] = [(*query[:-1], value[-1])]
    if len(site.shapes) > 1:
        outputs.append(tuple(map(Axis, site.shapes[1])))
    return outputs
