"""Nested models, put into the graph around them."""

import dataclasses
from typing import TYPE_CHECKING, Any, cast

from ramet.errors import GraphError
from ramet.graph.draft import Draft, with_entry
from ramet.graph.locate import calls_of_layer, descend, find_layer, find_ref
from ramet.graph.names import next_free, unique_name
from ramet.graph.nested import nested_graph
from ramet.graph.parts import Call, Edit, Layer, Ref
from ramet.graph.tree import Tree, leaves, map_tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def flatten(graph: "Graph", path: str | None) -> "Graph":
    """Inlines one nested model, or all of them, also those within others."""
    if path is None:
        keys = [key for key, layer in graph.layers.items() if layer.graph is not None]
    else:
        keys = [find_layer(graph, path)]
        if graph.layers[keys[0]].graph is None:
            kind = graph.layers[keys[0]].kind
            message = f"'{path}' of graph '{graph.name}' is a {kind}, not a model with a graph"
            raise GraphError(message)
    shown = ", ".join(f"'{key}'" for key in keys) or "nothing: no model is nested"
    edit = Edit(f"flatten {shown}")
    changed = graph
    while keys:
        changed = _inlined(changed, keys[0], edit)
        keys = keys[1:] if path is not None else _nested(changed)
    return with_entry(changed, edit)


class Taps:
    """Finds tensors, also inside nested models, which are inlined for that."""

    def __init__(self, graph: "Graph") -> None:
        """Starts with a graph; `graph` is the one in which the tensors are found."""
        self.graph = graph
        self._moved: dict[str, dict[str, str]] = {}

    def refs(self, tree: Tree) -> Tree:
        """Returns a tree of tensors for one of names, paths and Refs."""
        return None if tree is None else map_tree(self._ref, tree)

    def _ref(self, place: Any) -> Ref:
        while isinstance(place, str) and "/" in place:
            model, _, rest = place.partition("/")
            if model not in self._moved:
                self._inline(model, place)
            step, slash, after = rest.partition("/")
            names, (base, dot, index) = self._moved[model], step.rpartition(".")
            key = base if dot and index.isdigit() and step not in names else step
            place = names[key] + step[len(key) :] + slash + after
        return find_ref(self.graph, place)

    def _inline(self, model: str, place: str) -> None:
        _, inner, name = descend(self.graph, place)
        find_ref(inner, name)
        if len(calls_of_layer(self.graph, model)) > 1:
            message = (
                f"'{model}' of graph '{self.graph.name}' is called several times, so '{place}' is "
                "several tensors; flatten it first and name one"
            )
            raise GraphError(message)
        record = self.graph.layers[model]
        self._moved[model] = _layer_names(Draft(self.graph, Edit("")), record)
        self.graph = _inlined(self.graph, model, Edit(""))


def _nested(graph: "Graph") -> list[str]:
    return [key for key, layer in graph.layers.items() if layer.graph is not None]


def _inlined(graph: "Graph", key: str, edit: Edit) -> "Graph":
    """Puts the calls of a nested model in the place of every call of it."""
    record = graph.layers[key]
    draft = Draft(graph, edit)
    names = _layer_names(draft, record)
    for inner_key, layer in nested_graph(record).layers.items():
        if layer.kind != "InputLayer":
            name = names[inner_key]
            draft.layers[name] = dataclasses.replace(layer, name=name)
    for call in calls_of_layer(graph, key):
        _inline_call(graph, draft, draft.calls[call.name], nested_graph(record), names)
    return draft.done()


def _layer_names(draft: Draft, record: Layer) -> dict[str, str]:
    """Returns the keys of the inner layers in the outer graph: those that are there stay."""
    known = {layer.identity: key for key, layer in draft.layers.items()}
    names: dict[str, str] = {}
    for key, layer in nested_graph(record).layers.items():
        name = known.get(layer.identity)
        if name is None:
            taken = {*draft.layers, *draft.calls, *names.values()}
            name = f"{record.name}_{layer.name}"
            name = next_free(name, taken) if name in taken else name
        names[key] = name
    return names


