"""A loop over the calls of a graph; subclasses define what it means to make a call."""

import abc
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ramet.graph.data import Call, Ref
from ramet.graph.tree import Tree, map_tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph


class CallLoop(abc.ABC):
    """Makes the calls of a graph in order, and keeps the value of each tensor.

    A subclass defines `step`, and so what a value is: an array, a symbolic tensor, a mask.
    """

    def __init__(self, graph: "Graph") -> None:
        """Start without values."""
        self.graph = graph
        self.values: dict[Ref, Any] = {}
        """The values computed so far, by tensor."""

    def make_calls(self, calls: Iterable[Call] | None = None) -> None:
        """Make the calls whose outputs have no values yet.

        Args:
            calls: The calls, in order; by default all calls of the graph.
        """
        for call in self.graph.calls.values() if calls is None else calls:
            if self.is_needed(call):
                self.step(call)

    def is_needed(self, call: Call) -> bool:
        """Whether a call has to be made: its first output has no value yet."""
        return Ref(call.name) not in self.values

    @abc.abstractmethod
    def step(self, call: Call) -> Any:
        """Make one call, and `keep` its outputs."""

    def keep(self, call: Call, outputs: Iterable[Any]) -> None:
        """Keep the outputs of a call, in flat order."""
        for index, value in enumerate(outputs):
            self.values[Ref(call.name, index)] = value

    def filled(self, tree: Tree) -> Tree:
        """Return a tree with tensors replaced by their values."""
        return map_tree(lambda leaf: self.values[leaf] if isinstance(leaf, Ref) else leaf, tree)
