"""What is drawn: nodes, the edges between them, and the views that hold both."""

from dataclasses import dataclass

from ramet.graph import Layer

SAME, ADDED, REMOVED, CHANGED = "same", "added", "removed", "changed"
"""How a node or an edge of one model compares with the other model."""


@dataclass(frozen=True, slots=True)
class Shade:
    """What a call costs, as its node shows it."""

    value: float
    """What is shaded: its share of the total, or how far it puts the outputs off."""
    text: str
    """What it costs, in words; empty if nothing."""


@dataclass(frozen=True, slots=True)
class Node:
    """One call, as it is drawn."""

    name: str
    """Name of the call."""
    kind: str
    """Class of the layer."""
    output: str
    """Dtypes and shapes of its outputs."""
    sources: tuple[str, ...]
    """Its input tensors."""
    layer: Layer | None
    """What is called; `None` for a bare symbolic input."""
    parameters: int | None
    """How many parameters the layer has; `None` if unknown before it is built."""
    masked: bool | None
    """Whether an output carries a mask; `None` if unknown before it is built."""
    shared: bool
    """Whether the layer is called elsewhere too."""
    again: bool
    """Whether an earlier call in the same view calls the same layer."""
    inside: "View | None" = None
    """The view of a nested model."""
    difference: str = SAME
    """How it differs from the node of the other model."""
    reasons: tuple[str, ...] = ()
    """What differs, in words."""
    before: Layer | None = None
    """The layer of the first model that this one was compared with."""
    shade: Shade | None = None
    """What the call costs, if nodes are shaded by that."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One or several tensors that flow from one node to another."""

    source: str
    """Name of the node that makes it."""
    target: str
    """Name of the node that consumes it."""
    masked: bool
    """Whether it carries a mask."""
    difference: str = SAME
    """Whether it is in both models."""


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One graph, or two overlaid, with nested models collapsed."""

    name: str
    """Name of the model."""
    nodes: tuple[Node, ...]
    """The calls, in order."""
    edges: tuple[Edge, ...]
    """What flows between them."""
    outputs: tuple[str, ...] = ()
    """The tensors that leave the model."""

    @property
    def difference(self) -> str:
        """`changed` if anything in it differs, otherwise `same`."""
        parts = (*self.nodes, *self.edges)
        return SAME if all(part.difference == SAME for part in parts) else CHANGED
