"""Layers and operations on several tensors: sums, products, reductions, contractions."""

from collections.abc import Sequence

import keras
import numpy as np

from ramet.compress.channels.rules.normalizing import axes_of
from ramet.compress.channels.rules.reshaping import weakest
from ramet.compress.channels.site import Axis, Site, Tensor, axis_of, rule

_ELEMENTWISE = (
    "Power FloorDivide Mod Arctan2 Greater GreaterEqual Less LessEqual Equal NotEqual Where "
    "Logaddexp"
)
_REDUCTIONS = "Mean Sum Max Min Amax Amin Prod Var Std Any All Logsumexp CountNonzero Norm"


def _constant(site: Site, name: str) -> Tensor | None:
    """Return an argument that is a number or an array, which is cut like what it meets."""
    value = site.constants.get(name)
    if isinstance(value, (bool, int, float)):
        return ()
    shape = getattr(value, "shape", None)
    if shape is None or isinstance(value, keras.Variable):
        return None
    if name not in site.slices:
        site.slices[name] = tuple(
            Axis(size, site.atoms.fresh(size, "")) if size > 1 else Axis(size) for size in shape
        )
    return site.all_nonzero(
        site.slices[name], f"a channel is not zero after the constant in {site.name}"
    )


def _operands(site: Site) -> list[Tensor] | None:
    """List all operands, constants among them; `None` if one is something else."""
    tensors = site.tensors()
    for name in site.constants:
        if name in ("x1", "x2", "inputs", "condition"):
            constant = _constant(site, name)
            if constant is None:
                return None
            tensors.append(constant)
    return tensors


def _aligned(site: Site, tensors: Sequence[Tensor]) -> list[list[Axis]]:
    """Tie the axes that meet, and list them for each axis of the output."""
    rank, meeting = len(site.shapes[0]), list[list[Axis]]()
    for at in range(-rank, 0):
        axes = [tensor[at] for tensor in tensors if len(tensor) >= -at]
        full = [axis for axis in axes if axis.size != 1 or site.shapes[0][at] == 1]
        for axis in axes:
            if all(axis is not other for other in full):
                site.lock(axis, f"{site.name} repeats it")
        for axis in full[1:]:
            site.tie(full[0], axis)
        meeting.append(full)
    return meeting


def _all_meet(axes: Sequence[Axis], tensors: Sequence[Tensor], at: int) -> bool:
    """Whether all tensors have an axis, and not of size one."""
    return len(axes) == len(tensors) and all(len(tensor) >= -at for tensor in tensors)


@rule("Add", "Subtract", "Average", "Maximum", "Minimum", "Hypot", "LogicalOr", "LogicalXor")
@rule("CustomScaleLayer")  # of InceptionResNet
def sum_of(site: Site) -> Sequence[Tensor] | None:
    """A channel is zero if it is in all operands."""
    if hasattr(site.layer, "axis"):
        return None  # The operation Average computes a mean along an axis.
    tensors = _operands(site)
    if tensors is None:
        return None
    rank = len(site.shapes[0])
    output: list[Axis] = []
    for at, axes in zip(range(-rank, 0), _aligned(site, tensors), strict=True):
        axis = weakest(axes) if axes else Axis(site.shapes[0][at])
        output.append(axis if _all_meet(axes, tensors, at) else site.nonzero(axis))
    return [tuple(output)]


@rule("Multiply", "LogicalAnd")
def product_of(site: Site) -> Sequence[Tensor] | None:
    """A channel is zero if it is in one operand."""
    tensors = _operands(site)
    if tensors is None:
        return None
    output: list[Axis] = []
    for at, axes in zip(range(-len(site.shapes[0]), 0), _aligned(site, tensors), strict=True):
        labelled = [axis for axis in axes if axis.labels is not None]
        if not labelled:
            output.append(axes[0] if axes else Axis(site.shapes[0][at]))
            continue
        leaks = labelled[0].leak()
        for axis in labelled[1:]:
            leaks = np.minimum(leaks, axis.leak())
        output.append(axis_of(labelled[0].label(), leaks))
    return [tuple(output)]


@rule("Glu")
def glu(site: Site) -> Sequence[Tensor] | None:
    """The first half of the channels, each gated by one of the second."""
    seen, at = site.tensor(), site.layer.axis % len(site.tensor())
    whole = seen[at]
    if whole.labels is None or not whole.size:
        return [(*seen[:at], Axis(site.shapes[0][at]), *seen[at + 1 :])]
    first, second = (whole.at(half) for half in np.split(np.arange(whole.size), 2))
    site.tie(first, second)
    return [(*seen[:at], first, *seen[at + 1 :])]


@rule(*["Divide", "TrueDivide", "DivideNoNan"])
def quotient_of(site: Site) -> Sequence[Tensor] | None:
    """Zero divided by a constant is zero."""
    tensors, constants = _operands(site), site.constants
    outputs = product_of(site)
    if outputs is None or tensors is None:
        return None
    if "x2" in constants or type(site.layer).__name__ == "DivideNoNan":
        return outputs
    (output,) = outputs
    # 0/0 where both are masked; something / 0 where the divisor is.
    return [site.all_nonzero(output)]


