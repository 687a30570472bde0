"""The sizes of a model's inputs: batch, and what the model leaves open."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ramet._arguments import check_mapping, is_size, shown
from ramet.errors import GraphError, OptionError
from ramet.graph import Graph, Ref, Spec
from ramet.graph.names import did_you_mean
from ramet.graph.tree import leaves
from ramet.profiling.tensors import Tensor


def input_tensors(graph: Graph, batch: int, shapes: Any) -> dict[Ref, Tensor]:
    """Return the inputs of a graph with their sizes.

    Args:
        graph: The graph.
        batch: The batch size, for inputs that leave it open.
        shapes: The sizes without the batch axis: a tuple for a graph with one input, or a dict
            by the names of inputs; `None` to leave open what the graph leaves open.

    Raises:
        OptionError: If shapes are not sizes, or contradict the graph.
        GraphError: If there is no input of a name.
    """
    refs = [leaf for leaf in leaves(graph.inputs) if isinstance(leaf, Ref)]
    chosen = _by_name(graph, refs, shapes)
    tensors: dict[Ref, Tensor] = {}
    for ref in refs:
        spec = graph.calls[ref.call].outputs[ref.index]
        shape = [*spec.shape]
        if ref.call in chosen:
            _fill(graph, ref.call, spec, chosen[ref.call], shape)
        if shape and shape[0] is None:
            shape[0] = batch
        tensors[ref] = Tensor(tuple(shape), spec.dtype)
    return tensors


def notes_on(graph: Graph, inputs: Mapping[Ref, Tensor], batch: int) -> list[str]:
    """List what is to be said of the sizes: those that stay open, and fixed batch sizes."""
    notes: list[str] = []
    for ref, tensor in inputs.items():
        axes = [str(axis) for axis, size in enumerate(tensor.shape) if size is None]
        if axes:
            many = "axis" if len(axes) == 1 else "axes"
            notes.append(
                f"the size of {many} {', '.join(axes)} of input '{ref.call}' is not known; pass "
                f"shapes={{'{ref.call}': ...}}"
            )
        spec = graph.calls[ref.call].outputs[ref.index]
        if spec.shape and spec.shape[0] not in (None, batch):
            notes.append(f"input '{ref.call}' has a fixed batch size of {spec.shape[0]}")
    return notes


def _by_name(graph: Graph, refs: Sequence[Ref], shapes: Any) -> dict[str, Sequence[Any]]:
    """Return the sizes that were passed, by the names of inputs."""
    if shapes is None:
        return {}
    names = [ref.call for ref in refs]
    if isinstance(shapes, (tuple, list)):
        if len(names) != 1:
            message = (
                f"graph '{graph.name}' has {len(names)} inputs; pass shapes by their names: "
                f"shapes={{'{names[0] if names else 'x'}': ...}}"
            )
            raise OptionError(message)
        return {names[0]: cast("Sequence[Any]", shapes)}
    check_mapping(shapes, "shapes", "shapes by the names of inputs")
    for name in shapes:
        if name not in names:
            message = (
                f"graph '{graph.name}' has no input '{name}'{did_you_mean(name, names)}; it has: "
                f"{', '.join(names)}"
            )
            raise GraphError(message)
    return dict(shapes)


def _fill(graph: Graph, name: str, spec: Spec, sizes: Any, shape: list[Any]) -> None:
    """Fill the sizes that were passed into a shape."""
    where = f"input '{name}' of graph '{graph.name}'"
    if not isinstance(sizes, (tuple, list)) or not all(map(is_size, cast("list[Any]", sizes))):
        message = (
            f"the shape of {where} must be a tuple of positive integers, without the batch axis, "
            f"got {shown(sizes)}"
        )
        raise OptionError(message)
    given = cast("list[int]", sizes)
    expected = "(" + ", ".join("?" if n is None else str(n) for n in spec.shape[1:]) + ")"
    fits = len(given) == len(spec.shape) - 1 and all(
        known in (None, size) for known, size in zip(spec.shape[1:], given, strict=True)
    )
    if not fits:
        message = (
            f"shape {tuple(given)} does not fit {where}, which is {expected} without the batch"
        )
        raise OptionError(message)
    shape[1:] = map(int, given)
