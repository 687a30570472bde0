"""Whether a graph is consistent, and an order in which its calls can be computed."""

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from ramet._arguments import check_mapping, check_text, shown
from ramet.errors import GraphError, OptionError
from ramet.graph.data import Call, Layer, Ref, Spec
from ramet.graph.journal import Journal
from ramet.graph.names import counted, did_you_mean, with_article
from ramet.graph.tree import leaves

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def check_fields(name: Any, fields: Mapping[str, Any]) -> None:
    """Check the types of the fields of a graph.

    Raises:
        OptionError: If one has the wrong type.
    """
    check_text(fields.get("name", name), "the name of a graph")
    for part in ("layers", "calls"):
        if not isinstance(fields.get(part, {}), Mapping):
            check_mapping(fields[part], f"the {part} of graph '{name}'", f"{part} by name")
    if not isinstance(fields.get("journal", Journal()), Journal):
        message = f"the journal of graph '{name}' must be a Journal, got {shown(fields['journal'])}"
        raise OptionError(message)


def check_parts(graph: "Graph") -> None:
    """Check the types of the layers and calls of a graph. Costs O(calls).

    Raises:
        OptionError: If one has the wrong type.
    """
    for parts, kind in ((graph.layers, Layer), (graph.calls, Call)):
        for key, part in parts.items():
            if not isinstance(cast("Any", part), kind) or not isinstance(cast("Any", key), str):
                message = (
                    f"graph '{graph.name}' holds {kind.__name__}s by name, got {shown(part)} under "
                    f"{shown(key)}"
                )
                raise OptionError(message)


def check_graph(graph: "Graph") -> dict[str, Call]:
    """Check names and references, and return the calls in an order that can be computed.

    Costs O(calls).

    Raises:
        GraphError: If a reference leads nowhere, there are no outputs, or the calls form a
            cycle.
    """
    ordered = _is_in_order(graph)
    if not ordered:
        for key, call in graph.calls.items():
            _check_call(graph, key, call)
    for what, tree in (("input", graph.inputs), ("output", graph.outputs)):
        for leaf in leaves(tree):
            _check_ref(graph, leaf, f"{what} of graph '{graph.name}'")
    if not any(True for _ in leaves(graph.outputs)):
        message = f"graph '{graph.name}' has no outputs; name at least one tensor"
        raise GraphError(message)
    return dict(graph.calls) if ordered else _in_order(graph)


def _is_in_order(graph: "Graph") -> bool:
    """Whether every call is valid and comes after the calls that it depends on, in one pass.

    Most graphs pass. For the others, the slower checks find out what is wrong.
    """
    layers, met = graph.layers, dict[str, tuple[Spec, ...]]()
    masks: list[Ref] = []
    for key, call in graph.calls.items():
        if key != call.name or (call.layer is not None and call.layer not in layers):
            return False
        for ref in call.refs:
            outputs = met.get(ref.call)
            if outputs is None or not 0 <= ref.index < len(outputs):
                return False
            mask = outputs[ref.index].mask
            if isinstance(mask, Ref) and mask.call not in met:
                return False
        met[key] = call.outputs
        if call.masked:
            masks += [spec.mask for spec in call.outputs if isinstance(spec.mask, Ref)]
    return all(mask.index < len(met.get(mask.call, ())) for mask in masks)


def still_holds(graph: "Graph", changed: Collection[str], removed: Collection[str]) -> bool:
    """Whether a graph is valid and in order, given that it was before some calls changed.

    Costs O(calls) at worst, most of it not in Python.
    """
    if removed and _are_read(graph, removed):
        return False
    calls, places = graph.calls, {name: place for place, name in enumerate(graph.calls)}
    if not all(_is_in_place(graph, calls[name], places) for name in changed if name in calls):
        return False
    ends = [*leaves(graph.inputs), *leaves(graph.outputs)]
    return bool(ends) and all(
        isinstance(ref, Ref) and ref.call in calls and ref.index < len(calls[ref.call].outputs)
        for ref in ends
    )


