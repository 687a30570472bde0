"""Layers that are copied together, and the order of the calls of all such groups."""

from typing import Any

from ramet import keras_internals as internals
from ramet.copying.deep_copy import Copier

_LATER = 10**9
"""Calls that a build makes come after those that a copier gave their recorded numbers."""


class CallOrder:
    """The order of the calls of each operation of a new model, shared by all its groups."""

    def __init__(self) -> None:
        """Start with no call."""
        self.ranks: dict[int, int] = {}
        """Where a new call stands among the calls of its layer, by the id of the call."""
        self._operations: dict[int, Any] = {}

    def append(self, output: Any) -> None:
        """Put the call that returned a symbolic tensor after all calls that are known."""
        source = internals.producer(output)
        if source is not None:
            node, _ = source
            self.ranks[id(node)] = len(self.ranks) + _LATER
            self._operations[id(node.operation)] = node.operation

    def apply(self) -> None:
        """Sort the calls of every operation that was called."""
        for operation in self._operations.values():
            internals.order_nodes(operation, self.ranks)


class LayerGroup:
    """Layers that one copier copies, so that what they shared is shared among the copies.

    Most layers are in group 0. Layers that an edit took apart from others with the same
    origins are a group of their own, one for all that were taken apart together.
    """

    def __init__(self, number: int, weights: str, order: CallOrder) -> None:
        """Start with nothing copied.

        Args:
            number: The number of the group in the records of its layers; see `Layer.apart`.
            weights: What becomes of variables; see `Copier`.
            order: The order of the calls of the whole model.
        """
        self.number = number
        self.copier = Copier(weights)
        self.copier.calls.order = order.ranks  # A layer may be called by graphs of other groups.
        self._order = order
        self._mapped = 0

    def map_graphs(self) -> None:
        """Sort the calls, and map the graphs of the copies that were built so far."""
        self._order.apply()
        for function in self.copier.graphs.built_elsewhere:
            internals.map_graph(function)

    def map_new_graphs(self) -> None:
        """Sort the calls and map the graphs, if more were built since the last time."""
        count = len(self.copier.graphs.built_elsewhere)
        if self._mapped < count:
            self.map_graphs()
            self._mapped = count
