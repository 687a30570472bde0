"""A hash of what a model is: its layers, their connections and their weights."""

import hashlib
import json
from typing import Any

from ramet.backends.values import to_numpy
from ramet.comparing.alignment.facts import constant, without_tuples
from ramet.graph import Call, Graph, Ref
from ramet.graph.reach import written_calls
from ramet.graph.tree import Tree, map_tree
from ramet.tracing.configs import comparable_config
from ramet.tracing.origin import traced_model
from ramet.tracing.trace import trace


def fingerprint(model: Any) -> str:
    """Return a hash of a model with a graph, the same for an exact copy of it.

    Costs O(values): every weight is read.

    Raises:
        ModelError: If it is not a model with a graph.
    """
    graph = trace(model)
    digest = hashlib.sha256()
    for line in _lines(graph):
        digest.update(line.encode())
    for variable in traced_model(graph).weights:
        digest.update(f"{tuple(variable.shape)}{variable.dtype}".encode())
        values = to_numpy(variable)
        is_plain = values.dtype.kind not in "OU"
        digest.update(values.tobytes() if is_plain else repr(values.tolist()).encode())
    return digest.hexdigest()


def _lines(graph: Graph) -> list[str]:
    """Return what a graph and all nested ones call, in words."""
    lines: list[str] = []
    for visit in graph.walk():
        for key, layer in visit.graph.layers.items():
            config = json.dumps(comparable_config(layer), sort_keys=True)
            lines.append(f"{visit.prefix}{key}: {layer.name} {layer.kind} {config}\n")
        lines += [f"{_of_call(call)}\n" for call in written_calls(visit.graph)]
        lines.append(f"{_of_tree(visit.graph.inputs)} {_of_tree(visit.graph.outputs)}\n")
    return lines


def _of_call(call: Call) -> str:
    return f"{call.name} {call.layer} {_of_tree(call.args)} {_of_tree(call.written)}"


def _of_tree(tree: Tree) -> str:
    def text(leaf: Any) -> str:
        if isinstance(leaf, Ref):
            return f"{leaf.call}.{leaf.index}"
        return str(constant(leaf))

    return repr(without_tuples(map_tree(text, tree)))
