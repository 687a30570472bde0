"""Models whose graphs are not just copies: their calls are replayed, or made by others."""

from typing import Any

from ramet.bridge import internals
from ramet.bridge.copies import Builder
from ramet.bridge.plain import Uncopyable
from ramet.errors import CopyError
from ramet.graph import Call, Graph, Layer, Ref, Spec
from ramet.graph.tree import Tree, map_tree


class Replayer(Builder):
    """Builds a model, some of whose graphs are given; the others are copied."""

    def __init__(self, weights: str) -> None:
        """Starts with nothing built and no graph given."""
        super().__init__(weights)
        self.copier.on_function = self.give_graph
        self.functions: list[Any] = []
        self.operations: dict[int, Any] = {}
        self._results: dict[int, tuple[Tree, Tree]] = {}

    def give(self, function: Any, inputs: Tree, outputs: Tree) -> None:
        """Gives the copy of a `keras.Function` the graph between some symbolic tensors."""
        self._results[id(function)] = (inputs, outputs)

    def give_graph(self, source: Any, made: Any) -> bool:
        """Gives the copy of a model its graph, if another than the source's is meant."""
        if id(source) not in self._results:
            return False
        internals.set_structures(made, *self._results[id(source)])
        self.functions.append(made)
        return True

    def copy(self, source: Any) -> Any:
        """Copies a model or layer, with the graphs of all models inside."""
        made = super().copy(source)
        self.map_functions()
        return made

    def map_functions(self) -> None:
        """Puts calls into their recorded order and maps the graphs given so far."""
        for operation in self.operations.values():
            internals.order_nodes(operation, self.copier.order)
        for function in self.functions:
            internals.map_graph(function)

    def tensor(self, tensor: Any) -> Any:
        """Returns the copy of a symbolic tensor, with all calls above it."""
        made = self.copier.copy(tensor)
        self.copier.drain()
        return made

    def put(self, old: Any, new: Any) -> None:
        """Takes a given symbolic tensor for the copy of another, inputs too."""
        self.copier.memo[id(old)] = new
        if internals.is_input(old) and internals.is_input(new):
            self.copier.memo[id(internals.maker(old))] = internals.maker(new)

    def layer(self, record: Layer) -> Any:
        """Returns the new layer of a record."""
        return self.copier.copy(record.origin)

    def replay(self, graph: Graph, call: Call, tensors: dict[Ref, Any]) -> list[Any]:
        """Makes one call as it was recorded, and returns its symbolic outputs."""
        outputs = [_symbolic(spec) for spec in call.outputs]
        if call.layer is not None:
            operation = self.layer(graph.layers[call.layer])
            args, kwargs = self.arguments(graph, call, (call.args, call.kwargs), tensors)
            node = internals.new_node(operation, args, kwargs, outputs)
            self.copier.order[id(node)] = internals.node_index(call.origin.node)
            self.operations[id(operation)] = operation
        return outputs

    def arguments(self, graph: Graph, call: Call, tree: Tree, tensors: dict[Ref, Any]) -> Tree:
        """Returns arguments of a call with the new tensors and copied constants.

        Raises:
            CopyError: If a constant cannot be copied.
        """

        def fill(leaf: Any) -> Any:
            return tensors[leaf] if isinstance(leaf, Ref) else self.copier.copy(leaf)

        try:
            return map_tree(fill, tree)
        except Uncopyable as problem:
            message = (
                f"call '{call.name}' of model '{graph.name}' cannot be copied: one of its "
                f"arguments holds a {problem.kind}; give it to the layer another way"
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
