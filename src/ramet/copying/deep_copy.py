"""The copier: a deep copy of Keras objects and of everything that they hold.

Every object is copied once, so that sharing is preserved; its class decides how (see
`handlers.py`). Layers and models become empty shells first, and calls are queued, so that
recursion is never deeper than the objects inside one layer.
"""

from collections.abc import Iterable
from types import FunctionType
from typing import Any

from ramet import backends
from ramet import keras_internals as internals
from ramet.copying import (
    any_object,
    backend_objects,
    containers,
    functions,
    immutable,
    keras_calls,
    keras_graphs,
    keras_layers,
    keras_state,
    tracked_collections,
    weak_references,
)
from ramet.copying.core import ATOMS, Core
from ramet.copying.handlers import Handlers
from ramet.copying.unknown_fields import check_unknown_fields

HANDLERS = Handlers(
    backend_objects.copies_tensorflow,  # before all others: some of its wrappers are tuples
    keras_calls.copies,
    keras_graphs.copies,
    keras_layers.copies,
    keras_state.copies,
    tracked_collections.copies,
    immutable.copies,
    functions.copies,
    weak_references.copies,
    containers.copies,
    backend_objects.copies_jax,
    backend_objects.copies_torch,
    any_object.copies,  # after all others: it copies instances of any class
    by_attributes=any_object.copy_by_attributes,
)
"""The table of all copiers. It contains classes only, never a model or another instance."""


class Copier(Core):
    """Copies Keras objects and what they hold, each object once.

    A copier is used for one copy. Its memo preserves sharing, inside a model and between all
    objects that are copied together.
    """

    def __init__(self, weights: str = "copy") -> None:
        """Start with an empty memo.

        Args:
            weights: `"copy"` copies all variables. `"share"` keeps those of layers.
                `"fresh"` copies all, but initializers without a seed draw a new one.
        """
        super().__init__(HANDLERS, set(ATOMS), internals.WRAPPERS)
        self.weights = weights
        self.root: Any = None
        """The model or layer to copy: weak references to layers outside of it are kept."""
        self.alive: list[Any] = []
        """Objects that must live as long as the memo, which has their ids."""
        self.deepcopy_memo = any_object.DeepcopyMemo(self.memo)
        self.calls = keras_calls.Calls()
        self.graphs = keras_graphs.Graphs()
        self.shells = keras_layers.Shells()
        self.state = keras_state.State(weights)
        self._inside: set[int] | None = None

    def bind_function(self, value: FunctionType) -> Any:
        """Copy a function that may reach a layer; called by the core."""
        return functions.bind_function(self, value)

    def copy_whole(self, source: Any) -> Any:
        """Copy a model or layer completely, with the graphs of all models inside.

        Objects that are in the memo already are not copied again.
        """
        self.root = source
        if self.weights == "share":
            self.share_variables(source)
        with internals.paused_collector():
            if self.weights == "copy" and backends.current().copies_ahead:
                self.state.values.begin(internals.values_from_last(source))
            twin = self.copy(source)
            self.finish()
        return twin

    def finish(self) -> None:
        """Fill all shells, order calls, and re-key the slots of optimizers.

        Raises:
            CopyError: If an untested Keras has a field that cannot be copied.
        """
        self.drain()
        keras_calls.settle_calls(self)
        for function in self.graphs.copied:
            internals.key_nodes(function)
        keras_state.settle_optimizers(self)
        check_unknown_fields(self)

    def drain(self) -> None:
        """Fill all shells so far, and complete the copies of values that were put off.

        Raises:
            RuntimeError: If the graph of one of the models is built elsewhere.
        """
        function = self.advance()
        if function is not None:
            message = f"the graph of '{function.name}' is built elsewhere; use advance()"
            raise RuntimeError(message)

    def advance(self) -> Any | None:
        """Fill shells until none is left, or until the graph of a model is needed.

        Only one frame of this is on the stack at a time: no handler calls it, and there are no
        callbacks. Whoever builds the graph passes it to `give_graph`, and advances again.

        Returns:
            The next `keras.Function` whose graph is built elsewhere, each one once; `None` if
            all shells are filled.
        """
        calls, graphs, shells = self.calls.waiting, self.graphs, self.shells.waiting
        while True:
            if graphs.waiting:
                function = graphs.waiting.popleft()
                if not keras_graphs.set_graph(self, function):
                    return function
            elif calls:
                keras_calls.fill_call(self, calls.popleft())
            elif shells:
                keras_layers.fill_shell(self, shells.popleft())
            elif graphs.late:
                keras_graphs.start_late_graph(self)
            else:
                break
        self.state.values.finish()
        return None

    def await_graph(self, function: Any) -> None:
        """Announce that the graph of a `keras.Function` is built elsewhere, not copied."""
        self.graphs.awaited.add(id(function))

    def give_graph(self, function: Any, inputs: Any, outputs: Any) -> None:
        """Set the graph of the copy of a `keras.Function`: the one between some tensors.

        Either before the function is copied, or after `advance` returned it.
        """
        self.graphs.ends[id(function)] = (inputs, outputs)
        if id(function) in self.graphs.asked:
            self.graphs.waiting.appendleft(function)

    def share_variables(self, source: Any) -> None:
        """Share the variables of a model or layer with its copy.

        The variables of optimizers and metrics are copied nevertheless.
        """
        self.state.sharing.append(source)

    def omit_values(self, variables: Iterable[Any]) -> None:
        """Leave the values of variables out: their copies get others before anything reads them."""
        self.state.assigned.update(map(id, variables))

    def skip(self, source: Any, names: frozenset[str]) -> None:
        """Omit attributes of a layer or model from its copy."""
        self.shells.skipped[id(source)] = names

    def drop(self, source: Any, layers: list[Any]) -> None:
        """Omit layers that a model tracks from its copy, unless an attribute holds them."""
        self.shells.dropped[id(source)] = layers

    def is_inside(self, layer: Any) -> bool:
        """Whether a layer is part of the model or layer that is copied."""
        if self._inside is None:
            self._inside = {id(part) for part in internals.all_layers(self.root)}
        return id(layer) in self._inside
