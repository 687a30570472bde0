"""Layers and operations that move, cut and join axes."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ramet.compress.channels.site import Axis, Site, Tensor, axis_of, rule

_PRIMES = (1000003, 1000033, 1000037, 1000039, 1000081, 1000099, 1000117, 1000121)
"""Sizes that stand for unknown ones: no product of known sizes has them as a factor."""


# --- reshape ---


def _known(shape: Sequence[int | None], total: int | None = None) -> list[int] | None:
    """Return a shape with numbers for unknown sizes; with a total, the last one follows."""
    unknown = [i for i, size in enumerate(shape) if size is None]
    sizes = [size if size is not None else 0 for size in shape]
    for i, prime in zip(unknown, _PRIMES, strict=False):
        sizes[i] = prime
    if total is not None and unknown:
        rest = prod(size for i, size in enumerate(sizes) if i != unknown[-1])
        if not rest or total % rest:
            return None
        sizes[unknown[-1]] = total // rest
    return sizes


def _segments(old: list[int], new: list[int]) -> list[tuple[list[int], list[int]]]:
    """Pair runs of axes with equal products: the shortest ones that there are."""
    segments: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = ([i], [j]) if i < len(old) and j < len(new) else ([], [])
        i, j = i + len(left), j + len(right)
        while prod(old[k] for k in left) != prod(new[k] for k in right) or not left:
            ours, theirs = prod(old[k] for k in left), prod(new[k] for k in right)
            if i < len(old) and (ours <= theirs or j == len(new)):
                left.append(i)
                i += 1
            elif j < len(new):
                right.append(j)
                j += 1
            else:
                return []
            if i == len(old) and j == len(new):
                break
        if prod(old[k] for k in left) != prod(new[k] for k in right):
            return []
        segments.append((left, right))
    return segments


def regrouped(site: Site, seen: Tensor, shape: Sequence[int | None]) -> Tensor | None:
    """Return the axes of a tensor in another shape; `None` if they cannot be matched."""
    old = _known([axis.size for axis in seen])
    new = None if old is None else _known(shape, prod(old))
    if old is None or new is None:
        return None
    output: dict[int, Axis] = {}
    for left, right in _segments(old, new):
        axes = [seen[i] for i in left]
        if all(axis.labels is None for axis in axes):
            output |= {j: Axis(shape[j]) for j in right}
            continue
        if any(axis.size is None for axis in axes) or any(shape[j] is None for j in right):
            if len(left) == len(right) == 1:
                output[right[0]] = axes[0]
                continue
            labelled = [axis for axis in axes if axis.labels is not None]
            for axis in labelled:
                site.lock(axis, f"{site.name} joins it with an axis of unknown size")
            output |= {j: Axis(shape[j]) for j in right}
            continue
        parts = split(site, joined(site, axes), [shape[j] or 0 for j in right])
        output |= dict(zip(right, parts, strict=True))
    if len(output) != len(shape):
        return None
    return tuple(output[j] for j in range(len(shape)))


def joined(site: Site, axes: Sequence[Axis]) -> Axis:
    """Return several axes as one, the last of them varying fastest."""
    whole = axes[0]
    for axis in axes[1:]:
        labels = site.atoms.crossed(whole.label(), axis.label())
        leaks = np.maximum.outer(whole.leak(), axis.leak()).ravel()
        whole = axis_of(labels, leaks)
        if whole.labels is None:
            whole = Axis(len(labels))
    return whole


def split(site: Site, axis: Axis, sizes: Sequence[int]) -> list[Axis]:
    """Return one axis as several, the last of them varying fastest."""
    parts: list[Axis] = []
    for number, size in enumerate(sizes[:-1]):
        title = f"{site.path}:axis{number}" if len(sizes) > 2 else site.path  # noqa: PLR2004 pairs
        first, rest = site.atoms.split(axis.label(), size, title)
        grid = axis.leak().reshape(size, -1)
        parts.append(axis_of(first, grid.max(1)))
        axis = axis_of(rest, grid.max(0))
    return [*parts, axis]


@rule("Reshape", "Flatten", "Ravel")
def reshape(site: Site) -> Sequence[Tensor] | None:
    """Axes are joined and split."""
    layer, seen, shape = site.layer, site.tensor(), site.shapes[0]
    if getattr(layer, "data_format", None) == "channels_first" and len(seen) > 1:
        seen = (seen[0], *seen[2:], seen[1])  # Flatten moves the channels to the end first.
    output = regrouped(site, seen, shape)
    for argument in ("target_shape", "newshape", "shape"):
        given = getattr(layer, argument, None)
        if output is not None and isinstance(given, (tuple, list)):
            _shape_config(site, argument, given, output)
    return None if output is None else [output]


def _shape_config(site: Site, argument: str, given: Sequence[Any], output: Tensor) -> None:
    offset = len(output) - len(given)
    for i, axis in enumerate(output):
        site.size(str(i - offset), axis)

    def changes(sizes: Mapping[str, int]) -> Mapping[str, Any]:
        whole = [
            size if size in (-1, None) else sizes.get(str(i), size) for i, size in enumerate(given)
        ]
        return {argument: tuple(whole)}

    site.configure_by(changes)


@rule("BroadcastTo")
def broadcast_to(site: Site) -> Sequence[Tensor]:
    """Axes of size one, and missing ones, become larger."""
    seen, shape = site.tensor(), site.shapes[0]
    missing = len(shape) - len(seen)
    output = tuple(
        Axis(size) if i < missing or seen[i - missing].size != size else seen[i - missing]
        for i, size in enumerate(shape)
    )
    for axis, new in zip(seen, output[missing:], strict=True):
        if axis.size != new.size:
            site.lock(axis, f"{site.name} repeats it")
    _shape_config(site, "shape", site.layer.shape, output)
    return [output]


# --- order ---


@rule("Permute")
def permute(site: Site) -> Sequence[Tensor]:
    """The axes in another order."""
    seen = site.tensor()
    return [(seen[0], *(seen[dim] for dim in site.layer.dims))]


@rule("Transpose")
def transpose(site: Site) -> Sequence[Tensor]:
    """The axes in another order, or reversed."""
    seen, order = site.tensor(), site.layer.axes
    return [seen[::-1] if order is None else tuple(seen[i] for i in order)]


@rule("Swapaxes")
def swapaxes(site: Site) -> Sequence[Tensor]:
    """Two axes exchanged."""
    axes = [*site.tensor()]
    one, other = site.layer.axis1, site.layer.axis2
    axes[one], axes[other] = axes[other], axes[one]
    return [tuple(axes)]


@rule("Moveaxis")
def moveaxis(site: Site) -> Sequence[Tensor]:
    """Some axes moved."""
    seen = site.tensor()
    numbered = np.empty([*range(len(seen))])  # of no elements, with its axes for sizes
    order = np.moveaxis(numbered, site.layer.source, site.layer.destination).shape
    return [tuple(seen[i] for i in order)]


@rule("ExpandDims")
def expand_dims(site: Site) -> Sequence[Tensor]:
    """New axes of size one."""
    seen, shape = [*site.tensor()], site.shapes[0]
    given = site.layer.axis
    axes = [*given] if isinstance(given, (list, tuple)) else [given]
    for axis in sorted(a % len(shape) for a in axes):
        seen.insert(axis, Axis(1))
    return [tuple(seen)]


@rule("Squeeze")
def squeeze(site: Site) -> Sequence[Tensor]:
    """Axes of size one disappear."""
    seen, given = site.tensor(), site.layer.axis
    if given is None:
        gone = {i for i, axis in enumerate(seen) if axis.size == 1}
    else:
        axes = given if isinstance(given, (list, tuple)) else [given]
        gone = {axis % len(seen) for axis in axes}
    for i in gone:
        site.lock(seen[i], f"{site.name} removes its axis")
    return [tuple(axis for i, axis in enumerate(seen) if i not in gone)]


@rule("RepeatVector")
def repeat_vector(site: Site) -> Sequence[Tensor]:
    """A new axis of steps."""
    seen = site.tensor()
    return [(seen[0], Axis(site.layer.n), *seen[1:])]


# --- joining and cutting ---


@rule("Concatenate")
def concatenate(site: Site) -> Sequence[Tensor] | None:
    """One axis of several tensors end to end; the others agree."""
    tensors, axis = site.tensors(), site.layer.axis
    if axis is None or len({len(tensor) for tensor in tensors}) != 1 or site.constants.get("xs"):
        return None
    at = axis % len(tensors[0])
    for tensor in tensors[1:]:
        for i, (one, other) in enumerate(zip(tensors[0], tensor, strict=True)):
            if i != at:
                site.tie(one, other)
    along = [tensor[at] for tensor in tensors]
    if any(each.size is None for each in along):
        site.lock_all(along, f"{site.name} joins it with an axis of unknown size")
        whole = Axis(site.shapes[0][at])
    else:
        whole = axis_of(
            np.concatenate([each.label() for each in along]),
            np.concatenate([each.leak() for each in along]),
        )
    meeting = [*zip(*tensors, strict=True)]
    return [tuple(whole if i == at else weakest(axes) for i, axes in enumerate(meeting))]


def weakest(axes: Sequence[Axis]) -> Axis:
    """Return axes that agree as one, which is zero where all of them are."""
    labelled = [axis for axis in axes if axis.labels is not None]
    if not labelled:
        return axes[0]
    leaks = labelled[0].leak()
    for axis in labelled[1:]:
        leaks = np.maximum(leaks, axis.leak())
    return axis_of(labelled[0].label(), leaks)


@rule("Stack")
def stack(site: Site) -> Sequence[Tensor]:
    """A new axis, one index per tensor; the others agree."""
    tensors = site.tensors()
    for tensor in tensors[1:]:
        for one, other in zip(tensors[0], tensor, strict=True):
            site.tie(one, other)
    output = [weakest(axes) for axes in zip(*tensors, strict=True)]
    output.insert(site.layer.axis % (len(output) + 1), Axis(len(tensors)))
    return [tuple(output)]


@rule("Split", "ArraySplit")
def cut(site: Site) -> Sequence[Tensor] | None:
    """An axis in pieces, which need not be of one size afterwards."""
    layer, seen, axis = site.layer, site.tensor(), site.layer.axis
    at, where = axis % len(seen), layer.indices_or_sections
    whole = seen[at]
    sizes = [shape[at] for shape in site.shapes]
    if whole.labels is None or any(size is None for size in sizes):
        site.lock(whole, f"{site.name} cuts it into pieces of unknown size")
        return [(*seen[:at], Axis(size), *seen[at + 1 :]) for size in sizes]
    starts = np.cumsum([0, *sizes])
    pieces = [whole.at(np.arange(a, b)) for a, b in pairwise(starts.tolist())]
    argument = "indices_or_sections"
    for number, piece in enumerate(pieces):
        site.size(str(number), piece)

    def changes(sizes: Mapping[str, int]) -> Mapping[str, Any]:
        new = [sizes[str(i)] for i in range(len(pieces))]
        if isinstance(where, int) and len({*new}) == 1:
            return {argument: where}
        return {argument: np.cumsum(new)[:-1].tolist()}

    site.configure_by(changes)
    return [(*seen[:at], piece, *seen[at + 1 :]) for piece in pieces]


@rule("Unstack")
def unstack(site: Site) -> Sequence[Tensor]:
    """The indices of an axis as tensors of their own."""
    seen = site.tensor()
    at = site.layer.axis % len(seen)
    site.lock(seen[at], f"{site.name} makes a tensor of each channel")
    return [(*seen[:at], *seen[at + 1 :]) for _ in site.shapes]


@rule("GetItem")
def get_item(site: Site) -> Sequence[Tensor] | None:
    """A slice, or an index, of each axis."""
    seen, key = site.tensor(), site.constants.get("key")
    steps: list[Any] = [*key] if isinstance(key, tuple) else [key]
    known = (int, slice, type(Ellipsis), type(None))
    if any(not isinstance(step, known) or isinstance(step, bool) for step in steps):
        return None
    if Ellipsis in steps:
        i, used = steps.index(Ellipsis), sum(step not in (None, Ellipsis) for step in steps)
        steps[i : i + 1] = [slice(None)] * (len(seen) - used)
    used = sum(step is not None for step in steps)
    steps += [slice(None)] * (len(seen) - used)
    output: list[Axis] = []
    pieces: list[Any] = []
    waiting = [*seen]
    for step in steps:
        if step is None:
            output.append(Axis(1))
            pieces.append(None)
            continue
        axis = waiting.pop(0)
        size = site.shapes[0][len(output)] if isinstance(step, slice) else None
        output += _piece(site, axis, step, size, pieces)
    if any(isinstance(piece, tuple) for piece in pieces):
        for old, new in zip(site.slices.setdefault("key", pieces), pieces, strict=True):
            if isinstance(old, tuple) and isinstance(new, tuple):  # in another call of its model
                for one, other in zip(old, new, strict=True):
                    if one is not None and other is not None:
                        site.tie(one, other)
    return [tuple(output)]


def _piece(site: Site, axis: Axis, step: Any, size: int | None, pieces: list[Any]) -> list[Axis]:
    """Return what one step leaves of an axis; note how the step changes with the axis."""
    if axis.labels is None or step == slice(None) or axis.size is None:
        pieces.append(step)
        return [] if isinstance(step, int) else [Axis(size) if axis.labels is None else axis]
    labels = axis.label()
    if isinstance(step, int):
        at = step % axis.size
        site.lock(axis.at(np.array([at])), f"{site.name} reads it alone")
        pieces.append((axis_of(labels[:at]), None))
        return []
    start, stop, by = step.indices(axis.size)
    if by != 1:
        site.lock(axis, f"{site.name} reads it in steps of {by}")
        pieces.append(step)
        return [Axis(size)]
    stop = max(start, stop)
    pieces.append((axis_of(labels[:start]), axis_of(labels[start:stop])))
    return [axis.at(np.arange(start, stop))]
