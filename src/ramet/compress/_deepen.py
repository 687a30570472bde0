"""`deepen`: more layers, and the same function."""

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

import keras

from ramet._arguments import check_text, shown
from ramet.compress.widening.deeper import identity_like, with_zeros_at_the_end
from ramet.errors import OptionError
from ramet.graph import Graph
from ramet.graph.journal import Journal
from ramet.graph.locate import find_tensor
from ramet.tracing.trace import trace


def deepen(model: Any, at: str, new: Any = None) -> Graph:
    """Add layers after a tensor, so that the model computes the same and can keep learning.

    Args:
        model: A model that can be traced, or a Graph.
        at: The tensor, by the layer that computes it.
        new: A layer, or a list of layers, whose output is added to the tensor. The last one has
            a kernel, which starts with zeros, so that nothing is added at first. By default, a
            layer of the class that computes the tensor, a Dense layer or a convolution, which
            starts as the identity.

    Returns:
        A graph with more layers, to edit further or to build.

    Raises:
        OptionError: If the last new layer has no kernel that can start with zeros, or there is
            no identity like the layer that computes the tensor.
        GraphError: If there is no such tensor, or what is added has another shape.
        ModelError: If the argument is not a model, or has no graph.

    Examples:
        >>> branch = [layers.Conv2D(4, 3, padding="same", activation="relu"), layers.Conv2D(4, 1)]
        >>> deeper = ramet.compress.deepen(model, "relu", branch).build()
        >>> ramet.verify(model, deeper, only="outputs", rtol=1e-6, atol=1e-6).ok
        True
    """
    check_text(at, "at")
    graph = trace(model)
    if new is None:
        _, inner, ref = find_tensor(graph, at)
        record = inner.layers[inner.calls[ref.call].layer or ""]
        live = graph.live_origin().current(record)
        edited = graph.insert_after(at, identity_like(live, at))
        text = f"deepen '{at}' by an identity"
    else:
        branch = with_zeros_at_the_end(_listed(graph, new))

        def added(x: Any) -> Any:
            y = x
            for layer in branch:
                y = layer(y)
            return keras.layers.Add()([x, y])

        edited = graph.insert_after(at, added)
        kinds = ", ".join(type(layer).__name__ for layer in branch)
        text = f"deepen '{at}' by {kinds}, which add nothing at first"
    edit = dataclasses.replace(edited.journal[-1], text=text, promise="equal")
    return edited.changed(journal=Journal.of((*graph.journal, edit), edited.journal.notes))


def _listed(graph: Graph, new: Any) -> list[Any]:
    layers = [*cast("Sequence[Any]", new)] if isinstance(new, (list, tuple)) else [new]
    if not layers:
        raise OptionError("there are no layers to add; pass a layer or a list of layers")
    for layer in layers:
        if not isinstance(layer, keras.Layer):
            raise OptionError(f"new must be a layer or a list of layers, but has {shown(layer)}")
        graph.live_origin().layer(layer, "what a model is deepened by")
    return layers
