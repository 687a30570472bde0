"""Which nested models are opened: those whose layers stand in the other graph itself."""

from collections import Counter
from collections.abc import Iterator
from typing import cast

from ramet.comparing.alignment.facts import Facts, share_parts
from ramet.comparing.alignment.nodes import Node, Nodes, nodes_of
from ramet.errors import GraphError
from ramet.graph import Graph, Layer
from ramet.graph.edits.inline import given_tensors


def open_models(
    first: Graph, second: Graph, facts: Facts
) -> tuple[tuple[set[str], set[str]], tuple[Nodes, Nodes]]:
    """Find the models that only one of two graphs nests, and read both with those opened."""
    opened: tuple[set[str], set[str]] = (set(), set())
    while True:
        nodes = nodes_of(first, opened[0]), nodes_of(second, opened[1])
        more = [{*_to_open(nodes[side], nodes[1 - side], facts)} - opened[side] for side in (0, 1)]
        if not any(more):
            return opened, nodes
        opened = opened[0] | more[0], opened[1] | more[1]


def _to_open(nodes: Nodes, others: Nodes, facts: Facts) -> Iterator[str]:
    """Yield the keys of nested models whose layers, by half at least, the other graph holds."""
    models, theirs = _models(nodes), _models(others)
    for key, other in _counterparts(models, theirs, facts):
        del models[key], theirs[other]
    if not models:
        return
    # By calls, not by layers: models that share a layer are inlined into calls of that one layer.
    there = _plain_calls(others, facts)
    there.subtract(_plain_calls(nodes, facts))
    uses, other_uses = (Counter(node.key for node in side.order) for side in (nodes, others))
    for key, node in models.items():
        found = facts.of_node(node)
        calls = _times(uses[key], found.calls)
        held = Counter(there)
        for other, model in theirs.items():
            inner = found.inner_like(facts.of_node(model))
            if inner is not None:  # It is beside what was around it.
                held.update(_times(other_uses[other], inner.calls))
        common = sum((calls & held).values())
        if common and 2 * common >= sum(calls.values()) and _can_open(node):
            there.subtract(calls)
            yield key


def _counterparts(
    models: dict[str, Node], others: dict[str, Node], facts: Facts
) -> list[tuple[str, str]]:
    """Pair nested models that have the same weights, one name, or most layers in common."""

    def is_named_alike(a: Node, b: Node) -> bool:
        return a.layer is not None and b.layer is not None and a.layer.name == b.layer.name

    def is_same(a: Node, b: Node) -> bool:
        return facts.of_node(a).fact == facts.of_node(b).fact

    def is_heavy_alike(a: Node, b: Node) -> bool:
        one, two = facts.of_node(a), facts.of_node(b)
        return is_same(a, b) and bool(one.content) and one.content == two.content

    def is_alike(a: Node, b: Node) -> bool:
        one, two = facts.of_node(a), facts.of_node(b)
        is_part = one.inner_like(two) is not None or two.inner_like(one) is not None
        return share_parts(one.parts, two.parts) and not is_part

    left, right = dict(models), dict(others)
    found: list[tuple[str, str]] = []
    for agrees in (is_heavy_alike, is_named_alike, is_same, is_alike):
        for key, node in [*left.items()]:
            other = next((k for k, each in right.items() if agrees(node, each)), None)
            if other is not None:
                found.append((key, other))
                del left[key], right[other]
    return found


def _models(nodes: Nodes) -> dict[str, Node]:
    found = [node for node in nodes.order if node.layer is not None and node.layer.graph]
    return {node.key or "": node for node in found}


def _plain_calls(nodes: Nodes, facts: Facts) -> Counter[str]:
    """Count the facts of layers that are neither inputs nor models, once for each call."""
    return Counter(
        facts.of_node(node).fact
        for node in nodes.order
        if node.layer is not None and node.layer.graph is None and not node.is_input
    )


def _times(number: int, counts: Counter[str]) -> Counter[str]:
    return Counter({fact: number * count for fact, count in counts.items()})


def _can_open(node: Node) -> bool:
    """Whether it is known which tensor each input of a nested model gets."""
    try:
        given_tensors(node.graph, node.call, cast("Graph", cast("Layer", node.layer).graph))
    except GraphError:
        return False
    return True