@rule(*_ELEMENTWISE.split())
def other_of(site: Site) -> Sequence[Tensor] | None:
    """Element by element, but zeros are not kept."""
    tensors = _operands(site)
    if tensors is None:
        return None
    meeting = _aligned(site, tensors)
    output = [
        weakest(axes) if axes else Axis(size)
        for axes, size in zip(meeting, site.shapes[0], strict=True)
    ]
    name = type(site.layer).__name__
    exponent = site.constants.get("x2")
    if name == "Power" and isinstance(exponent, (int, float)) and exponent > 0:
        return [tuple(output)]
    return [site.all_nonzero(tuple(output))]


# --- reductions ---


@rule(*_REDUCTIONS.split())
def reduction(site: Site) -> Sequence[Tensor] | None:
    """Some axes become one number."""
    layer, seen = site.layer, site.tensor()
    given = getattr(layer, "axis", None)
    gone = [*range(len(seen))] if given is None else axes_of(given, len(seen))
    name = type(layer).__name__
    for i in gone:
        site.read(seen[i])
        if name != "Sum":
            site.lose(seen[i], f"{site.name} goes over all channels")
    keepdims = getattr(layer, "keepdims", False)
    output = tuple(
        Axis(1) if i in gone else axis for i, axis in enumerate(seen) if keepdims or i not in gone
    )
    return [site.all_nonzero(output) if name == "Logsumexp" else output]


# --- contractions ---


def contracted(site: Site, terms: Sequence[str], result: str, tensors: Sequence[Tensor]) -> Tensor:
    """Return the output of an einsum; axes with one letter are one.

    Args:
        site: The call.
        terms: The letters of each operand.
        result: The letters of the output.
        tensors: The operands.
    """
    axes: dict[str, list[Axis]] = {}
    for letters, tensor in zip(terms, tensors, strict=True):
        for letter, axis in zip(letters, tensor, strict=True):
            axes.setdefault(letter, []).append(axis)
    output: dict[str, Axis] = {}
    for letter, meeting in axes.items():
        largest = [axis for axis in meeting if axis.size != 1] or meeting
        for axis in meeting:
            if all(axis is not other for other in largest):
                site.lock(axis, f"{site.name} repeats it")
        for axis in largest[1:]:
            site.tie(largest[0], axis)
        output[letter] = _zero_if_any(largest)
        if letter not in result:
            site.read(output[letter])
    return tuple(output[letter] for letter in result)


def _zero_if_any(axes: Sequence[Axis]) -> Axis:
    labelled = [axis for axis in axes if axis.labels is not None]
    if not labelled:
        return axes[0]
    leaks = labelled[0].leak()
    for axis in labelled[1:]:
        leaks = np.minimum(leaks, axis.leak())
    return axis_of(labelled[0].label(), leaks)


@rule("Einsum")
def einsum(site: Site) -> Sequence[Tensor] | None:
    """Letters that the output lacks are summed over."""
    left, arrow, result = site.layer.subscripts.replace(" ", "").partition("->")
    terms, tensors = left.split(","), site.tensors()
    if not arrow or "." in left + result or len(terms) != len(tensors):
        return None
    if any(len({*term}) != len(term) for term in terms):
        return None
    return [contracted(site, terms, result, tensors)]


@rule("Matmul")
def matmul(site: Site) -> Sequence[Tensor] | None:
    """The last axis of one operand with the one before the last of the other."""
    tensors = _matrices(site)
    if tensors is None or any(len(tensor) < 2 for tensor in tensors):  # noqa: PLR2004 matrices
        return None
    first, second = tensors
    around = "abcdefgh"
    ranks = len(first) - 2, len(second) - 2
    batch = around[: max(ranks)]
    terms = [f"{batch[len(batch) - ranks[0] :]}xy", f"{batch[len(batch) - ranks[1] :]}yz"]
    return [contracted(site, terms, f"{batch}xz", tensors)]


def _matrices(site: Site) -> tuple[Tensor, Tensor] | None:
    """Return the operands in order; a constant one always stays."""
    operands: list[Tensor] = []
    for name in ("x1", "x2"):
        if name in site.reads:
            operands.append(site.tensor(name))
            continue
        constant = _constant(site, name)
        if constant is None:
            return None
        operands.append(constant)
    return operands[0], operands[1]


@rule("Dot")
def dot(site: Site) -> Sequence[Tensor] | None:
    """One axis of each operand; the layer."""
    tensors, given = site.tensors(), getattr(site.layer, "axes", None)
    if given is None or len(tensors) != 2:  # noqa: PLR2004 two operands
        return None
    both = (given, given) if isinstance(given, int) else tuple(given)
    if any(isinstance(each, (list, tuple)) for each in both):
        return None
    first, second = tensors
    letters = [[*"abcdefgh"[: len(first)]], [*"zyxwvuts"[: len(second)]]]
    letters[0][0] = letters[1][0] = "B"
    for own, axis in zip(letters, both, strict=True):
        own[axis] = "C"
    result = "B" + "".join(x for own in letters for x in own if x not in "BC")
    output = contracted(site, ["".join(own) for own in letters], result, tensors)
    return [output if len(output) > 1 else (*output, Axis(1))]
