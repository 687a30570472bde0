"""From names that a person writes to layers, calls and tensors of a graph."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ramet.errors import GraphError, OptionError
from ramet.graph.names import counted, did_you_mean
from ramet.graph.parts import Call, Layer, Ref
from ramet.graph.reach import written_calls

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def layer_paths(graph: "Graph", prefix: str = "") -> Iterator[tuple[str, Layer]]:
    """Yields every layer that the author wrote by path, nested ones after their model."""
    for key in dict.fromkeys(call.layer for call in written_calls(graph)):
        if key is not None:
            layer = graph.layers[key]
            yield prefix + key, layer
            if layer.graph is not None:
                yield from layer_paths(layer.graph, f"{prefix}{key}/")


def descend(graph: "Graph", path: str) -> tuple[tuple[str, ...], "Graph", str]:
    """Follows a path into nested models.

    Returns:
        The keys of the nested models on the way, the innermost graph, and the last
        name of the path.
    """
    check_place(path)
    *models, last = path.split("/")
    inner = graph
    for key in models:
        layer = inner.layers.get(key)
        if layer is None or layer.graph is None:
            raise _unknown(graph, path)
        inner = layer.graph
    return tuple(models), inner, last


def check_place(place: object) -> None:
    """Checks that something is a name or a Ref.

    Raises:
        OptionError: If it is something else.
    """
    if not isinstance(place, (str, Ref)):
        hint = f"; pass its name, '{name}'" if (name := getattr(place, "name", None)) else ""
        message = f"a place in a graph is named by a string, got a {type(place).__name__}{hint}"
        raise OptionError(message)


def find_layer(graph: "Graph", name: str) -> str:
    """Returns the key of the layer of that name.

    Raises:
        GraphError: If there is none, or it only serves masks that Keras fills in.
    """
    if name in graph.calls and name not in graph.layers:
        layer = graph.calls[name].layer
        message = (
            f"'{name}' of graph '{graph.name}' is one call of layer '{layer}'; name the layer, or "
            f"give the call one of its own first: unshare('{layer}')"
        )
        raise GraphError(message)
    if name not in graph.layers:
        raise _unknown(graph, name)
    if is_operation(graph.layers[name]) and all(
        call.layer != name for call in written_calls(graph)
    ):
        _check_not_derived(graph, name)
    return name


def is_operation(layer: Layer) -> bool:
    """Whether a layer is an operation of `keras.ops`: it has no weights, flags or masks."""
    return not hasattr(layer.origin, "supports_masking")


def _check_not_derived(graph: "Graph", name: str) -> None:
    for call in graph.calls.values():
        for spec in call.outputs:
            if isinstance(spec.mask, Ref) and call.layer != name:
                message = (
                    f"'{name}' of graph '{graph.name}' only serves masks that Keras fills in; "
                    f"edit the layer that makes the mask, such as '{call.name}'"
                )
                raise GraphError(message)


def calls_of_layer(graph: "Graph", key: str) -> list[Call]:
    """Lists the calls of a layer, in order."""
    return [call for call in graph.calls.values() if call.layer == key]


def find_call(graph: "Graph", name: str) -> Call:
    """Returns one call: by its own name, or by that of a layer with one call.

    Raises:
        GraphError: If there is none, or several.
    """
    if name.endswith("#1") and name.removesuffix("#1") in graph.calls:
        return graph.calls[name.removesuffix("#1")]
    if "#" not in name:
        calls = calls_of_layer(graph, find_layer(graph, name))
        if len(calls) > 1:
            names = [calls[0].name + "#1", *(call.name for call in calls[1:])]
            message = (
                f"layer '{name}' of graph '{graph.name}' is called {len(calls)} times; name one "
                f"call: {', '.join(names)}"
            )
            raise GraphError(message)
        if calls:
            return calls[0]
    if name not in graph.calls:
        raise _unknown(graph, name)
    return graph.calls[name]


def find_ref(graph: "Graph", name: "str | Ref") -> Ref:
    """Returns one tensor: `call`, or `call.1` for a call with several outputs.

    Raises:
        GraphError: If there is none, or several.
    """
    check_place(name)
    if isinstance(name, Ref):
        if name.call not in graph.calls:
            raise _unknown(graph, name.call)
        return name
    base, dot, index = name.rpartition(".")
    if dot and index.isdigit() and name not in graph.layers:
        call = find_call(graph, base)
        if int(index) >= len(call.outputs):
            message = (
                f"call '{call.name}' of graph '{graph.name}' has "
                f"{counted(len(call.outputs), 'output')}, so there is no '{name}'"
            )
            raise GraphError(message)
        return Ref(call.name, int(index))
    call = find_call(graph, name)
    if len(call.outputs) > 1:
        names = ", ".join(f"'{call.name}.{i}'" for i in range(len(call.outputs)))
        message = (
            f"call '{call.name}' of graph '{graph.name}' has {len(call.outputs)} outputs; name "
            f"one: {names}"
        )
        raise GraphError(message)
    return Ref(call.name)


def _unknown(graph: "Graph", name: str) -> GraphError:
    known = [path for path, _ in layer_paths(graph)]
    inner = [path for path in known if path.endswith(f"/{name}")]
    hint = f"; did you mean '{inner[0]}'?" if inner else did_you_mean(name, [*known, *graph.calls])
    message = f"no layer '{name}' in graph '{graph.name}' ({counted(len(known), 'layer')}){hint}"
    return GraphError(message)
