"""Which layers compute the factors of a kernel: new ones before the layer, which is the last."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ramet.compress.factoring.kernels import Part, Ranks, Shape


@dataclass(frozen=True)
class Piece:
    """A layer that computes one factor."""

    part: Part
    """Which factor."""
    changes: dict[str, Any]
    """The constructor arguments that differ from the layer's."""
    kernel: tuple[int, ...]
    """The shape of its kernel."""
    name: str = ""
    """What its name ends with; empty for the layer itself."""


@dataclass(frozen=True)
class Factorable:
    """A layer whose kernel can be factorized."""

    shape: Shape
    """How its kernel is a stack of matrices."""
    pieces: Callable[[Ranks], list[Piece]] = field(repr=False)
    """Returns the layers that it becomes, in order; the last one is the layer itself."""
    prefers_out: bool = False
    """Whether a plain matrix is to keep its options in the first layer."""


_PLAIN = {"use_bias": False, "activation": None, "activity_regularizer": None}
"""What the layers before the last one do without."""


def factorable(layer: Any, kind: str, rank: int) -> Factorable | str | None:
    """Return how a layer can be factorized.

    Args:
        layer: The live layer, built.
        kind: The name of its class, one of Keras's own.
        rank: The number of axes of its input.

    Returns:
        How; the reason why it cannot; or `None` if it has no kernel.
    """
    rule = _RULES.get(kind)
    return rule(layer, rank) if rule is not None else _WHY_NOT.get(kind)


def _dense(layer: Any, _: int) -> Factorable:
    rows, columns = layer.kernel.shape

    def pieces(ranks: Ranks) -> list[Piece]:
        middle = ranks.into or ranks.out or 0
        parts = ranks.parts
        first = Piece(parts[0], {"units": middle, **_PLAIN}, (rows, middle), "in")
        return [first, Piece(parts[1], {}, (middle, columns))]

    return Factorable(Shape((0, 1), (), (rows,), (columns,)), pieces)


def _einsum(layer: Any, _: int) -> Factorable | str:
    operands, _arrow, result = layer.equation.replace(" ", "").partition("->")
    source, _comma, kernel = operands.partition(",")
    if "..." in kernel:
        return f"'{layer.equation}' leaves the axes of its kernel open"
    rows = [letter for letter in kernel if letter in source and letter not in result]
    columns = [letter for letter in kernel if letter in result and letter not in source]
    if not rows or not columns or len(rows) + len(columns) < len(kernel):
        return f"the kernel of '{layer.equation}' is not a matrix from inputs to outputs"
    sizes = dict(zip(kernel, layer.kernel.shape, strict=True))
    declared = layer.partial_output_shape
    declared = (declared,) if isinstance(declared, int) else tuple(declared)
    outside = dict(zip(reversed(result.replace("...", "")), reversed(declared), strict=False))
    free = next(letter for letter in "rzyxwvutsqponmlkjihgfedcba" if letter not in layer.equation)
    middle = "".join(letter for letter in source if letter not in rows) + free
    shape = Shape(
        tuple(kernel.index(letter) for letter in (*rows, *columns)),
        (),
        tuple(sizes[letter] for letter in rows),
        tuple(sizes[letter] for letter in columns),
    )

    def pieces(ranks: Ranks) -> list[Piece]:
        rank = ranks.into or ranks.out or 0
        known = [*middle.replace("...", "")][:-1]
        known = known if "..." in middle else known[1:]
        first = {
            "equation": f"{source},{''.join(rows)}{free}->{middle}",
            "output_shape": (*map(outside.get, known), rank),
            "bias_axes": None,
            "activation": None,
            "activity_regularizer": None,
        }
        last = {"equation": f"{middle},{free}{''.join(columns)}->{result}"}
        kernels = (*shape.rows, rank), (rank, *shape.columns)
        return [
            Piece(ranks.parts[0], first, kernels[0], "in"),
            Piece(ranks.parts[1], last, kernels[1]),
        ]

    return Factorable(shape, pieces)


def _conv(layer: Any, _: int) -> Factorable:
    *window, rows, columns = layer.kernel.shape
    groups, ones = layer.groups, (1,) * layer.rank
    shape = Shape(tuple(range(layer.rank + 2)), tuple(window), (rows,), (columns,), groups)
    small = {"kernel_size": ones, "strides": ones, "dilation_rate": ones, "padding": "valid"}

    def pieces(ranks: Ranks) -> list[Piece]:
        into, out = ranks.into or rows, ranks.out or columns // groups
        kernels: dict[Part, tuple[int, ...]] = {
            "into": (*ones, rows, groups * into),
            "core": (*window, into, groups * out),
            "out": (*ones, out, columns),
        }
        changes: dict[Part, dict[str, Any]] = {
            "into": {**small, "filters": groups * into, **_PLAIN},
            "core": {"filters": groups * out, **_PLAIN},
            "out": {},
        }
        *before, last = ranks.parts
        names = ("in",) if len(before) == 1 else ("in", "core")
        made = [
            Piece(part, changes[part], kernels[part], name)
            for part, name in zip(before, names, strict=True)
        ]
        return [*made, Piece(last, small if last == "out" else {}, kernels[last])]

    strided = math.prod(layer.strides) > 1
    return Factorable(shape, pieces, prefers_out=strided)


_RULES: dict[str, Callable[[Any, int], Factorable | str]] = {
    "Dense": _dense,
    "EinsumDense": _einsum,
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D"), _conv),
}

_WHY_NOT: dict[str, str] = {
    **dict.fromkeys(
        ("DepthwiseConv1D", "DepthwiseConv2D"), "each of its outputs reads one channel only"
    ),
    **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), "its kernel has two factors already"),
    **dict.fromkeys(
        ("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose"),
        "transposed convolutions are not factorized",
    ),
}
"""Layers with kernels that are left alone, and why."""
