"""Recorded calls, made again on the tensors of a new model without running their layers."""

from typing import Any

from ramet import keras_internals as internals
from ramet.copying.deep_copy import Copier
from ramet.copying.handlers import Uncopyable
from ramet.errors import CopyError
from ramet.graph import Call, Graph, Ref, Spec
from ramet.graph.tree import Tree, map_tree


def replay(
    copier: Copier, graph: Graph, call: Call, operation: Any, tensors: dict[Ref, Any]
) -> list[Any]:
    """Make one call as it was recorded, and return its symbolic outputs.

    Args:
        copier: Copies the constants among the arguments.
        graph: The graph of the call.
        call: The call.
        operation: The new layer or operation; `None` for a bare tensor.
        tensors: The new symbolic tensors of the graph.

    Raises:
        CopyError: If a constant cannot be copied.
    """
    outputs = [_symbolic(spec) for spec in call.outputs]
    if operation is not None:
        recorded = (call.args, call.kwargs)
        args, kwargs = copied_arguments(copier, graph, call, recorded, tensors)
        internals.new_node(operation, args, kwargs, outputs)
    return outputs


def copied_arguments(
    copier: Copier, graph: Graph, call: Call, tree: Tree, tensors: dict[Ref, Any]
) -> Tree:
    """Return arguments of a call with the new tensors and copied constants.

    Raises:
        CopyError: If a constant cannot be copied.
    """

    def fill(leaf: Any) -> Any:
        return tensors[leaf] if isinstance(leaf, Ref) else copier.copy(leaf)

    try:
        return map_tree(fill, tree)
    except Uncopyable as problem:
        message = (
            f"call '{call.name}' of model '{graph.name}' cannot be copied: one of its "
            f"arguments holds a {problem.class_name}; pass it to the layer in another way, such as "
            "by its constructor"
        )
        raise CopyError(message) from problem


def _symbolic(spec: Spec) -> Any:
    return internals.new_tensor(
        shape=spec.shape,
        dtype=spec.dtype,
        sparse=spec.sparse,
        ragged=spec.ragged,
        ragged_rank=spec.ragged_rank,
        row_splits_dtype=spec.row_splits_dtype,
        name=spec.name,
    )
