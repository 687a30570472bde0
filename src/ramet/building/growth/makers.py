"""Keras's layers that create channels: what their axes and those of their weights mean."""

from typing import Any

from ramet import keras_internals as internals
from ramet.building.growth.axes import Axes, Crossed, Part, Run, crossed
from ramet.building.growth.site import Meaning, Rule, Site, Slots


def _dense(site: Site) -> Meaning:
    out = site.own("units", site.layer.units)
    seen = site.input(-1, site.size_of("kernel", 0))
    rank = site.fixed("rank", site.size_of("lora_kernel_a", -1))
    weights: dict[str, Slots] = {
        "kernel": (("in", seen), ("out", out)),
        "bias": (("out", out),),
        "lora_kernel_a": (("in", seen), ("rank", rank)),
        "lora_kernel_b": (("rank", rank), ("out", out)),
    }
    axes = site.tensor()
    outputs = [] if axes is None else [(*axes[:-1], out)]
    return Meaning(outputs, weights, family="dense")


def _einsum_dense(site: Site) -> Meaning:
    sides = site.layer.equation.replace(" ", "").replace("->", ",").split(",")
    seen, kernel, result = (side.removeprefix("...") for side in sides)
    if "." in seen + kernel + result:
        return Meaning(family="einsum")
    parts: dict[str, tuple[str, Part]] = {}
    for position, label in enumerate(kernel):
        size = site.size_of("kernel", position)
        if label in seen:
            axis = seen.index(label) - len(seen)
            parts[label] = f"in{axis}", site.input(axis, size)
        else:
            slot = f"out{result.index(label) - len(result)}"
            parts[label] = slot, site.own(slot, size)
    for label in result:
        if label not in parts:
            axis = seen.index(label) - len(seen)
            parts[label] = f"in{axis}", site.input(axis)
    weights: dict[str, Slots] = {
        "kernel": tuple(parts[label] for label in kernel),
        "bias": tuple(parts[label] for label in result if label in (site.layer.bias_axes or "")),
    }
    axes = site.tensor()
    outputs: list[Axes] = []
    if axes is not None:
        outputs = [(*axes[: len(axes) - len(seen)], *(parts[label][1] for label in result))]
    return Meaning(outputs, weights, family="einsum")


def _embedding(site: Site) -> Meaning:
    layer = site.layer
    rows, out = site.own("rows", layer.input_dim), site.own("out", layer.output_dim)
    rank = site.fixed("rank", site.size_of("lora_embeddings_a", -1))
    weights: dict[str, Slots] = {
        "embeddings": (("rows", rows), ("out", out)),
        "reverse_embeddings": (("out", out), ("rows", rows)),
        "lora_embeddings_a": (("rows", rows), ("rank", rank)),
        "lora_embeddings_b": (("rank", rank), ("out", out)),
    }
    axes = site.tensor()
    outputs: list[Axes] = []
    if axes is not None:
        reverse = bool(site.shapes) and len(site.shapes[0]) == len(axes)
        outputs = [(*axes[:-1], rows) if reverse else (*axes, out)]
    return Meaning(outputs, weights, family="embedding")


# --- convolutions ---


def channel_axis(layer: Any, rank: int) -> int:
    """Return which axis of an image holds the channels, counted from the end."""
    return -1 if layer.data_format == "channels_last" else -(rank + 1)


def _each(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value)