def _is_in_place(graph: "Graph", call: Call, places: dict[str, int]) -> bool:
    """Whether a call comes after all that it depends on."""
    here, never = places[call.name], len(places)
    if call.layer is not None and call.layer not in graph.layers:
        return False
    for ref in call.refs:
        if places.get(ref.call, never) >= here:
            return False
        specs = graph.calls[ref.call].outputs
        if ref.index >= len(specs):
            return False
        mask = specs[ref.index].mask
        if isinstance(mask, Ref) and places.get(mask.call, never) >= here:
            return False
    masks = [spec.mask for spec in call.outputs if isinstance(spec.mask, Ref)]
    return all(mask.call in places for mask in masks)


def _are_read(graph: "Graph", removed: Collection[str]) -> bool:
    for call in graph.calls.values():
        for ref in call.refs:
            if ref.call in removed:
                return True
        if call.masked:
            masks = [spec.mask for spec in call.outputs if isinstance(spec.mask, Ref)]
            if any(mask.call in removed for mask in masks):
                return True
    return False


def _check_call(graph: "Graph", key: str, call: Call) -> None:
    if key != call.name:
        message = (
            f"call '{call.name}' is listed under '{key}' in graph '{graph.name}'; "
            "list every call under its own name"
        )
        raise GraphError(message)
    if call.layer is not None and call.layer not in graph.layers:
        known = list(graph.layers)
        message = (
            f"no layer '{call.layer}' in graph '{graph.name}' "
            f"({counted(len(known), 'layer')}), but call '{key}' uses it"
            f"{did_you_mean(call.layer, known)}"
        )
        raise GraphError(message)
    for ref in _needs(graph, call, with_masks=False):
        _check_ref(graph, ref, f"argument of call '{key}' in graph '{graph.name}'")
    for spec in call.outputs:
        if isinstance(spec.mask, Ref):
            _check_ref(graph, spec.mask, f"mask of call '{key}' in '{graph.name}'")


def _check_ref(graph: "Graph", ref: Any, where: str) -> None:
    if not isinstance(ref, Ref):
        message = f"{where} is {with_article(type(ref).__name__)}; only a Ref can stand here"
        raise GraphError(message)
    call = graph.calls.get(ref.call)
    if call is None:
        known = list(graph.calls)
        message = (
            f"no call '{ref.call}' in graph '{graph.name}' "
            f"({counted(len(known), 'call')}), but it is the {where}"
            f"{did_you_mean(ref.call, known)}"
        )
        raise GraphError(message)
    if not 0 <= ref.index < len(call.outputs):
        message = (
            f"call '{ref.call}' has {counted(len(call.outputs), 'output')}, "
            f"but the {where} is its output {ref.index}"
        )
        raise GraphError(message)


def _needs(graph: "Graph", call: Call, *, with_masks: bool) -> Iterator[Ref]:
    """Yield the tensors that a call depends on: its arguments and, if asked, their masks."""
    for ref in call.refs:
        yield ref
        if with_masks:
            mask = graph.calls[ref.call].outputs[ref.index].mask
            if isinstance(mask, Ref):
                yield mask


def _in_order(graph: "Graph") -> dict[str, Call]:
    """Sort the calls so that each comes after those that it depends on, stably."""
    done: dict[str, Call] = {}
    for start in graph.calls:
        if start in done:
            continue
        path = {start: _needs(graph, graph.calls[start], with_masks=True)}
        while path:
            name, needed = next(reversed(path.items()))
            for ref in needed:
                if ref.call in path:
                    _raise_cycle(graph, [*path], ref.call)
                if ref.call not in done:
                    target = graph.calls[ref.call]
                    path[ref.call] = _needs(graph, target, with_masks=True)
                    break
            else:
                del path[name]
                done[name] = graph.calls[name]
    return done


def _raise_cycle(graph: "Graph", path: list[str], again: str) -> None:
    cycle = [*path[path.index(again) :], again]
    message = (
        f"the calls of graph '{graph.name}' form a cycle: "
        f"{' needs '.join(repr(name) for name in cycle)}; "
        "rewire one of them to a tensor that is computed earlier"
    )
    raise GraphError(message)
