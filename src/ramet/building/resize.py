"""Nested models that an edit calls on other shapes than they were built for."""

from typing import Any, NoReturn

from ramet.errors import GraphError
from ramet.graph import Call, Graph, Ref
from ramet.graph.edits.inline import flat, given_tensors
from ramet.tracing.specs import make_input

Shape = tuple[int | None, ...]


def new_shapes(graph: Graph, call: Call, inner: Graph, tensors: dict[Ref, Any]) -> dict[str, Shape]:
    """Return the shapes that inputs of a nested model must have for a call, where they differ.

    Args:
        graph: The graph that calls the model.
        call: The call.
        inner: The model's graph.
        tensors: The symbolic tensors of the outer graph.

    Returns:
        Shapes, batch included, by the names of inputs; empty if the model fits as it is.
    """
    shapes: dict[str, Shape] = {}
    passed, starts = given_tensors(graph, call, inner), flat(inner.inputs)
    before: Any = [] if call.origin is None else call.origin.node.input_tensors
    before = before if len(before) == len(passed) else [None] * len(passed)
    for ref, start, old in zip(passed, starts, before, strict=True):
        tensor, layer = tensors.get(ref), inner.calls[start.call].layer
        had = inner.calls[start.call].outputs[0].shape
        # Keras adds or removes a dimension where one is missing or too many.
        if tensor is None or layer is None or len(had) != len(tensor.shape):
            continue
        if inner.layers[layer].is_input:
            shape = () if old is None else tuple(old.shape)
            was = shape if len(shape) == len(had) else (None,) * len(had)
            wanted = tuple(map(_size, had, tensor.shape, was))
            if wanted != had:
                shapes[start.call] = wanted
    return shapes


def _size(had: int | None, new: int | None, was: int | None) -> int | None:
    """Return the size that an input must have.

    Args:
        had: Its size in the nested model.
        new: The size of the tensor that it is called on now.
        was: The size of the tensor that it was called on before. If that was unknown too,
            Keras accepts an unknown size now.
    """
    if had is None or new is not None:
        return None if had is None else new
    return had if was is None else None


def resized(inner: Graph, shapes: dict[str, Shape]) -> Graph:
    """Return the graph of a nested model with inputs of other shapes."""
    inputs: dict[str, Any] = {}
    for name, shape in shapes.items():
        optional = inner.layers[inner.calls[name].layer or ""].facts.optional
        options = {"shape": shape[1:], "batch_size": shape[0], "optional": optional, "name": name}
        inputs[name] = make_input(inner.calls[name].outputs[0], options)
    return inner.with_inputs(inputs)


def refuse_sizes(graph: Graph, call: Call, inner: Graph, shapes: dict[str, Shape]) -> NoReturn:
    """Raise an error for a nested model that is called on several shapes.

    Raises:
        GraphError: Always.
    """
    pairs = ", ".join(
        f"{shape} in one call and {inner.calls[name].outputs[0].shape} in another"
        for name, shape in shapes.items()
    )
    message = (
        f"nested model '{call.layer}' of graph '{graph.name}' would get {pairs}, but its inputs "
        f"have one shape; give each call a model of its own first: unshare('{call.layer}'), or "
        f"put its layers into the graph: flatten('{call.layer}')"
    )
    raise GraphError(message)
