"""Operations that move, repeat and surround the channels along an axis."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ramet.compress.channels.atoms import Labels
from ramet.compress.channels.rules.reshaping import split
from ramet.compress.channels.site import Axis, Site, Tensor, axis_of, rule


@rule("Flip")
def flip(site: Site) -> Sequence[Tensor]:
    """Axes from back to front."""
    seen, given = site.tensor(), site.layer.axis
    axes = range(len(seen)) if given is None else given
    gone = {i % len(seen) for i in (axes if isinstance(axes, (list, tuple, range)) else [axes])}
    output = [*seen]
    for i in gone:
        if seen[i].labels is not None:
            output[i] = seen[i].at(np.arange(seen[i].size or 0)[::-1])
    return [tuple(output)]


@rule("Repeat", "Tile")
def repeat(site: Site) -> Sequence[Tensor] | None:
    """Channels several times, each or all of them."""
    layer, seen = site.layer, site.tensor()
    if type(layer).__name__ == "Repeat":
        if layer.axis is None or not isinstance(layer.repeats, int):
            return None
        counts = [1] * len(seen)
        counts[layer.axis] = layer.repeats
        place = np.repeat
    else:
        given = layer.repeats
        counts = [given] if isinstance(given, int) else [*given]
        if len(counts) > len(seen):
            return None
        counts = [1] * (len(seen) - len(counts)) + counts
        place = np.tile
    return [tuple(_repeated(axis, n, place) for axis, n in zip(seen, counts, strict=True))]


def _repeated(axis: Axis, count: int, place: Any) -> Axis:
    if count == 1 or axis.labels is None:
        return axis if count == 1 else Axis(None if axis.size is None else axis.size * count)
    labels: Labels = place(axis.label(), count)
    return axis_of(labels, place(axis.leak(), count))


@rule("Pad")
def pad(site: Site) -> Sequence[Tensor] | None:
    """Constants around a tensor."""
    seen, widths = site.tensor(), site.layer.pad_width
    pairs = [(widths, widths)] * len(seen) if isinstance(widths, int) else [*widths]
    if getattr(site.layer, "mode", "constant") != "constant" or len(pairs) != len(seen):
        return None
    output: list[Axis] = []
    for axis, (before, after), size in zip(seen, pairs, site.shapes[0], strict=True):
        if axis.labels is None or not (before or after):
            output.append(axis if not (before or after) else Axis(size))
        else:
            around = [np.full(before, -1), axis.label(), np.full(after, -1)]
            zeros = [np.zeros(before, int), axis.leak(), np.zeros(after, int)]
            output.append(axis_of(np.concatenate(around), np.concatenate(zeros)))
    constant = site.constants.get("constant_values")
    return [tuple(output)] if not constant else [site.all_nonzero(tuple(output))]


@rule("Roll")
def roll(site: Site) -> Sequence[Tensor] | None:
    """The last channels come first."""
    seen, shifts, axes = site.tensor(), site.layer.shift, site.layer.axis
    if axes is None:
        return None
    several = isinstance(axes, (list, tuple))
    pairs = [*zip(shifts, axes, strict=True)] if several else [(shifts, axes)]
    output, lasts = [*seen], dict[int, str]()
    for number, (shift, at) in enumerate(pairs):
        axis = output[at]
        if axis.labels is None or not axis.size:
            continue
        last = shift % axis.size
        order = np.roll(np.arange(axis.size), last)
        output[at] = axis.at(order)
        lasts[number] = f"last {number}"
        site.size(lasts[number], axis_of(axis.label()[axis.size - last :]))
        site.size(f"all {number}", axis)

    def changes(sizes: Mapping[str, int]) -> Mapping[str, Any]:
        new = [sizes[lasts[i]] if i in lasts else shift for i, (shift, _) in enumerate(pairs)]
        return {"shift": tuple(new) if several else new[0]}

    if lasts:
        site.configure_by(changes)
    return [tuple(output)]


@rule("DepthToSpace")
def depth_to_space(site: Site) -> Sequence[Tensor] | None:
    """Each run of channels becomes a row of pixels; what is at one place in all runs, a channel."""
    layer, seen = site.layer, site.tensor()
    if layer.data_format != "channels_last":
        return None  # Backends order the channels differently.
    _, height, width, size = site.shapes[0]
    around = site.positions(seen[1], height), site.positions(seen[2], width)
    channels = seen[-1]
    if channels.labels is None:
        return [(seen[0], *around, Axis(size))]
    blocks, inside = split(site, channels, [layer.block_size**2, size or 0])
    site.lock(blocks, f"{site.name} takes it for rows and columns")
    return [(seen[0], *around, inside)]


@rule("SpaceToDepth")
def space_to_depth(site: Site) -> Sequence[Tensor] | None:
    """The channels of several pixels come one after the other."""
    layer, seen = site.layer, site.tensor()
    if layer.data_format != "channels_last":
        return None
    _, height, width, _ = site.shapes[0]
    around = site.positions(seen[1], height), site.positions(seen[2], width)
    return [(seen[0], *around, _repeated(seen[-1], layer.block_size**2, np.tile))]
