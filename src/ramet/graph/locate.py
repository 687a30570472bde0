"""Layers, calls and tensors of a graph by the names that users write."""

import difflib
from typing import TYPE_CHECKING, cast

from ramet._arguments import attribute, shown
from ramet.errors import GraphError, OptionError
from ramet.graph.data import Call, Layer, Ref
from ramet.graph.names import counted, with_article
from ramet.graph.paths import layer_paths
from ramet.graph.reach import written_calls

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def descend(graph: "Graph", path: "str | Ref") -> tuple[tuple[str, ...], "Graph", str]:
    """Follow a path into nested models. All edits find layers and calls by it.

    Returns:
        The keys of the nested models on the way, the innermost graph, and the last
        name of the path, which exists in that graph.

    Raises:
        GraphError: If a step leads nowhere.
    """
    check_place(path)
    if isinstance(path, Ref):
        message = (
            f"a layer or call of graph '{graph.name}' is named by a string, got a Ref; pass the "
            f"name of its call, '{path.call}'"
        )
        raise OptionError(message)
    *steps, last = path.split("/")
    models: list[str] = []
    inner = graph
    for step in steps:
        prefix = "".join(f"{key}/" for key in models)
        call = model_call(inner, step, prefix)
        key = cast("str", call.layer)
        calls = calls_of_layer(inner, key)
        if step != key and len(calls) > 1:
            rest = path.removeprefix(f"{prefix}{step}/")
            message = (
                f"'{prefix}{step}' is one of {len(calls)} calls of nested model '{key}', and all "
                f"of them use the same layers; name '{prefix}{key}/{rest}' to edit it for all "
                f"calls, or give each call a model of its own first: unshare('{prefix}{key}')"
            )
            raise GraphError(message)
        models.append(key)
        inner = cast("Graph", inner.layers[key].graph)
    check_known(inner, last, "".join(f"{key}/" for key in models))
    return tuple(models), inner, last


def model_call(graph: "Graph", step: str, prefix: str = "") -> Call:
    """Return the call of a nested model that one step of a path names.

    The name of a model that is called several times means its first call.

    Args:
        graph: The graph that calls the model.
        step: The name of the model, or of one call of it, such as `encoder#2`.
        prefix: The path to that graph, for messages.
    """
    name = _known_name(graph, step)
    if name is None:
        raise _unknown(graph, step, prefix, noun="nested model")
    calls = calls_of_layer(graph, name)
    call = calls[0] if calls else graph.calls[name]
    layer = None if call.layer is None else graph.layers[call.layer]
    if layer is None or layer.graph is None:
        kind = "tensor" if layer is None else layer.kind
        message = (
            f"'{prefix}{step}' of graph '{graph.name}' is {with_article(kind)}, not a nested model "
            "with a graph, so no path leads into it"
        )
        raise GraphError(message)
    return call


def find_tensor(graph: "Graph", place: "str | Ref") -> tuple[tuple[str, ...], "Graph", Ref]:
    """Find one tensor by its path.

    Returns:
        The keys of the nested models on the way, the graph with the tensor, and the tensor.
    """
    check_place(place)
    path = place.call if isinstance(place, Ref) else place
    models, inner, name = descend(graph, path)
    ref = Ref(name, place.index) if isinstance(place, Ref) else name
    return models, inner, find_ref(inner, ref)


def find_tensor_beside(graph: "Graph", models: tuple[str, ...], place: "str | Ref") -> Ref:
    """Return a tensor of the nested graph that is edited.

    Args:
        graph: The outermost graph.
        models: The keys of the nested models on the way to the place of the edit.
        place: The full path of the tensor, or its name in the nested graph.

    Raises:
        GraphError: If there is none, or it is in another graph.
    """
    check_place(place)
    inner = graph
    for key in models:
        inner = cast("Graph", inner.layers[key].graph)
    path = place.call if isinstance(place, Ref) else place
    if models and "/" not in path:
        return find_ref(inner, place)
    _, there, ref = find_tensor(graph, place)
    if there is not inner:
        message = (
            f"'{path}' is a tensor of graph '{there.name}', not of '{inner.name}', where the edit "
            f"is made; name a tensor of '{inner.name}', or flatten the nested model first"
        )
        raise GraphError(message)
    return ref


