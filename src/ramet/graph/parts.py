"""The parts of a graph: tensors, calls and layers, as plain frozen data."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ramet.graph.tree import Tree, leaves

if TYPE_CHECKING:
    from ramet.graph.core import Graph


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

    def refs(self) -> Iterator[Ref]:
        """Yields the tensors that the call takes, in order."""
        for leaf in leaves((self.args, self.kwargs)):
            if isinstance(leaf, Ref):
                yield leaf


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
