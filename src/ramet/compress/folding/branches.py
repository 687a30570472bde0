"""Parallel convolutions that are added up, merged into one convolution."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ramet.backends import is_of_keras
from ramet.compress.folding.affine import Affine, affine
from ramet.compress.folding.rules import check_no_activation, check_range, rule_of
from ramet.compress.folding.site import Kept, Site
from ramet.compress.folding.weights import Weights, Window
from ramet.graph import Call, Ref
from ramet.graph.tree import leaves

_MERGED = ("Conv1D", "Conv2D", "Conv3D", "DepthwiseConv1D", "DepthwiseConv2D")
_ALIKE = ("strides", "groups", "data_format", "depth_multiplier", "dtype_policy", "trainable")

AllWeights = dict[tuple[int, int], Weights]


@dataclass(frozen=True)
class Branch:
    """One operand of a sum, which is computed from a tensor like others."""

    operand: Ref
    """The operand."""
    source: Ref
    """The tensor that it is computed from."""
    call: Call | None
    """The call that computes it; `None` if it is the tensor itself."""
    live: Any = None
    """The live convolution; `None` for one without a kernel."""
    weights: Weights | None = None
    """Its weights; `None` for one without a kernel."""
    affine: Affine | None = None
    """What a branch without a kernel does to the tensor."""

    @property
    def size(self) -> tuple[int, ...]:
        """The size of its kernel, which may be a sum of branches already; empty without one."""
        if self.weights is None:
            return ()
        return self.weights.size or tuple(self.live.kernel_size)


@dataclass(frozen=True)
class Merger:
    """Branches of one sum that become one convolution."""

    sum: Call
    """The call that adds them up."""
    branches: tuple[Branch, ...]
    """The branches; the first one is the convolution that stays."""
    rest: tuple[Ref, ...]
    """The other operands of the sum."""

    @property
    def main(self) -> Branch:
        """The convolution that stays."""
        return self.branches[0]


def mergers(site: Site, weights: AllWeights) -> Iterator[Merger]:
    """Yield the branches of each sum that can be merged, one tensor at a time.

    Each has to be merged before the next one is asked for.
    """
    for call in site.written.values():
        if call.layer is None or call.name in site.gone or site.layer(call).kind != "Add":
            continue
        if not is_of_keras(type(site.layer(call).origin)):
            continue
        operands = [
            site.source(leaf) for leaf in leaves((call.args, call.written)) if _is_ref(leaf)
        ]
        specs = [call.outputs[0], *map(site.spec, operands)]
        if len({(each.shape, each.dtype, each.mask, each.known) for each in specs}) > 1:
            continue
        yield from _of_sum(site, call, operands, weights)


def _is_ref(leaf: Any) -> bool:
    return isinstance(leaf, Ref)


def _of_sum(site: Site, call: Call, operands: list[Ref], weights: AllWeights) -> Iterator[Merger]:
    branches = [branch for ref in operands for branch in _branches(site, call, ref, weights)]
    for main in sorted(branches, key=_size, reverse=True):
        if main.weights is None or main.operand not in operands:
            continue
        group = [main, *(each for each in branches if _fits(site, main, each))]
        group = [each for each in group if operands.count(each.operand) == 1]
        if len(group) > 1 and main in group:
            for each in group:
                operands.remove(each.operand)
            yield Merger(call, tuple(group), tuple(operands))
            return


def _size(branch: Branch) -> int:
    return math.prod(branch.size) if branch.size else 0


def _branches(site: Site, call: Call, ref: Ref, weights: AllWeights) -> Iterator[Branch]:
    """Yield what an operand may be: what its call computes, and the tensor itself."""
    yield Branch(ref, ref, None)
    above = site.graph.calls[ref.call]
    place = None if above.layer is None else site.place(above)
    source = site.input_of(above)
    if place is None or source is None or not is_of_keras(type(place.live)):
        return
    try:
        site.check_only_reader(ref, call.name)
        if place.layer.kind in _MERGED:
            rule = rule_of(site, above)
            check_no_activation(site, above)
            if rule is not None:
                known = weights.get(place.layer.identity) or Weights.of(place.layer, rule)
                yield Branch(ref, source, above, place.live, known)
            return
        function = affine(place)
        if isinstance(function, Affine):
            site.check_removable(above)
            yield Branch(ref, source, above, affine=function)
    except Kept:
        return


def _fits(site: Site, main: Branch, other: Branch) -> bool:
    """Whether a branch can become a part of a convolution."""
    if other is main or other.source != main.source or main.weights is None:
        return False
    live = main.live
    if other.live is None:
        axis = None if other.affine is None else other.affine.axis
        same = (
            main.source == other.source
            and site.spec(main.source).shape == site.spec(main.operand).shape
        )
        return (
            same
            and axis in (None, main.weights.rule.out)
            and all(stride == 1 for stride in live.strides)
            and getattr(live, "depth_multiplier", 1) == 1
            and site.spec(other.source).dtype == site.spec(main.operand).dtype
        )
    alike = all(_attribute(live, name) == _attribute(other.live, name) for name in _ALIKE)
    dilations = {tuple(each.live.dilation_rate) for each in (main, other) if max(each.size) > 1}
    return type(live) is type(other.live) and alike and len(dilations) <= 1


def _attribute(live: Any, name: str) -> Any:
    value = getattr(live, name, None)
    return value if value is None or name != "dtype_policy" else value.name


def windows(site: Site, merger: Merger) -> tuple[tuple[Window, ...], tuple[int, ...]]:
    """Return where the kernels of branches lie in the window of the one that stays, and its size.

    Raises:
        Kept: If they do not fit into one window.
    """
    main = merger.main
    axes = _axes(site, main)
    sizes = [each.size or (1,) * len(axes) for each in merger.branches]
    lengths = [partial(site.size, main.source, axis) for axis in axes]
    size = tuple(max(column) for column in zip(*sizes, strict=True))
    offsets: list[tuple[int, ...]] = []
    begin = _start(main.live, size, lengths, main.live)
    for branch, own in zip(merger.branches, sizes, strict=True):
        start = _start(branch.live, own, lengths, main.live)
        offset = tuple(whole - part for whole, part in zip(begin, start, strict=True))
        ends = (at + length for at, length in zip(offset, own, strict=True))
        if min(offset) < 0 or any(end > whole for end, whole in zip(ends, size, strict=True)):
            raise Kept("the branches are padded differently")
        offsets.append(offset)
    placed: list[Window] = []
    for branch, offset in zip(merger.branches, offsets, strict=True):
        if branch.weights is None:
            placed.append(Window(None, offset, branch.affine))
        else:
            placed += branch.weights.placed(offset)
    return tuple(placed), size


def _axes(site: Site, branch: Branch) -> range:
    """Return the axes that a convolution slides along."""
    rank = len(site.spec(branch.source).shape)
    return range(1, rank - 1) if branch.live.data_format == "channels_last" else range(2, rank)


def _start(
    live: Any,
    size: tuple[int, ...],
    lengths: list[Callable[[], int]],
    like: Any,
) -> tuple[int, ...]:
    """Return how many zeros stand before the input of a convolution, in steps of its dilation.

    Args:
        live: The convolution; `None` for a branch without a kernel.
        size: The size of its kernel.
        lengths: Return the sizes of the axes that it slides along.
        like: The convolution whose strides and dilation count.

    Raises:
        Kept: If that is not known, or no number of steps.
    """
    padding = "valid" if live is None else live.padding
    starts: list[int] = []
    for axis, length in enumerate(lengths):
        stride, dilation = like.strides[axis], like.dilation_rate[axis]
        reach = (size[axis] - 1) * dilation
        if reach == 0 or padding == "valid":
            starts.append(0)
            continue
        if padding == "causal":
            starts.append(size[axis] - 1)
            continue
        if stride == 1:
            total = reach
        else:
            size_of = length()
            total = max((-(-size_of // stride) - 1) * stride + reach + 1 - size_of, 0)
        if (total // 2) % dilation:
            raise Kept("the padding is not a multiple of the dilation")
        starts.append(total // 2 // dilation)
    return tuple(starts)


def merge(site: Site, weights: AllWeights) -> Iterator[tuple[Call, Call]]:
    """Merge the branches of sums, and yield the calls that are gone with those they are part of.

    Args:
        site: The graph.
        weights: What becomes of kernels, which is changed.
    """
    for merger in mergers(site, weights):
        main = merger.main
        try:
            site.check_mask(merger.sum)
            parts, size = windows(site, merger)
            whole = _whole(main, parts, size)
        except Kept:
            continue
        weights[whole.layer.identity] = whole
        stays = site.graph.calls[main.operand.call]
        for branch in merger.branches[1:]:
            if branch.call is not None:
                site.remove(branch.call)
                yield branch.call, stays
            if branch.weights is not None:
                weights.pop(branch.weights.layer.identity, None)
        if merger.rest:
            site.reduce(merger.sum, [main.operand, *merger.rest])
        else:
            site.bypass(merger.sum, main.operand)
            yield merger.sum, stays


def _whole(main: Branch, parts: tuple[Window, ...], size: tuple[int, ...]) -> Weights:
    """Return the weights of the convolution that branches become.

    Raises:
        Kept: If they do not fit into float16.
    """
    if main.weights is None:
        raise Kept("a branch without a kernel has no weights")
    whole = replace(main.weights, windows=parts, size=size)
    check_range(whole, main.live)
    return whole
