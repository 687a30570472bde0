"""The Graph: layers, the calls of them, and how tensors flow between the calls.

Ownership: a Graph owns no live object. `origin` fields refer to the live objects that it was
traced from, and this package never looks inside them. What edits need to know of a layer was
recorded with it (`Facts`); for anything else they ask `live_origin()` (see `origin.py`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from ramet._arguments import check_flag, check_word
from ramet._words import Weights
from ramet.errors import OptionError
from ramet.graph.check import check_fields, check_graph, check_parts
from ramet.graph.content import content_hash, flattened, restored, same_graph
from ramet.graph.data import Call, Layer
from ramet.graph.editable import Editable
from ramet.graph.journal import Journal
from ramet.graph.names import brief, counted, did_you_mean
from ramet.graph.origin import Origin
from ramet.graph.rows import graph_html
from ramet.graph.text import graph_text, sizes_text
from ramet.graph.tree import Tree
from ramet.graph.walk import Visit, walk


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Editable):
    """A model as data: frozen, checked, and readable with `print`.

    Calls are in an order in which they can be computed; calls in another order are sorted.
    Creating a graph costs O(calls).

    Two graphs are equal if they call the same layers in the same way. A graph can be pickled,
    but without its live layers: an unpickled graph can be read and compared, not built.

    Raises:
        GraphError: If a reference points nowhere, or the calls form a cycle.

    Examples:
        >>> graph = ramet.trace(model)
        >>> print(graph.calls["head"].layer, graph.layers["head"].kind)
        head Dense
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
    """Where the graph was traced from; `None` if it was written by hand or unpickled."""
    journal: Journal = field(default_factory=Journal, repr=False, compare=False)
    """The edits since the graph was traced. `print` it for a dry run."""

    def __post_init__(self) -> None:
        """Check the graph, sort the calls and freeze the mappings."""
        check_fields(self.name, vars(self))
        check_parts(self)
        calls = check_graph(self)
        object.__setattr__(self, "layers", MappingProxyType(dict(self.layers)))
        object.__setattr__(self, "calls", MappingProxyType(calls))
        if self.journal.owner is None:
            self.journal.owner = self

    def parts(self, which: str) -> dict[str, Any]:
        """Return a copy of the layers or calls that can be changed.

        Examples:
            >>> sorted(ramet.trace(model).parts("layers"))[:2]
            ['conv', 'drop']
        """
        # The proxy's own copy is faster than `dict(proxy)`.
        check_word(which, "which", ("layers", "calls"))
        return getattr(self, which).copy()

    def changed(self, **fields: Any) -> "Graph":
        """Return a graph with some fields replaced, without checking it: they are known to fit.

        Examples:
            >>> ramet.trace(model).changed(name="other").name
            'other'
        """
        for name in fields.keys() - vars(self).keys():
            raise OptionError(f"a Graph has no field '{name}'{did_you_mean(name, [*vars(self)])}")
        check_fields(self.name, fields)
        graph = object.__new__(type(self))
        for name in ("layers", "calls"):
            if name in fields:
                fields[name] = MappingProxyType(fields[name])
        for name, value in {**vars(self), **fields}.items():
            object.__setattr__(graph, name, value)
        if graph.journal.owner is None:
            graph.journal.owner = graph
        return graph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and (self is other or same_graph(self, other))

    def __hash__(self) -> int:
        return content_hash(self)

    def __copy__(self) -> "Graph":
        return self

    def __deepcopy__(self, memo: Any) -> "Graph":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (type(self), flattened(self))

    def walk(self) -> Iterator[Visit]:
        """Yield this graph and all nested ones, each model once, outer ones first.

        Costs O(layers), at any depth of nesting.

        Examples:
            >>> outer = keras.Sequential([keras.Input((8, 8, 3)), model], name="outer")
            >>> [visit.prefix for visit in ramet.trace(outer).walk()]
            ['', 'classifier/']
        """
        return walk(self)

    def __str__(self) -> str:
        """Return the graph as text, one line per call that the author wrote."""
        return graph_text(self)

    def __repr__(self) -> str:
        """Return name and size of the graph on one line."""
        edits = f", {counted(len(self.journal), 'edit')}" if self.journal else ""
        return brief("Graph", f"'{self.name}': {sizes_text(self)}{edits}")

    def _repr_html_(self) -> str:
        """Return the graph as a table, which notebooks show."""
        return graph_html(self)

    def text(self, *, derived: bool = False) -> str:
        """Return the graph as text, one line per call.

        Args:
            derived: Whether to include the masks that Keras filled in, and the calls that
                compute them.

        Examples:
            >>> "conv" in ramet.trace(model).text()
            True
        """
        check_flag(derived, "derived")
        return graph_text(self, derived=derived)

    def build(
        self, *, weights: Weights = "copy", seed: int | None = None, name: str | None = None
    ) -> Any:
        """Build a Keras model from the graph.

        Args:
            weights: `"copy"` copies the value of every variable, `"share"` creates new
                layers with the same variables, `"fresh"` initializes new variables by the
                layers' own initializers.
            seed: Seed for fresh weights; only with `weights="fresh"`.
            name: Name of the new model; that of the old one by default.

        Returns:
            A new model. The model that was traced is not changed.

        Raises:
            GraphError: If the graph was written by hand or unpickled, and so has no live layers.
            OptionError: If an option has an invalid value.
            StateError: If the initializer of a weight is not known.
            CopyError: If a layer holds something that cannot be copied.

        Examples:
            >>> smaller = ramet.trace(model).remove("drop").build()
            >>> "drop" in [layer.name for layer in smaller.layers]
            False
        """
        return self.live_origin().build(self, weights=weights, seed=seed, name=name)
