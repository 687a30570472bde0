"""A graph as text that reads like code: one line per call."""

from typing import TYPE_CHECKING, Any, cast

from ramet.graph.names import counted
from ramet.graph.parts import Call, Ref, Spec
from ramet.graph.reach import unsettled_calls, written_calls
from ramet.graph.tree import Tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def graph_text(graph: "Graph", *, derived: bool = False) -> str:
    """Returns the graph as text, with nested graphs indented below their calls.

    With `derived`, also the arguments that Keras filled in, and their calls. A
    question mark stands behind what is inferred again when the graph is built.
    """
    calls = [*graph.calls.values()] if derived else written_calls(graph)
    layers = {call.layer for call in calls if call.layer is not None}
    hidden = len(graph.calls) - len(calls)
    shown = [counted(len(layers), "layer"), counted(len(calls), "call")]
    if hidden:
        shown.append(f"{hidden} derived")
    lines = [f"graph '{graph.name}': {', '.join(shown)}"]
    unsettled = unsettled_calls(graph)
    rows = [
        (
            _target(call, settled=call.name not in unsettled),
            _source(graph, call, derived=derived and call.name not in unsettled),
        )
        for call in calls
    ]
    width = max((len(target) for target, _ in rows), default=0)
    lines += [f"  {target:<{width}} = {source}" for target, source in rows]
    lines.append(f"  return {_value(graph, graph.outputs)}")
    nested = {layer.identity: layer.graph for layer in graph.layers.values() if layer.graph}
    for inner in nested.values():
        lines += [f"  {line}" for line in graph_text(inner, derived=derived).splitlines()]
    return "\n".join(lines)


def _target(call: Call, *, settled: bool) -> str:
    return f"{call.name}: {outputs_text(call, settled=settled)}"


def outputs_text(call: Call, *, settled: bool) -> str:
    """Returns dtypes and shapes of what a call gives, with `?` if they are not settled."""
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
    shown += [
        f"{key}={_value(graph, value)}"
        for key, value in call.kwargs.items()
        if derived or key not in call.derived
    ]
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
    """Returns the name of a tensor: its call's, and which output if there are several."""
    several = len(graph.calls[ref.call].outputs) > 1
    return f"{ref.call}.{ref.index}" if several else ref.call


def _constant(value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, slice):
        ends = [cast("Any", value).start, cast("Any", value).stop]
        return ":".join("" if end is None else str(end) for end in ends)
    return f"<{type(value).__name__}>"