def _inline_call(
    graph: "Graph", draft: Draft, call: Call, inner: "Graph", names: dict[str, str]
) -> None:
    _check_plain(graph, call)
    given = _converted(graph, draft, inner, _given(graph, call, inner))
    mapping: dict[Ref, Ref] = dict(zip(flat(inner.inputs), given, strict=True))
    moved = [item for item in inner.calls.values() if Ref(item.name) not in mapping]
    taken = {*draft.calls}
    for item in moved:
        name = unique_name(names[cast("str", item.layer)], taken)
        taken.add(name)
        mapping |= {Ref(item.name, i): Ref(name, i) for i in range(len(item.outputs))}

    def new(leaf: Any) -> Any:
        return mapping[leaf] if isinstance(leaf, Ref) else leaf

    # A mask comes in by the outer tensors, and what it does inside is not recorded.
    masked = any(draft.calls[ref.call].outputs[ref.index].mask is not None for ref in given)
    last = call.refs[-1].call if call.refs else None
    for item in moved:
        key = names[cast("str", item.layer)]
        extra = _context(graph, call, item, draft.layers[key])
        name = mapping[Ref(item.name)].call
        draft.calls[name] = dataclasses.replace(
            item,
            name=name,
            layer=key,
            args=map_tree(new, item.args),
            kwargs={**map_tree(new, item.kwargs), **extra},
            derived=item.derived - extra.keys(),
            outputs=tuple(dataclasses.replace(s, mask=new(s.mask)) for s in item.outputs),
            edit=draft.edit if masked else item.edit,
        )
        draft.place(name, after=last)
        last = name
    outputs = {Ref(call.name, i): mapping[ref] for i, ref in enumerate(flat(inner.outputs))}
    draft.redirect(outputs, mark=masked)
    draft.forget({call.name})


def _given(graph: "Graph", call: Call, inner: "Graph") -> list[Ref]:
    """Lists the tensors that a model is called on, in the order of its inputs.

    Keras goes by names where a dict is given, and by order otherwise.
    """
    tree: Any = call.args[0] if call.args else call.kwargs["inputs"]
    wanted: list[Ref] = flat(inner.inputs)
    if isinstance(tree, dict):
        by_name = cast("dict[str, Ref]", tree)
        keys = [ref.call for ref in wanted]
        if isinstance(inner.inputs, dict):
            keys = sorted(cast("dict[str, Any]", inner.inputs))
        if all(key in by_name and isinstance(by_name[key], Ref) for key in keys):
            return [by_name[key] for key in keys]
    found: list[Ref] = flat(tree)
    if len(found) != len(wanted):
        message = (
            f"call '{call.name}' of graph '{graph.name}' passes {len(found)} tensors to a model "
            f"with {len(wanted)} inputs, so it cannot be flattened"
        )
        raise GraphError(message)
    return found


def _converted(graph: "Graph", draft: Draft, inner: "Graph", given: list[Ref]) -> list[Ref]:
    """Adds the casts and changes of rank that a nested model makes of its inputs."""
    found: list[Ref] = []
    for ref, start in zip(given, flat(inner.inputs), strict=True):
        spec = draft.calls[ref.call].outputs[ref.index]
        wanted = inner.calls[start.call].outputs[start.index]
        for layer, call in graph.live_origin().conversion(spec, wanted) if spec.known else ():
            key = draft.add_layer(layer)
            name = unique_name(key, draft.calls)
            args = (ref, *call.args[1:])
            draft.add_call(
                dataclasses.replace(call, name=name, layer=key, args=args), after=ref.call
            )
            ref = Ref(name)  # noqa: PLW2901 the next one converts it further
        found.append(ref)
    return found


def _context(graph: "Graph", call: Call, item: Call, layer: Layer) -> dict[str, Any]:
    """Returns what a model hands on to the calls inside: `training` and the like."""
    return {
        key: value
        for key, value in call.kwargs.items()
        if key not in call.derived
        and key != "inputs"
        and (key not in item.kwargs or key in item.derived)
        and graph.live_origin().accepts(layer, key)
    }


def _check_plain(graph: "Graph", call: Call) -> None:
    """Checks that a call of a nested model passes no mask of the author's."""
    for key, item in call.kwargs.items():
        if (
            key not in call.derived
            and key != "inputs"
            and any(isinstance(leaf, Ref) for leaf in leaves(item))
        ):
            message = (
                f"call '{call.name}' of graph '{graph.name}' passes a tensor as '{key}' to a "
                "nested model, which has no place in a flat graph; pass it to the layers inside"
            )
            raise GraphError(message)


def flat(tree: Tree) -> list[Any]:
    """Lists the leaves of a tree in Keras's order: dicts by sorted keys."""
    if isinstance(tree, dict):
        items = cast("dict[Any, Any]", tree)
        return [leaf for key in sorted(items) for leaf in flat(items[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for item in cast("list[Any]", tree) for leaf in flat(item)]
    return [tree]
