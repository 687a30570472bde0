"""The Graph: layers, the calls of them, and how tensors flow between the calls.

Ownership: a Graph owns nothing that lives. It names things; `origin` fields
point at the live objects that it was read from and are never followed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ramet.graph.check import check_graph
from ramet.graph.editable import Editable, Origin
from ramet.graph.journal import Journal
from ramet.graph.parts import Call, Layer
from ramet.graph.rows import graph_html
from ramet.graph.text import graph_text
from ramet.graph.tree import Tree


@dataclass(frozen=True)
class Graph(Editable):
    """A model as data: frozen, checked, and readable with `print`.

    Calls are kept in an order in which they can be computed; a graph given in
    another order is sorted. Costs O(calls) to make.

    Raises:
        GraphError: If a reference leads nowhere or the calls form a cycle.
    """

    name: str
    """Name of the model."""
    layers: Mapping[str, Layer]
    """Layers by key: the layer's name, made unique where two share one."""
    calls: Mapping[str, Call]
    """Calls by name, in an order in which they can be computed."""
    inputs: Tree
    """The model's inputs: a tree of `Ref`s."""
    outputs: Tree
    """The model's outputs: a tree of `Ref`s."""
    origin: Origin | None = field(default=None, repr=False, compare=False)
    """Where the graph was read from; `None` for one that was written by hand."""
    journal: Journal = field(default_factory=Journal, repr=False, compare=False)
    """What was done to the graph since it was traced. `print` it for a dry run."""

    def __post_init__(self) -> None:
        """Checks the graph, sorts the calls and freezes the mappings."""
        calls = check_graph(self)
        object.__setattr__(self, "layers", MappingProxyType(dict(self.layers)))
        object.__setattr__(self, "calls", MappingProxyType(calls))

    def parts(self, which: str) -> dict[str, Any]:
        """Returns a copy of the layers or calls, to be changed."""
        # Its own copy is quicker than making a dict of the proxy.
        return getattr(self, which).copy()

    def changed(self, **fields: Any) -> "Graph":
        """Returns a graph with other fields, which are known to hold together."""
        made = object.__new__(type(self))
        for name in ("layers", "calls"):
            if name in fields:
                fields[name] = MappingProxyType(fields[name])
        for name, value in {**vars(self), **fields}.items():
            object.__setattr__(made, name, value)
        return made

    def __str__(self) -> str:
        """Returns what the author wrote as text, one line per call."""
        return graph_text(self)

    def _repr_html_(self) -> str:
        """Returns the graph as a table, which notebooks show."""
        return graph_html(self)

    def text(self, *, derived: bool = False) -> str:
        """Returns the graph as text, one line per call.

        Args:
            derived: Whether to show the masks that Keras filled in as well, and the
                calls that only serve them.
        """
        return graph_text(self, derived=derived)

    def build(
        self, *, weights: str = "copy", seed: int | None = None, name: str | None = None
    ) -> Any:
        """Makes a Keras model of the graph.

        Args:
            weights: `"copy"` gives every variable a copy of its value, `"share"`
                puts new layers on the same variables, `"fresh"` lets the layers'
                own initializers make new values.
            seed: Makes fresh weights reproducible; only with `weights="fresh"`.
            name: Name of the new model; the old one's by default.

        Returns:
            A new model. The one that the graph was read from is not changed.

        Raises:
            GraphError: If the graph was not traced from a model.
            OptionError: If an option has a value that it cannot have.
            StateError: If a weight's initializer cannot be known.
            CopyError: If a layer holds something that cannot be copied.
        """
        return self.live_origin().build(self, weights=weights, seed=seed, name=name)
