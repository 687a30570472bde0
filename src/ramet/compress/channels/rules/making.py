"""Layers that make channels: Dense, Embedding and convolutions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ramet.compress.channels.rules.zeros import activated
from ramet.compress.channels.site import Axis, Kind, Site, Tensor, axis_of, rule


def _one(tensor: Tensor | None) -> Sequence[Tensor] | None:
    return None if tensor is None else [tensor]


@rule("Dense")
def dense(site: Site) -> Sequence[Tensor] | None:
    """Read the last axis, and make another."""
    layer, seen = site.layer, site.tensor()
    out = site.make("", layer.units)
    rank = Axis((site.size_of("lora_kernel_a") or (0,))[-1])
    site.weight("kernel", (seen[-1], "read"), (out, "made"))
    site.weight("bias", (out, "made"))
    site.weight("lora_kernel_a", (seen[-1], "read"), (rank, "carried"))
    site.weight("lora_kernel_b", (rank, "carried"), (out, "made"))
    site.configure(units=out)
    before = site.all_nonzero(seen[:-1]) if layer.use_bias else seen[:-1]
    return _one(activated(site, (*before, out), layer.activation))


@rule("EinsumDense")
def einsum_dense(site: Site) -> Sequence[Tensor] | None:
    """Letters of the kernel that the input lacks are made; those that the output lacks, read."""
    layer, seen = site.layer, site.tensor()
    sides = layer.equation.replace(" ", "").replace("->", ",").split(",")
    inputs, kernel, result = (side.replace("...", "") for side in sides)
    if any("..." in side and not side.startswith("...") for side in sides):
        return None
    axes = dict(zip(reversed(inputs), reversed(seen), strict=False))
    if len(axes) != len(inputs) or site.size_of("lora_kernel_a"):
        return None
    fresh = [letter for letter in kernel if letter not in inputs]
    for letter in fresh:
        at = kernel.index(letter)
        title = "" if len(fresh) == 1 else letter
        axes[letter] = site.make(letter, site.size_of("kernel")[at], title=title)
    kinds: dict[str, Any] = {}
    for letter in kernel:
        kinds[letter] = "made" if letter in fresh else "carried" if letter in result else "read"
    site.weight("kernel", *((axes[letter], kinds[letter]) for letter in kernel))
    biased = [letter for letter in result if letter in (layer.bias_axes or "")]
    biases: list[tuple[Axis, Kind]] = [(axes[letter], "made") for letter in biased]
    site.weight("bias", *biases)
    before = seen[: len(seen) - len(inputs)]
    out = (*before, *(axes[letter] for letter in result))
    if biased:  # A bias along some axes does not keep the zeros along others.
        spared = [axes[letter] for letter in biased]
        out = tuple(a if any(a is s for s in spared) else site.nonzero(a) for a in out)
    for letter in result:
        site.size(letter, axes[letter])
    site.configure_by(_einsum_shape(layer, result))
    return _one(activated(site, out, layer.activation))


def _einsum_shape(layer: Any, result: str) -> Any:
    given = layer.partial_output_shape
    shape: tuple[Any, ...] = (given,) if isinstance(given, int) else tuple(given)
    letters = result[-len(shape) :]

    def changes(sizes: Mapping[str, int]) -> Mapping[str, Any]:
        new = [
            old if old is None else sizes.get(letter, old)
            for old, letter in zip(shape, letters, strict=True)
        ]
        return {"output_shape": new}

    return changes


@rule("Embedding")
def embedding(site: Site) -> Sequence[Tensor] | None:
    """Make the last axis; rows stand for tokens."""
    layer, seen = site.layer, site.tensor()
    rows, out = Axis(layer.input_dim), site.make("", layer.output_dim)
    rank = Axis((site.size_of("lora_embeddings_a") or (0,))[-1])
    site.weight("embeddings", (rows, "carried"), (out, "made"))
    site.weight("reverse_embeddings", (out, "read"), (rows, "carried"))
    site.weight("lora_embeddings_a", (rows, "carried"), (rank, "carried"))
    site.weight("lora_embeddings_b", (rank, "carried"), (out, "made"))
    site.configure(output_dim=out)
    if site.shapes and len(site.shapes[0]) == len(seen):  # ReversibleEmbedding, reversed
        site.tie(seen[-1], out)
        site.read(seen[-1])
        return [(*seen[:-1], rows)]
    return [(*seen, out)]


# --- convolutions ---


def channel_axis(layer: Any, rank: int) -> int:
    """Return which axis of an image holds the channels, counted from the end."""
    return -1 if getattr(layer, "data_format", None) != "channels_first" else -(rank + 1)


def image(site: Site, channels: Axis, layer: Any = None) -> Tensor:
    """Return an output with other channels; the positions of the input are mixed."""
    layer = layer or site.layer
    seen, shape = site.tensor(), site.shapes[0]
    rank = len(seen) - 2
    at = channel_axis(layer, rank) % len(seen)
    return tuple(
        channels if i == at else seen[0] if i == 0 else site.positions(axis, size)
        for i, (axis, size) in enumerate(zip(seen, shape, strict=True))
    )


def space(site: Site, name: str, rank: int) -> list[tuple[Axis, Any]]:
    """Return the spatial axes of a kernel."""
    return [(Axis(size), "carried") for size in site.size_of(name)[:rank]]


@rule("BaseConv")
def conv(site: Site) -> Sequence[Tensor] | None:
    """Read the channels, in groups, and make others, in as many groups."""
    layer, rank = site.layer, site.layer.rank
    seen = site.tensor()[channel_axis(layer, rank)]
    groups, out = layer.groups, site.make("", layer.filters)
    if groups > 1:
        blocks, inside = site.atoms.split(seen.label(), groups, f"{site.path}:input")
        ours, _ = site.atoms.split(out.label(), groups, site.path)
        site.tie(axis_of(ours), axis_of(blocks))
        site.size("groups", axis_of(blocks))
        site.read(seen, weighted=True)
        seen = axis_of(inside)
    low = Axis((site.size_of("lora_kernel_a") or (0,))[-1])
    site.weight("kernel", *space(site, "kernel", rank), (seen, "read"), (out, "made"))
    site.weight("bias", (out, "made"))
    around = space(site, "lora_kernel_a", rank)
    site.weight("lora_kernel_a", *around, (seen, "read"), (low, "carried"))
    site.weight("lora_kernel_b", (low, "carried"), (out, "made"))
    site.size("filters", out)
    site.configure_by(lambda sizes: {k: sizes[k] for k in ("filters", "groups") if k in sizes})
    return _one(activated(site, image(site, out), layer.activation))


@rule("BaseConvTranspose")
def conv_transpose(site: Site) -> Sequence[Tensor] | None:
    """Read the channels and make others; the kernel has its axes in another order."""
    layer, rank = site.layer, site.layer.rank
    seen = site.tensor()[channel_axis(layer, rank)]
    out = site.make("", layer.filters)
    if getattr(layer, "groups", 1) != 1:
        return None
    site.weight("kernel", *space(site, "kernel", rank), (out, "made"), (seen, "read"))
    site.weight("bias", (out, "made"))
    site.configure(filters=out)
    return _one(activated(site, image(site, out), layer.activation))


def _times(seen: Axis, count: int) -> Axis:
    if seen.labels is None:
        return Axis(None if seen.size is None else seen.size * count)
    return axis_of(np.repeat(seen.label(), count), np.repeat(seen.leak(), count))


@rule("BaseDepthwiseConv")
def depthwise(site: Site) -> Sequence[Tensor] | None:
    """Turn each channel into some of its own."""
    layer, rank = site.layer, site.layer.rank
    seen = site.tensor()[channel_axis(layer, rank)]
    times = Axis(layer.depth_multiplier)
    around = space(site, "kernel", rank)
    out = _times(seen, layer.depth_multiplier)
    site.weight("kernel", *around, (seen, "carried"), (times, "carried"))
    site.weight("bias", (out, "made"))
    masked = axis_of(out.label()) if out.labels is not None else out  # The kernel is masked too.
    return _one(activated(site, image(site, masked), layer.activation))


@rule("BaseSeparableConv")
def separable(site: Site) -> Sequence[Tensor] | None:
    """A depthwise convolution, and a Dense layer for each position."""
    layer, rank = site.layer, site.layer.rank
    seen = site.tensor()[channel_axis(layer, rank)]
    between, out = _times(seen, layer.depth_multiplier), site.make("", layer.filters)
    around = space(site, "depthwise_kernel", rank)
    times = Axis(layer.depth_multiplier)
    site.weight("depthwise_kernel", *around, (seen, "carried"), (times, "carried"))
    masked = axis_of(between.label()) if between.labels is not None else between
    ones: list[Any] = [(Axis(1), "carried")] * rank
    site.weight("pointwise_kernel", *ones, (masked, "read"), (out, "made"))
    site.weight("bias", (out, "made"))
    site.configure(filters=out)
    return _one(activated(site, image(site, out), layer.activation))