def check_place(place: object) -> None:
    """Check that something is a name or a Ref.

    Raises:
        OptionError: If it is something else.
    """
    if not isinstance(place, (str, Ref)):
        name = attribute(place, "name")
        hint = f"; pass its name, '{name}'" if isinstance(name, str) and name else ""
        message = f"a place in a graph is named by a string, got {shown(place)}{hint}"
        raise OptionError(message)


def place_text(place: "str | Ref") -> str:
    """Return a place as a user would write it."""
    if isinstance(place, Ref):
        return f"{place.call}.{place.index}" if place.index else place.call
    return place


def find_layer(graph: "Graph", name: str) -> str:
    """Return the key of the layer of that name.

    Raises:
        GraphError: If there is none, or it only computes masks that Keras fills in.
    """
    check_place(name)
    if name not in graph.layers:
        known = _known_name(graph, name)
        if known is None:
            raise _unknown(graph, name)
        layer = graph.calls[known].layer
        message = (
            f"'{name}' of graph '{graph.name}' is one call of layer '{layer}'; name the layer, or "
            f"give the call one of its own first: unshare('{layer}')"
        )
        raise GraphError(message)
    if graph.layers[name].is_operation and all(call.layer != name for call in written_calls(graph)):
        _check_not_derived(graph, name)
    return name


def _known_name(graph: "Graph", name: str) -> str | None:
    """Return a name as the graph has it (`conv` for `conv#1`), or `None` if it has no such name."""
    if name in graph.layers or name in graph.calls:
        return name
    first = name.removesuffix("#1")
    return first if first in graph.calls else None


def check_known(graph: "Graph", name: str, prefix: str = "") -> None:
    """Check that a graph has a layer, call or tensor of that name.

    Raises:
        GraphError: If it has none. The name that it suggests starts with `prefix`.
    """
    base, dot, index = name.rpartition(".")
    is_output = dot and index.isdecimal() and _known_name(graph, base) is not None
    if not is_output and _known_name(graph, name) is None:
        raise _unknown(graph, name, prefix)


def _check_not_derived(graph: "Graph", name: str) -> None:
    for call in graph.calls.values():
        for spec in call.outputs:
            if isinstance(spec.mask, Ref) and call.layer != name:
                message = (
                    f"'{name}' of graph '{graph.name}' only computes masks that Keras fills in; "
                    f"edit the layer that makes the mask, such as '{call.name}'"
                )
                raise GraphError(message)


def calls_of_layer(graph: "Graph", key: str) -> list[Call]:
    """List the calls of a layer, in order."""
    return [call for call in graph.calls.values() if call.layer == key]


def find_call(graph: "Graph", name: str) -> Call:
    """Return one call: by its own name, or by that of a layer with one call.

    Raises:
        GraphError: If there is none, or several.
    """
    if name not in graph.layers:
        known = _known_name(graph, name)
        if known is None:
            raise _unknown(graph, name)
        return graph.calls[known]
    calls = calls_of_layer(graph, find_layer(graph, name))
    if not calls:
        raise _unknown(graph, name)
    if len(calls) > 1:
        message = (
            f"layer '{name}' of graph '{graph.name}' is called {len(calls)} times; name one "
            f"call: {', '.join(_numbered(calls))}"
        )
        raise GraphError(message)
    return calls[0]


def named_call(graph: "Graph", name: str) -> Call | None:
    """Return the call of a name such as `conv#2`; `None` for the name of a layer."""
    return None if name in graph.layers or "#" not in name else find_call(graph, name)


