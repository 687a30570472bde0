"""The parts of a graph: tensors, calls and layers, as plain frozen data."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ramet.graph.tree import Tree, leaves

if TYPE_CHECKING:
    from ramet.graph.core import Graph


@dataclass(frozen=True, slots=True, eq=False)
class Edit:
    """One line of the journal: what was done to a graph."""

    text: str
    """What was done, in words."""

    def __str__(self) -> str:
        """Returns what was done."""
        return self.text


@dataclass(frozen=True, slots=True)
class Ref:
    """One tensor: output `index` of a call."""

    call: str
    """Name of the call that makes the tensor."""
    index: int = 0
    """Which of the call's outputs it is, in flattened order."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What is known of a tensor before it has a value."""

    shape: tuple[int | None, ...]
    """Shape, with `None` for dimensions that are not known."""
    dtype: str
    """Name of the dtype."""
    name: str
    """Name of the symbolic tensor."""
    sparse: bool = False
    """Whether the tensor is sparse."""
    ragged_rank: int | None = None
    """Number of ragged dimensions; `None` if the tensor is not ragged."""
    row_splits_dtype: str | None = None
    """Dtype of the row splits of a ragged tensor, if it was given."""
    ragged: bool = False
    """Whether the tensor is ragged."""
    mask: Any = None
    """The mask attached to the tensor: a `Ref`, a constant, or `None`."""
    known: bool = True
    """Whether the above is known: not for what an edit brings in, before it is built."""


@dataclass(frozen=True, slots=True)
class Call:
    """One use of a layer on some arguments."""

    name: str
    """Unique in the graph: the layer's name, `name#2` for its second call."""
    layer: str | None
    """Key of the layer in the graph; `None` for a bare symbolic input."""
    args: Tree
    """Positional arguments: a tuple of trees of `Ref`s and constants."""
    kwargs: Tree
    """Keyword arguments: a dict of trees of `Ref`s and constants."""
    outputs: tuple[Spec, ...]
    """One spec per output, in flattened order."""
    derived: frozenset[str] = frozenset()
    """Keyword arguments that Keras filled in and the author did not write."""
    origin: Any = field(default=None, repr=False, compare=False)
    """The live call that it was read from; `None` for one that an edit made."""
    edit: Edit | None = field(default=None, repr=False, compare=False)
    """The edit that made the call or changed its arguments last."""
    refs: tuple[Ref, ...] = field(init=False, repr=False, compare=False)
    """The tensors that the call takes, in order."""
    written_refs: tuple[Ref, ...] = field(init=False, repr=False, compare=False)
    """The tensors that its author gave to it, in order."""
    masked: bool = field(init=False, repr=False, compare=False)
    """Whether an output carries a mask."""

    def __post_init__(self) -> None:
        """Lists the tensors that the call takes."""
        refs = _refs((self.args, self.kwargs))
        written = refs
        if self.derived:
            kept = {key: item for key, item in self.kwargs.items() if key not in self.derived}
            written = _refs((self.args, kept))
        object.__setattr__(self, "refs", refs)
        object.__setattr__(self, "written_refs", written)
        object.__setattr__(self, "masked", any(spec.mask is not None for spec in self.outputs))


def _refs(tree: Tree) -> tuple[Ref, ...]:
    return tuple(leaf for leaf in leaves(tree) if isinstance(leaf, Ref))


POLICIES = ("fit", "fresh", "grow", "tile")
"""How a layer takes over weights: where role and shape agree; not at all; also the part
of a smaller or larger one that both have; and with the rest filled by repeating it."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What is called: a Keras layer, operation or nested model."""

    name: str
    """The layer's own name."""
    kind: str
    """Name of its class."""
    origin: Any = field(repr=False)
    """The live object that its state comes from. Sharing is identity of origin."""
    graph: "Graph | None" = field(default=None, repr=False)
    """The graph of a nested model; `None` for everything else."""
    changes: Mapping[str, Any] | None = None
    """Constructor arguments that differ from the origin's, for a layer to be made again."""
    inherits: Any = field(default=None, repr=False, compare=False)
    """The live layer that it took the place of, and whose weights it takes over."""
    weights: str = "fit"
    """How it takes over weights: one of `POLICIES`."""
    trainable: bool | None = None
    """Whether an edit lets it train; `None` if none says so, and its own flag counts."""
    place: "tuple[Graph, str] | None" = field(default=None, repr=False, compare=False)
    """The graph that the last edit found it in, and its key there."""
    earlier: "Layer | None" = field(default=None, repr=False, compare=False)
    """What it was before the last edit, if an edit before that had changed it already."""
    brought: bool = field(default=False, repr=False, compare=False)
    """Whether an edit brought it in."""
    apart: int = 0
    """Not 0 for a layer that is another than those with the same origin. What was taken
    apart together, such as the layers of one model, has one number."""
    edit: Edit | None = field(default=None, repr=False, compare=False)
    """The edit that brought the layer in or changed it last."""

    @property
    def is_complete(self) -> bool:
        """Whether an edit brought it in with weights of its own."""
        origin = self.origin
        return bool(getattr(origin, "built", False) and getattr(origin, "weights", ()))

    @property
    def is_changed(self) -> bool:
        """Whether its weights are only known once the graph is built."""
        is_new = self.brought or self.inherits is not None
        return self.changes is not None or (is_new and not self.is_complete)

    @property
    def identity(self) -> tuple[int, int]:
        """What is the same for two records of one layer."""
        return id(self.origin), self.apart

    def is_record_of(self, other: "Layer") -> bool:
        """Tells whether two records say the same of the same layer."""
        return (
            self.identity == other.identity
            and self.changes == other.changes
            and self.trainable == other.trainable
            and (self.graph is other.graph or self.edit is other.edit)
        )


_APART = itertools.count(1)


class Apart:
    """Makes records of new layers, that are others than any with the same origins.

    So are the layers inside a nested model. What one layer is for several records stays
    one: all that were the same before are the same afterwards.
    """

    def __init__(self) -> None:
        """Starts with nothing taken apart."""
        self._numbers: dict[int, int] = {}
        self._graphs: dict[int, tuple[Graph, Graph]] = {}

    def layer(self, layer: Layer) -> Layer:
        """Returns the new record for an old one."""
        if layer.apart not in self._numbers:
            self._numbers[layer.apart] = next(_APART)
        graph = None if layer.graph is None else self._graph(layer.graph)
        return replace(layer, apart=self._numbers[layer.apart], graph=graph)

    def _graph(self, graph: "Graph") -> "Graph":
        if id(graph) not in self._graphs:
            layers = {key: self.layer(layer) for key, layer in graph.layers.items()}
            # The old one is kept too, so that no other gets its id.
            self._graphs[id(graph)] = graph, graph.changed(layers=layers)
        return self._graphs[id(graph)][1]


def apart(layer: Layer) -> Layer:
    """Returns a record of a new layer, that is another than any with the same origin."""
    return Apart().layer(layer)