def _anchor(size: int, stride: int, dilation: int, padding: str) -> float:
    """Return the tap of a kernel that reads the same position whatever the kernel's size."""
    if padding == "same":
        return ((size - 1) * dilation // 2) / dilation if stride == 1 else size / 2
    return size - 1 if padding == "causal" else 0


def kernel_space(
    site: Site, rank: int, padding: str, *, transposed: bool = False
) -> list[tuple[str, Part]]:
    """Return the spatial axes of a kernel."""
    layer = site.layer
    sizes, strides, dilations = (
        _each(value, rank) for value in (layer.kernel_size, layer.strides, layer.dilation_rate)
    )
    axes: list[tuple[str, Part]] = []
    for axis, (size, stride, dilation) in enumerate(zip(sizes, strides, dilations, strict=True)):
        unclear = None
        if padding == "same" and (transposed or size < stride):
            unclear = f"with padding='same', '{layer.name}' pads in another way for another size"
        key = (*site.key, "space", axis, padding, stride, dilation)
        anchor = 0 if transposed else _anchor(size, stride, dilation, padding)
        axes.append(("space", Run(key, size, unclear, anchor)))
    return axes


def _image(site: Site, rank: int, channels: Part) -> list[Axes]:
    """Return the axes of an output with the given channels."""
    axes = site.tensor()
    if axes is None or not site.shapes:
        return []
    image = [axes[0], *(site.places(axis) for axis in range(1, rank + 2))]
    image[channel_axis(site.layer, rank)] = channels
    return [tuple(image)]


def _per_group(site: Site, channels: Part, groups: int) -> Part:
    """Return what one group of channels is made of."""
    if groups == 1:
        return channels
    if isinstance(channels, Crossed) and channels.parts[0].size == groups:
        return crossed(channels.parts[1:])
    size = None if channels.size is None else channels.size // groups
    return site.fixed("group", size, f"'{site.layer.name}' reads its channels in {groups} groups")


def _conv(site: Site) -> Meaning:
    layer, rank = site.layer, site.layer.rank
    groups = layer.groups
    seen = _per_group(site, site.input(channel_axis(layer, rank)), groups)
    out = site.own("filters", layer.filters // groups)
    if groups > 1:
        out = crossed([site.fixed("groups", groups), out])
    space = kernel_space(site, rank, layer.padding)
    lora = site.fixed("rank", site.size_of("lora_kernel_a", -1))
    slot = "in" if groups == 1 else f"in/{groups}"
    weights: dict[str, Slots] = {
        "kernel": (*space, (slot, seen), ("out", out)),
        "bias": (("out", out),),
        "lora_kernel_a": (*space, (slot, seen), ("rank", lora)),
        "lora_kernel_b": (("rank", lora), ("out", out)),
    }
    return Meaning(_image(site, rank, out), weights, family=f"conv{rank}")


def _conv_transpose(site: Site) -> Meaning:
    layer, rank = site.layer, site.layer.rank
    seen, out = site.input(channel_axis(layer, rank)), site.own("filters", layer.filters)
    space = kernel_space(site, rank, layer.padding, transposed=True)
    weights: dict[str, Slots] = {
        "kernel": (*space, ("out", out), ("in", seen)),
        "bias": (("out", out),),
    }
    return Meaning(_image(site, rank, out), weights, family=f"conv{rank}")


def _depthwise(site: Site) -> Meaning:
    layer, rank = site.layer, site.layer.rank
    seen, times = site.input(channel_axis(layer, rank)), site.own("times", layer.depth_multiplier)
    out = crossed([seen, times])
    space = kernel_space(site, rank, layer.padding)
    weights: dict[str, Slots] = {
        "kernel": (*space, ("in", seen), ("times", times)),
        "bias": (("in*times", out),),
    }
    return Meaning(_image(site, rank, out), weights, family=f"depthwise{rank}")


def _separable(site: Site) -> Meaning:
    layer, rank = site.layer, site.layer.rank
    seen, times = site.input(channel_axis(layer, rank)), site.own("times", layer.depth_multiplier)
    out, between = site.own("filters", layer.filters), crossed([seen, times])
    space = kernel_space(site, rank, layer.padding)
    one = [("one", site.fixed("one", 1))] * rank
    weights: dict[str, Slots] = {
        "depthwise_kernel": (*space, ("in", seen), ("times", times)),
        "pointwise_kernel": (*one, ("in*times", between), ("out", out)),
        "bias": (("out", out),),
    }
    return Meaning(_image(site, rank, out), weights, family=f"conv{rank}")


# --- attention ---


def _attention_parts(site: Site, heads: tuple[Part, Part], dims: tuple[Part, Part]) -> Meaning:
    """Return the projections of an attention layer, each in its place.

    Args:
        site: The layer.
        heads: The heads of the query, and those of key and value.
        dims: The size of a key, and that of a value.
    """
    query, value = site.tensor("query"), site.tensor("value")
    key = site.tensor("key") or value
    if query is None or value is None or key is None:
        return Meaning(family="attention")
    declared = internals.attention_output_shape(site.layer)
    out = site.own("out", declared[0]) if declared and len(declared) == 1 else query[-1]
    projections = {
        "query": (query, heads[0], dims[0]),
        "gate": (query, heads[0], dims[1]),
        "key": (key, heads[1], dims[0]),
        "value": (value, heads[1], dims[1]),
    }
    names = internals.attention_parts(site.layer)
    parts = {
        names[which]: site.inside(names[which], {"x": axes}, {"out-2": head, "out-1": dim})
        for which, (axes, head, dim) in projections.items()
        if which in names
    }
    between = (*query[:-1], heads[0], dims[1])
    parts[names["output"]] = site.inside(names["output"], {"x": between}, {"out-1": out})
    shaped = not declared or len(declared) == 1
    return Meaning([(*query[:-1], out)] if shaped else [], parts=parts, family="attention")


def _multi_head(site: Site) -> Meaning:
    layer = site.layer
    heads = site.own("heads", layer.num_heads)
    dims = site.own("key_dim", layer.key_dim), site.own("value_dim", layer.value_dim)
    return _attention_parts(site, (heads, heads), dims)


def _grouped_query(site: Site) -> Meaning:
    layer = site.layer
    few = site.own("kv_heads", layer.num_key_value_heads)
    times = site.own("repeats", layer.num_query_heads // layer.num_key_value_heads)
    dim = site.own("head_dim", layer.head_dim)
    return _attention_parts(site, (crossed([few, times]), few), (dim, dim))


def _attention(site: Site) -> Meaning:
    """Attention and AdditiveAttention: of [query, value, key], the value has the channels."""
    tensors = site.tensors()
    if len(tensors) < 2:  # noqa: PLR2004 query and value
        return Meaning(family="dot")
    weights: dict[str, Slots] = {"scale": (("in-1", tensors[0][-1]),)}
    additive = any(cls.__name__ == "AdditiveAttention" for cls in type(site.layer).__mro__)
    return Meaning(
        [(*tensors[0][:-1], tensors[1][-1])], weights if additive else {}, family="additive"
    )


MAKERS: dict[str, Rule] = {
    "Dense": _dense,
    "EinsumDense": _einsum_dense,
    "Embedding": _embedding,
    "BaseConv": _conv,
    "BaseConvTranspose": _conv_transpose,
    "BaseDepthwiseConv": _depthwise,
    "BaseSeparableConv": _separable,
    "MultiHeadAttention": _multi_head,
    "GroupedQueryAttention": _grouped_query,
    "Attention": _attention,
}
"""Rules for layers that create channels, by class."""
