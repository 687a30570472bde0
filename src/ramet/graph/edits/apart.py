"""Records of new layers that are copies of others: unshared, or added by an edit."""

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from ramet.graph.data import Layer

if TYPE_CHECKING:
    from ramet.graph.core import Graph

_APART = itertools.count(1)


class Apart:
    """Makes records of new layers, distinct from all others with the same origins.

    The same goes for the layers inside nested models. Sharing is kept: records of one layer
    become records of one new layer.
    """

    def __init__(self) -> None:
        """Start with no records."""
        self._numbers: dict[int, int] = {}
        self._graphs: dict[tuple[int, int], Graph] = {}

    def layer(self, layer: Layer) -> Layer:
        """Return the new record for an old one."""
        if layer.graph is not None and layer.identity not in self._graphs:
            for visit in reversed([*layer.graph.walk()]):
                identity = visit.identity or layer.identity
                if identity not in self._graphs:
                    layers = {key: self._record(each) for key, each in visit.graph.layers.items()}
                    self._graphs[identity] = visit.graph.changed(layers=layers)
        return self._record(layer)

    def _record(self, layer: Layer) -> Layer:
        if layer.apart not in self._numbers:
            self._numbers[layer.apart] = next(_APART)
        graph = None if layer.graph is None else self._graphs[layer.identity]
        return replace(layer, apart=self._numbers[layer.apart], graph=graph)


def apart(layer: Layer) -> Layer:
    """Return a record of a new layer, distinct from all others with the same origin."""
    return Apart().layer(layer)
