"""A graph as text that reads like code: one line per call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ramet.graph.data import Call, Ref, Spec
from ramet.graph.names import counted
from ramet.graph.reach import layers_of, unsettled_calls, written_calls
from ramet.graph.tree import Tree
from ramet.graph.walk import nested_models
from ramet.text.console import folded, terminal_width

if TYPE_CHECKING:
    from ramet.graph.core import Graph

_HANGING = 6
"""Indent of the continuation lines of a folded line."""


def graph_text(graph: "Graph", *, derived: bool = False) -> str:
    """Return the graph as text, with nested graphs indented below it.

    `derived` includes the arguments that Keras filled in, and their calls. A question mark
    follows specs that are inferred again when the graph is built.
    """
    lines: list[str] = []
    waiting = [("", graph)]
    while waiting:
        indent, target = waiting.pop()
        own = _own_lines(target, terminal_width() - len(indent), derived=derived)
        lines += [indent + line for line in own]
        nested = {layer.identity: layer.graph for _, layer in nested_models(target)}
        waiting += [(f"{indent}  ", inner) for inner in reversed(nested.values()) if inner]
    return "\n".join(lines)


def _own_lines(graph: "Graph", width: int, *, derived: bool) -> list[str]:
    """Return the lines of a graph without those nested in it.

    If they do not fit the width, calls are not aligned, and long lines are folded.
    """
    calls = [*graph.calls.values()] if derived else written_calls(graph)
    unsettled = unsettled_calls(graph)
    rows = [
        (
            _target(call, settled=call.name not in unsettled),
            _source(graph, call, derived=derived and call.name not in unsettled),
        )
        for call in calls
    ]
    title = f"graph '{graph.name}': {sizes_text(graph, calls)}"
    returned = f"return {_value(graph, graph.outputs)}"
    column = max((len(target) for target, _ in rows), default=0)
    if all(column + len(source) <= width - len("   = ") for _, source in rows):
        lines = [f"{target:<{column}} = {source}" for target, source in rows]
    else:
        lines = [f"{target} = {source}" for target, source in rows]
    inside = [folded(f"  {line}", width, hanging=_HANGING) for line in (*lines, returned)]
    return [line for group in (folded(title, width, hanging=_HANGING), *inside) for line in group]


def sizes_text(graph: "Graph", calls: Sequence[Call] | None = None) -> str:
    """Return the numbers of layers and calls, and of the calls that are not shown.

    Args:
        graph: The graph.
        calls: The calls that are shown; those that the author wrote by default.
    """
    calls = written_calls(graph) if calls is None else calls
    sizes = [counted(len(layers_of(calls)), "layer"), counted(len(calls), "call")]
    if len(calls) < len(graph.calls):
        sizes.append(f"{len(graph.calls) - len(calls)} derived")
    return ", ".join(sizes)


def _target(call: Call, *, settled: bool) -> str:
    return f"{call.name}: {outputs_text(call, settled=settled)}"


def outputs_text(call: Call, *, settled: bool) -> str:
    """Return dtypes and shapes of the outputs of a call, with `?` if they are not settled."""
    mark = "" if settled else "?"
    return ", ".join(_spec(spec) + mark for spec in call.outputs)


def _spec(spec: Spec) -> str:
    if not spec.known:
        return ""
    return f"{spec.dtype}[{', '.join(str(size) for size in spec.shape)}]"


def _source(graph: "Graph", call: Call, *, derived: bool) -> str:
    if call.layer is None:
        return "tensor"
    shown = [_value(graph, arg) for arg in call.args]
    kwargs = call.kwargs if derived else call.written
    shown += [f"{key}={_value(graph, value)}" for key, value in kwargs.items()]
    layer = graph.layers[call.layer]
    shared = "" if call.name == call.layer else f" {layer.name}"
    return f"{layer.kind}{shared}({', '.join(shown)})"


def _value(graph: "Graph", value: Tree) -> str:
    if isinstance(value, Ref):
        return ref_text(graph, value)
    if isinstance(value, dict):
        pairs = cast("dict[Any, Tree]", value).items()
        return f"{{{', '.join(f'{key}: {_value(graph, item)}' for key, item in pairs)}}}"
    if isinstance(value, (list, tuple)):
        items = [_value(graph, item) for item in cast("list[Tree]", value)]
        if isinstance(value, list):
            return f"[{', '.join(items)}]"
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    return _constant(value)


def ref_text(graph: "Graph", ref: Ref) -> str:
    """Return the name of a tensor: that of its call, with an index if there are several outputs."""
    several = len(graph.calls[ref.call].outputs) > 1
    return f"{ref.call}.{ref.index}" if several else ref.call


def _constant(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, slice):
        ends = [cast("Any", value).start, cast("Any", value).stop]
        return ":".join("" if end is None else str(end) for end in ends)
    return f"<{type(value).__name__}>"
