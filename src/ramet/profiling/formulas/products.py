"""Matrix products: dense layers, `matmul`, `einsum`, and the like."""

import math
from collections.abc import Sequence
from typing import Any

from ramet.profiling.formulas.adapters import of_adapter
from ramet.profiling.registry import Called, counts_layers, counts_operations


@counts_layers("Dense")
def dense(called: Called) -> int:
    """Count a dense layer, which multiplies the last axis, whatever comes before it."""
    layer, features = called.layer, int(called.inputs[0].shape[-1] or 0)
    macs = called.outputs[0].size * features
    return macs + of_adapter(layer, macs, features * layer.units)


@counts_layers("EinsumDense")
def einsum_dense(called: Called) -> int:
    """Count a dense layer that is written as an equation."""
    layer = called.layer
    kernel = _kernel_shape(layer.equation, called.inputs[0].shape, called.outputs[0].shape)
    macs = of_equation(layer.equation, [called.inputs[0].shape, kernel])
    return macs + of_adapter(layer, macs, math.prod(kernel))


@counts_layers("Embedding")
def embedding(called: Called) -> int:
    """Count a lookup, which multiplies nothing but a low-rank adapter."""
    layer = called.layer
    if not getattr(layer, "lora_enabled", False):
        return 0
    return math.prod(layer.lora_embeddings_a.shape) * layer.lora_embeddings_b.shape[-1]


@counts_layers("ReversibleEmbedding")
def reversible_embedding(called: Called) -> int:
    """Count a lookup, or in reverse the product with all embeddings."""
    if called.argument("reverse"):
        return called.inputs[0].size * called.layer.input_dim
    return embedding(called)


@counts_layers("Dot")
def dot(called: Called) -> int:
    """Count the products along the two axes of a Dot layer."""
    first = called.inputs[0].shape
    axes = called.layer.axes
    axis = axes if isinstance(axes, int) else axes[0]
    summed = int(first[axis] or 0)
    return called.outputs[0].size * summed


@counts_operations("Matmul")
def matmul(called: Called) -> int:
    """Count a matrix product: each output value is a sum along the last axis of the first."""
    return called.outputs[0].size * int(_shapes(called)[0][-1] or 0)


@counts_operations("Dot", "Inner", "Vdot")
def inner(called: Called) -> int:
    """Count a product that sums along the last axis of the first tensor."""
    first, second = _shapes(called)
    if not first or not second:
        return 0  # a number times a tensor
    if type(called.layer).__name__ == "Vdot":
        return math.prod(first)
    return called.outputs[0].size * int(first[-1] or 0)


@counts_operations("Tensordot")
def tensordot(called: Called) -> int:
    """Count a product that sums along several axes."""
    first = _shapes(called)[0]
    axes = called.layer.axes
    if isinstance(axes, int):
        summed = first[len(first) - axes :]
    else:
        own = [axes[0]] if isinstance(axes[0], int) else axes[0]
        summed = [first[axis] for axis in own]
    return called.outputs[0].size * math.prod(size or 0 for size in summed)


@counts_operations("Einsum")
def einsum(called: Called) -> int:
    """Count an equation of any number of tensors."""
    return of_equation(called.layer.subscripts, _shapes(called))


@counts_operations("CDist")
def distances(called: Called) -> int:
    """Count the distances of all pairs: one sum along the last axis each."""
    return called.outputs[0].size * int(_shapes(called)[0][-1] or 0)


def of_equation(equation: str, shapes: Sequence[Sequence[Any]]) -> int:
    """Return the multiply-accumulates of an einsum, multiplied from left to right.

    The product of two tensors takes one for each combination of their indices.
    """
    left, _, result = equation.replace(" ", "").partition("->")
    terms, sizes = left.split(","), dict[str, int]()
    labels = [_labelled(term, shape, sizes) for term, shape in zip(terms, shapes, strict=True)]
    if "->" in equation:
        kept = {*result.replace("...", "")} | {label for label in sizes if len(label) > 1}
    else:  # implied: the labels that occur once
        every = [label for term in labels for label in term]
        kept = {label for label in every if every.count(label) == 1 or len(label) > 1}
    current, total = labels[0], 0
    for number, term in enumerate(labels[1:], 1):
        both = {*current, *term}
        total += math.prod(sizes[label] for label in both)
        later = {label for rest in labels[number + 1 :] for label in rest}
        current = both & (kept | later)
    return total


def _labelled(term: str, shape: Sequence[Any], sizes: dict[str, int]) -> set[str]:
    """Return the labels of a term, and note their sizes. Axes of `...` count from the right."""
    before, dots, after = term.partition("...")
    extra = len(shape) - len(before) - len(after)
    hidden = [f"...{extra - number}" for number in range(extra)] if dots else []
    labels = [*before, *hidden, *after]
    for label, size in zip(labels, shape, strict=True):
        sizes[label] = max(sizes.get(label, 1), int(size or 0))
    return {*labels}


def _kernel_shape(equation: str, given: Sequence[Any], result: Sequence[Any]) -> list[int]:
    """Return the shape of the kernel of an equation from those of input and output."""
    left, _, right = equation.replace(" ", "").partition("->")
    first, kernel = left.split(",")
    sizes: dict[str, int] = {}
    _labelled(first, given, sizes)
    _labelled(right, result, sizes)
    return [sizes[label] for label in kernel.replace("...", "")]


def _shapes(called: Called) -> list[tuple[Any, ...]]:
    """Return the shapes of the operands, which may be tensors, arrays or numbers."""
    operands = [*called.args, *called.kwargs.values()]
    return [tuple(getattr(operand, "shape", ())) for operand in operands]
