"""The calls of a graph as they are aligned: in an order that only structure decides."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.edits.inline import context, flat, given_tensors
from ramet.graph.names import is_automatic, prefixed
from ramet.graph.reach import written_calls

Tensor = tuple["Node", int]
"""A tensor: the node that makes it, and which of its outputs it is."""


@dataclass(eq=False, slots=True)
class Node:
    """A call that the author wrote, at its place in a graph or in a model that was opened."""

    path: str
    """Name of the call, behind the calls of the models that were opened for it."""
    key: str | None
    """Path of its layer; `None` for a bare symbolic input."""
    call: Call
    """The call."""
    layer: Layer | None
    """What is called."""
    graph: Graph
    """The graph that holds the call."""
    kwargs: Mapping[str, Any]
    """Keyword arguments that its author wrote, there or where an opened model is called."""
    alias: str | None = None
    """The name that the layer of an opened model has once that model is inlined."""
    inputs: list[Tensor] = field(default_factory=list[Tensor])
    """The tensors that its author gave to it, in order."""
    readers: "list[tuple[Node | None, int, int]]" = field(
        default_factory=list["tuple[Node | None, int, int]"]
    )
    """Who reads which of its outputs at which place; `None` for an output of the model."""
    is_input: bool = False
    """Whether it is an input of the model."""


@dataclass(eq=False)
class Nodes:
    """The nodes of a graph, in order, and where its tensors are."""

    order: list[Node]
    """Inputs first, then each call after what it reads."""
    tensors: dict[Ref, Tensor]
    """The tensors of the graph itself, those of opened models too."""
    opened: dict[str, list[Node]] = field(default_factory=dict[str, list[Node]])
    """The calls of models that were opened, by the path of the model."""


def nodes_of(graph: Graph, opened: Collection[str] = (), closed: Collection[str] = ()) -> Nodes:
    """List the written calls of a graph, ordered by how the outputs lead to them.

    The order in which a model was constructed has no influence. Costs O(calls).

    Args:
        graph: The graph.
        opened: Paths of nested models whose calls stand in the place of theirs.
        closed: Paths of calls of such models that stand for themselves all the same.
    """
    nodes: list[Node] = []
    models = _Models({key: [] for key in opened}, frozenset(closed))
    tensors = _add(nodes, graph, None, models, {})
    for place, ref in _output_places(graph.outputs):
        maker, index = tensors[ref]
        maker.readers.append((None, place, index))
    for node in nodes:
        for place, (maker, index) in enumerate(node.inputs):
            maker.readers.append((node, place, index))
    inputs = [tensors[ref][0] for ref in flat(graph.inputs)]
    for node in inputs:
        node.is_input = True
    # Outputs of an opened model that nobody reads are reached from no output.
    ends = [tensors[ref][0] for ref in flat(graph.outputs)]
    order = _ordered(inputs, [*ends, *nodes])
    return Nodes(order, tensors, models.opened)


def _output_places(outputs: Any) -> list[tuple[int, Ref]]:
    """Return the outputs of a graph with a number that tells each: by its key, if it has one."""
    if isinstance(outputs, dict):
        items = cast("dict[str, Any]", outputs).items()
        return [(hash((key, at)), ref) for key, tree in items for at, ref in enumerate(flat(tree))]
    return [*enumerate(flat(outputs))]


@dataclass(eq=False)
class _Opened:
    """The call of a nested model in whose place the calls inside it stand."""

    node: Node
    """The call, which is not among the nodes itself."""
    models: tuple[str, ...]
    """Names of the models around the calls."""


@dataclass(eq=False)
class _Models:
    """The models that are opened."""

    opened: dict[str, list[Node]]
    """Their calls, by the path of the model."""
    closed: frozenset[str]
    """Paths of calls that are not opened."""


def _add(
    nodes: list[Node],
    graph: Graph,
    around: _Opened | None,
    models: _Models,
    tensors: dict[Ref, Tensor],
) -> dict[Ref, Tensor]:
    """Add the calls of a graph, or those in the place of a call of it."""
    for call in written_calls(graph):
        if Ref(call.name) in tensors:
            continue  # an input of an opened model is what that model is called on
        node = _node(graph, call, around)
        node.inputs = [tensors[ref] for ref in call.written_refs]
        inner = None if node.layer is None else node.layer.graph
        calls = models.opened.get(node.key or "")
        if inner is None or calls is None or node.path in models.closed:
            nodes.append(node)
            tensors |= {Ref(call.name, index): (node, index) for index in range(len(call.outputs))}
            continue
        calls.append(node)
        given = [tensors[ref] for ref in given_tensors(graph, call, inner)]
        starts = dict(zip(flat(inner.inputs), given, strict=True))
        names = (*(() if around is None else around.models), inner.name)
        inside = _add(nodes, inner, _Opened(node, names), models, starts)
        ends = enumerate(flat(inner.outputs))
        tensors |= {Ref(call.name, index): inside[ref] for index, ref in ends}
    return tensors


def _node(graph: Graph, call: Call, around: _Opened | None) -> Node:
    layer = None if call.layer is None else graph.layers[call.layer]
    kwargs = call.written
    if around is None:
        return Node(call.name, call.layer, call, layer, graph, kwargs)
    node = around.node
    key = None if call.layer is None else f"{node.key}/{call.layer}"
    alias = call.name if layer is None else layer.name
    for model in reversed(around.models):
        alias = prefixed(model, alias)
    if layer is not None:
        outer = replace(node.call, kwargs=node.kwargs, derived=frozenset())
        kwargs = {**kwargs, **context(node.graph, outer, call, layer)}
    return Node(f"{node.path}/{call.name}", key, call, layer, graph, kwargs, alias)


def _ordered(inputs: list[Node], ends: list[Node]) -> list[Node]:
    """Order nodes by a walk up from the outputs, argument by argument."""
    done: dict[int, Node] = {id(node): node for node in inputs}
    for end in ends:
        path = [(end, 0)]
        while path:
            node, at = path.pop()
            if id(node) in done:
                continue
            if at < len(node.inputs):
                path += [(node, at + 1), (node.inputs[at][0], 0)]
            else:
                done[id(node)] = node
    return [*done.values()]


# --- names


def is_same_name(first: str, second: str, kind: str) -> bool:
    """Whether two layers of a kind have one name, but for the numbers that Keras counts."""
    return first == second or (is_automatic(first, kind) and is_automatic(second, kind))


def is_named_alike(a: Node, b: Node) -> bool:
    """Whether layers have one name, but for what follows from inlining."""
    old, new = a.layer, b.layer
    if old is None or new is None or is_same_name(old.name, new.name, old.kind):
        return True
    return _is_inlined(a.alias, new.name) or _is_inlined(b.alias, old.name)


def _is_inlined(alias: str | None, name: str) -> bool:
    """Whether inlining gave a layer its name, maybe with a number.

    A layer of a model that is nested in several has a name from one of the ways to it.
    """
    names = (name, re.sub(r"_\d+$", "", name))
    return alias is not None and any(f"_{alias}".endswith(f"_{each}") for each in names)
