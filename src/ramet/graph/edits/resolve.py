"""What a user passes to an edit, resolved to the record of a layer or a function of tensors."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from ramet._words import Promise, weakest
from ramet.errors import GraphError
from ramet.graph.data import Layer, Ref
from ramet.graph.edits.apart import apart
from ramet.graph.names import counted, is_automatic, next_free
from ramet.graph.tree import Tree, leaves

if TYPE_CHECKING:
    from ramet.graph.core import Graph
    from ramet.graph.origin import Origin

LayerOrFunction: TypeAlias = Any
"""A layer, a function that returns one for the live layer at the place, or one of tensors."""


@dataclass(frozen=True)
class TensorFunction:
    """A function of tensors, traced wherever an edit puts it."""

    graph: "Graph"
    """The outermost graph."""
    function: Callable[..., Any]
    """The function."""
    where: str
    """What it is for, in error messages."""
    failure: Exception | None = None
    """The exception it raised when it was called for a layer."""

    @property
    def text(self) -> str:
        """How the journal names it."""
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return "a function" if name == "<lambda>" else f"function '{name}'"

    def traced(self, inner: "Graph", args: Tree, kwargs: Tree, count: int | None) -> "Graph":
        """Return the function as a graph, traced on some tensors.

        Args:
            inner: The graph with the tensors.
            args: Its arguments, with `Ref`s for tensors.
            kwargs: Keyword arguments; those that it does not accept are left out.
            count: How many tensors it has to return; `None` if any number will do.

        Raises:
            GraphError: If it returns another number of tensors.
        """
        live = self.graph.live_origin()
        graph = live.traced(self, inner, args, kwargs)
        returned = len([*leaves(graph.outputs)])
        if count is not None and returned != count:
            message = (
                f"{self.where} returns {counted(returned, 'tensor')}, but {count} "
                f"{'is' if count == 1 else 'are'} used there; let it return as many"
            )
            raise GraphError(message)
        return graph


def resolve(
    graph: "Graph", new: LayerOrFunction, old: Callable[[], Any], where: str
) -> Layer | TensorFunction:
    """Return what a user passes to an edit as the record of a layer, or as a function of tensors.

    A function may return a layer for the one at the place, or compute tensors from tensors.
    It is called for a layer first, unless it is one of Keras's own.

    Args:
        graph: The outermost graph.
        new: What the user passes.
        old: Returns the argument of a function that returns a layer: the live layer there.
        where: What it is for, in error messages.
    """
    live = graph.live_origin()
    if not callable(new) or isinstance(new, type) or live.is_layer(new):
        return _brought(graph, new, where)
    function = TensorFunction(graph, new, where)
    if live.is_of_tensors(new):
        return function
    try:
        layer = new(old())
    except Exception as error:  # noqa: BLE001 it may be a function of tensors
        return dataclasses.replace(function, failure=error)
    return _brought(graph, layer, where) if live.is_layer(layer) else function


def resolve_at(
    graph: "Graph", new: LayerOrFunction, old: Layer | None, where: str
) -> Layer | TensorFunction:
    """Return what a user passes for a place, as `resolve` does, given the layer at the place."""
    live = graph.live_origin()
    return resolve(graph, new, lambda: None if old is None else live.current(old), where)


def with_free_name(graph: "Graph", new: Layer, *, freed: str | None = None) -> Layer:
    """Return a layer whose automatic name, if it is taken, has the next free number."""
    taken = graph.layers.keys() - {freed}
    if new.name in taken and is_automatic(new.name, new.kind):
        return dataclasses.replace(new, name=next_free(new.name, taken))
    return new


def described(graph: "Graph", new: Layer) -> str:
    """Return a new layer as the journal names it."""
    owner = " (a copy: it is used elsewhere too)" if graph.live_origin().is_used(new) else ""
    return f"{new.kind} '{new.name}'{owner}"


def promised(graph: "Graph", ask: "Callable[[Origin], Promise]") -> Promise:
    """Return what an edit promises; without live layers, as in an unpickled graph, nothing."""
    return "changed" if graph.origin is None else ask(graph.live_origin())


def passing_promise(graph: "Graph", inner: "Graph", layer: Layer, ref: Ref) -> Promise:
    """Return what it promises to add or remove a layer between a tensor and its consumers.

    Args:
        graph: The outermost graph.
        inner: The graph with the tensor.
        layer: The layer.
        ref: The tensor.
    """
    if graph.origin is None:
        return "changed"
    live, spec = graph.live_origin(), inner.calls[ref.call].outputs[ref.index]
    promise = live.promise_of_passing(layer, spec, inner)
    # In inference, the order of calls shows only in what they leave behind.
    if promise == "exact" or (promise != "changed" and live.keeps_state(graph)):
        return weakest((promise, live.promise_of_order(graph)))
    return promise


def _brought(graph: "Graph", layer: Any, where: str) -> Layer:
    """Return the record of a layer that an edit brings in."""
    return dataclasses.replace(apart(graph.live_origin().layer(layer, where)), brought=True)
