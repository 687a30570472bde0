"""The interface by which graphs reach live objects: layers, models, Keras itself.

`ramet.graph` does not import Keras. `ramet.tracing.origin.Live` implements the interface.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ramet._words import Promise
from ramet.graph.data import Call, Layer, Spec
from ramet.graph.edits.resolve import TensorFunction
from ramet.graph.edits.sharing import Tie
from ramet.graph.tree import Tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph
    from ramet.results.transfer import TransferReport


class Origin(Protocol):
    """Where a graph was traced from."""

    def build(self, graph: "Graph", *, weights: str, seed: int | None, name: str | None) -> Any:
        """Build a model from a graph."""
        ...

    def transfer_report(self, graph: "Graph", weights: str) -> "TransferReport":
        """Return what becomes of every variable when a graph is built."""
        ...

    def part(self, *others: "Origin") -> "Origin":
        """Return the origin of a graph that is a part of this one, or joined from several."""
        ...

    def is_layer(self, value: Any) -> bool:
        """Whether a value is a live layer or operation."""
        ...

    def is_instance(self, layer: Layer, classes: tuple[type, ...]) -> bool:
        """Whether a layer is an instance of one of some classes."""
        ...

    def is_of_tensors(self, function: Any) -> bool:
        """Whether a function is one of Keras's own functions of tensors: `keras.ops.relu`."""
        ...

    def traced(self, function: TensorFunction, inner: "Graph", args: Tree, kwargs: Tree) -> "Graph":
        """Return a function as a graph, traced on some tensors of another graph."""
        ...

    def is_used(self, layer: Layer) -> bool:
        """Whether the live layer of a record has been called, in any model."""
        ...

    def layer(self, live: Any, where: str) -> Layer:
        """Return the record of a new live layer; `where` names it in an error."""
        ...

    def input(self, tensor: Any, spec: Spec, options: Mapping[str, Any]) -> tuple[Layer, Call]:
        """Return the records of a symbolic input; without one, of a new one like a spec.

        Args:
            tensor: The symbolic input, or `None`.
            spec: What a new one is like, except for the options.
            options: Arguments of `keras.Input`.
        """
        ...

    def current(self, layer: Layer) -> Any:
        """Return a live layer as it will be built: the origin, or a re-created one with changes."""
        ...

    def hides_masks(self, graph: "Graph") -> bool:
        """Whether tensors carry masks at run time that the graph does not record."""
        ...

    def remarks(self, graph: "Graph") -> tuple[str, ...]:
        """List what building an edited graph changes beyond its edits."""
        ...

    def settled(self, graph: "Graph") -> "Graph":
        """Return a graph as it is traced after it was built."""
        ...

    def stages(self, graph: "Graph", n: int, by: str, shapes: Any) -> "tuple[Graph, ...]":
        """Cut a graph into stages that cost about the same."""
        ...

    def conversion(self, spec: Spec, wanted: Spec) -> list[tuple[Layer, Call]]:
        """Return the operations by which a model converts a tensor to the spec of an input."""
        ...

    def tie(self, first: Layer, second: Layer) -> Tie:
        """Return the differences of two layers that are to be tied."""
        ...

    def accepts(self, layer: Layer, argument: str) -> bool:
        """Whether a layer's `call` accepts a keyword argument."""
        ...

    def check_changes(self, layer: Layer, changes: Mapping[str, Any]) -> None:
        """Check that a layer can be re-created with other constructor arguments."""
        ...

    def promise_of_passing(self, layer: Layer, spec: Spec, inner: "Graph") -> Promise:
        """Return what adding or removing a layer behind a tensor of a graph promises."""
        ...

    def promise_of_changes(self, layer: Layer, changes: Mapping[str, Any]) -> Promise:
        """Return what other constructor arguments of a layer promise, its weights kept."""
        ...

    def promise_of_copies(self, layer: Layer) -> Promise:
        """Return what copies of a layer promise, one for each of its calls."""
        ...

    def promise_of_sharing(self, first: Layer, others: list[Layer]) -> Promise:
        """Return what one layer in the place of several with the same arguments promises."""
        ...

    def promise_of_order(self, graph: "Graph") -> Promise:
        """Return what making the calls of a graph in another order promises."""
        ...

    def has_own_call(self, graph: "Graph") -> bool:
        """Whether the class of a model in a graph overrides what a call does with the graph."""
        ...

    def trains_otherwise(self, layer: Layer) -> bool:
        """Whether a call of a layer in training may differ from one in inference."""
        ...

    def keeps_state(self, graph: "Graph") -> bool:
        """Whether a call of a layer may change what its next call returns, also in inference."""
        ...
