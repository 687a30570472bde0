"""A graph and all graphs nested in it, each visited once."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ramet.graph.data import Layer

if TYPE_CHECKING:
    from ramet.graph.core import Graph


@dataclass(frozen=True, slots=True)
class Visit:
    """One graph on a walk."""

    path: tuple[str, ...]
    """Keys of the nested models on the way to it; empty for the outermost graph."""
    layer: Layer | None
    """The nested model with the graph; `None` for the outermost graph."""
    graph: "Graph"
    """The graph."""

    @property
    def prefix(self) -> str:
        """The prefix of names of this graph in a path: `encoder/block/`."""
        return "".join(f"{key}/" for key in self.path)

    @property
    def identity(self) -> tuple[int, int] | None:
        """The identity of the model; `None` for the outermost graph."""
        return None if self.layer is None else self.layer.identity


def walk(graph: "Graph") -> Iterator[Visit]:
    """Yield a graph and those nested in it, each model once, at any depth of nesting.

    A graph comes after all graphs that call its model, so that the reversed walk goes from
    the inside out. A model that several graphs share has the path in the first of them.
    Costs O(layers).
    """
    paths: dict[tuple[int, int] | None, tuple[str, ...]] = {None: ()}
    for layer, target in reversed(_inside_out(graph)):
        visit = Visit(paths[None if layer is None else layer.identity], layer, target)
        yield visit
        for key, inner in nested_models(target):
            paths.setdefault(inner.identity, (*visit.path, key))


def nested_models(graph: "Graph") -> list[tuple[str, Layer]]:
    """List the layers of a graph that are models with graphs, by key."""
    return [(key, layer) for key, layer in graph.layers.items() if layer.graph is not None]


def _inside_out(graph: "Graph") -> list[tuple[Layer | None, "Graph"]]:
    """List nested models before those that call them, the last one of a graph first."""
    done: list[tuple[Layer | None, Graph]] = []
    met: set[tuple[int, int]] = set()
    stack: list[tuple[Layer | None, Graph, list[tuple[str, Layer]]]]
    stack = [(None, graph, nested_models(graph))]
    while stack:
        layer, target, inside = stack[-1]
        while inside:
            _, inner = inside.pop()
            if inner.identity not in met and inner.graph is not None:
                met.add(inner.identity)
                stack.append((inner, inner.graph, nested_models(inner.graph)))
                break
        else:
            done.append((layer, target))
            stack.pop()
    return done
