"""What tells the calls of a graph apart: class, config, weights, names and neighbours."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ramet.comparing.alignment.facts import LayerFacts, constants_of, share_parts
from ramet.comparing.alignment.nodes import Node, Nodes
from ramet.graph.names import is_automatic


@dataclass(eq=False, slots=True)
class Item:
    """A node, and what tells it from others."""

    node: Node
    kind: str
    """Class of the layer."""
    name: str | None
    """Name of the layer, if somebody chose it."""
    facts: LayerFacts
    """What is known of the layer."""
    fact: str
    """The fact of the layer, and the constants that it is called on."""
    constants: str
    """The constants that it is called on."""
    is_model: bool
    """Whether a graph is inside."""
    place: int = 0
    """Place in the order of its graph."""
    above: int = 0
    """Hash of its facts and those of all above it."""
    below: int = 0
    """Hash of its facts and those of all below it."""
    around: tuple[int, int] = (0, 0)
    """Hashes of the facts of what it reads, and of who reads it where."""


def items_of(nodes: Nodes, facts: Callable[[Node], LayerFacts]) -> list[Item]:
    """Return the evidence for every node, in order. Costs O(calls)."""
    known: dict[int, Item] = {}
    for place, node in enumerate(nodes.order):
        layer, found = node.layer, facts(node)
        kind = "" if layer is None else layer.kind
        chosen = None if layer is None or is_automatic(layer.name, kind) else layer.name
        chosen = node.alias or chosen
        text = constants_of(node)
        is_model = layer is not None and layer.graph is not None
        item = Item(node, kind, chosen, found, f"{found.fact} {text}", text, is_model, place)
        above = [(known[id(maker)].above, index) for maker, index in node.inputs]
        item.above = hash((node.is_input, item.fact, *above))
        known[id(node)] = item
    for node in reversed(nodes.order):
        item = known[id(node)]
        below, near = [], []
        for reader, place, index in node.readers:
            by = None if reader is None else known.get(id(reader))
            below.append((0 if by is None else by.below, place, index))
            near.append((0 if by is None else hash(by.fact), place, index))
        item.below = hash((item.fact, *sorted(below)))
        reads = [(hash(known[id(maker)].fact), index) for maker, index in node.inputs]
        item.around = hash(tuple(reads)), hash(tuple(sorted(near)))
    return [*known.values()]


def content_of(item: Item) -> Any:
    """Return the class and weights of an item, if it has weights that tell."""
    return (item.kind, item.facts.content) if item.facts.content else None


def name_of(item: Item) -> Any:
    """Return the class and name of an item, if somebody chose the name."""
    return None if item.name is None else (item.kind, item.name)


def is_identified(a: Item, b: Item) -> bool:
    """Whether weights, or a name that somebody chose, say that two items are the same."""
    if a.facts.content and b.facts.content:
        return not a.facts.content.isdisjoint(b.facts.content)
    return a.name is not None and a.name == b.name


def are_alike(a: Item, b: Item) -> bool:
    """Whether two models have half of their layers in common."""
    return share_parts(a.facts.parts, b.facts.parts)