def find_ref(graph: "Graph", name: "str | Ref") -> Ref:
    """Return one tensor: `call`, or `call.1` for a call with several outputs.

    If there is a layer named `call.1`, that one is meant; use a `Ref` for the output.

    Raises:
        GraphError: If there is none, or several.
    """
    check_place(name)
    if isinstance(name, Ref):
        if name.call not in graph.calls:
            raise _unknown(graph, name.call)
        return _checked(graph, name, f"Ref('{name.call}', {name.index})")
    base, dot, index = name.rpartition(".")
    if dot and index.isdecimal() and _known_name(graph, name) is None:
        call = find_call(graph, base)
        return _checked(graph, Ref(call.name, int(index)), f"'{name}'")
    call = find_call(graph, name)
    if len(call.outputs) > 1:
        names = ", ".join(f"'{call.name}.{i}'" for i in range(len(call.outputs)))
        message = (
            f"call '{call.name}' of graph '{graph.name}' has {len(call.outputs)} outputs; name "
            f"one: {names}"
        )
        raise GraphError(message)
    return Ref(call.name)


def find_place(graph: "Graph", place: "str | Ref") -> tuple[tuple[str, ...], Ref]:
    """Find one tensor at one place: a path names one call of each nested model on the way.

    Returns:
        The names of the calls of nested models on the way, and the tensor in the innermost.

    Raises:
        GraphError: If there is none, or several.
    """
    check_place(place)
    path = place.call if isinstance(place, Ref) else place
    *models, last = path.split("/")
    inner, calls = graph, list[str]()
    for number, step in enumerate(models):
        prefix = "".join(f"{name}/" for name in calls)
        call = model_call(inner, step, prefix)
        key = cast("str", call.layer)
        several = calls_of_layer(inner, key)
        if step == key and len(several) > 1:
            rest = "/".join([*models[number + 1 :], last])
            names = ", ".join(f"{prefix}{name}/{rest}" for name in _numbered(several))
            message = (
                f"model '{step}' of graph '{inner.name}' is called {len(several)} times, so "
                f"'{path}' is several tensors; name one call: {names}"
            )
            raise GraphError(message)
        calls.append(call.name)
        inner = cast("Graph", inner.layers[key].graph)
    check_known(inner, last, "".join(f"{name}/" for name in calls))
    # A call that only computes masks cannot be edited, but it can be read.
    is_mask = last in inner.calls and last not in {call.name for call in written_calls(inner)}
    if is_mask and len(inner.calls[last].outputs) == 1:
        return tuple(calls), Ref(last)
    ref = Ref(last, place.index) if isinstance(place, Ref) else last
    return tuple(calls), find_ref(inner, ref)


def _numbered(calls: list[Call]) -> list[str]:
    return [f"{calls[0].name}#1", *(call.name for call in calls[1:])]


def _checked(graph: "Graph", ref: Ref, shown: str) -> Ref:
    count = len(graph.calls[ref.call].outputs)
    if not 0 <= ref.index < count:
        message = (
            f"call '{ref.call}' of graph '{graph.name}' has {counted(count, 'output')}, so there "
            f"is no {shown}"
        )
        raise GraphError(message)
    return ref


_SHOWN = 8
"""How many layers a message lists."""
_COMPARED = 200
"""With how many characters of a name others are compared."""


def _unknown(graph: "Graph", name: str, prefix: str = "", noun: str = "layer") -> GraphError:
    """Return an error for a name that a graph does not have.

    Args:
        graph: The graph in which it was looked for.
        name: The name.
        prefix: The path to that graph, for the suggestion.
        noun: What was looked for.
    """
    known = [path for path, _ in layer_paths(graph)]
    inner = [path for path in known if path.endswith(f"/{name}")]
    near = inner[:1] or difflib.get_close_matches(name[:_COMPARED], [*known, *graph.calls], n=1)
    if near:
        hint = f"; did you mean '{prefix}{near[0]}'?"
    else:
        top = [path for path in known if "/" not in path]
        more = ", ..." if len(top) > _SHOWN else ""
        hint = f"; it has: {', '.join(top[:_SHOWN])}{more}"
    message = f"no {noun} '{name}' in graph '{graph.name}' ({counted(len(known), 'layer')}){hint}"
    return GraphError(message)


def check_not_input(graph: "Graph", layer: Layer, what: str) -> None:
    """Check that a layer is not an input.

    Raises:
        GraphError: If it is; `what` says what cannot be done, and what to do instead.
    """
    if layer.is_input:
        message = f"input '{layer.name}' of graph '{graph.name}' cannot be {what}"
        raise GraphError(message)
