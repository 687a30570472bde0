"""Nested models inlined into the graph around them."""

import dataclasses
from typing import TYPE_CHECKING, Any, cast

from ramet.errors import GraphError
from ramet.graph.data import Call, Edit, Layer, Ref
from ramet.graph.edits.draft import Draft
from ramet.graph.edits.nested import edit_inside, nested_graph
from ramet.graph.edits.resolve import promised
from ramet.graph.journal import with_entry
from ramet.graph.locate import (
    calls_of_layer,
    check_known,
    check_place,
    descend,
    find_layer,
    find_ref,
    model_call,
)
from ramet.graph.names import listed, next_free, prefixed, unique_name, with_article
from ramet.graph.tree import Tree, leaves, map_tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def flatten(graph: "Graph", path: str | None) -> "Graph":
    """Inline one nested model, or all of them at any depth."""
    if path is None:
        keys = _nested(graph)
        quoted = [f"'{key}'" for key in keys]
        shown = listed(quoted) or "nothing: no model is nested"
        lines = [f"flatten {key}" for key in quoted]
        promise = promised(graph, lambda live: live.promise_of_order(graph))
        edit = Edit.of_many(f"flatten {shown}", lines, promise)
        changed = graph
        while keys := _nested(changed):
            changed, _ = _inlined(changed, keys[0], edit)
        return with_entry(changed, edit)
    models, inner, name = descend(graph, path)
    key = find_layer(inner, name)
    if inner.layers[key].graph is None:
        kind = inner.layers[key].kind
        message = (
            f"'{path}' of graph '{graph.name}' is {with_article(kind)}, not a model with a graph"
        )
        raise GraphError(message)
    promise = promised(graph, lambda live: live.promise_of_order(graph))
    edit = Edit(f"flatten '{path}'", promise=promise)
    changed = edit_inside(graph, models, edit, lambda target: _inlined(target, key, edit)[0])
    return with_entry(changed, edit)


class Taps:
    """Finds tensors, also inside nested models, which it inlines for that."""

    def __init__(self, graph: "Graph") -> None:
        """Start with a graph. `self.graph` is the graph with the tensors found so far."""
        self.graph = graph
        self._start = graph
        self._inside: dict[str, dict[Ref, Ref]] = {}
        """The new tensors by those inside a nested model, by the name of its call."""
        self._instead: dict[Ref, Ref] = {}
        """The tensors that replace the outputs of calls that were inlined."""

    def refs(self, *trees: Tree) -> list[Tree]:
        """Return trees of tensors for trees of names, paths and Refs; `None` stays `None`."""
        refs = [None if tree is None else map_tree(self._ref, tree) for tree in trees]
        # A call found first may have been inlined for a tensor found later.
        return [None if tree is None else map_tree(self._latest, tree) for tree in refs]

    def _ref(self, place: Any) -> Ref:
        check_place(place)
        path: str = place.call if isinstance(place, Ref) else place
        *steps, last = path.split("/")
        where, within, prefix = self._start, dict[Ref, Ref](), ""
        for step in steps:
            call = self._model_call(where, step, prefix, path)
            name = within[Ref(call.name)].call if within else call.name
            if name not in self._inside:
                self._inline(name)
            where = nested_graph(where.layers[cast("str", call.layer)])
            within, prefix = self._inside[name], f"{prefix}{step}/"
        check_known(where, last, prefix)
        ref = find_ref(where, Ref(last, place.index) if isinstance(place, Ref) else last)
        return within[ref] if within else ref

    def _model_call(self, graph: "Graph", step: str, prefix: str, path: str) -> Call:
        """Return the one call of a nested model that a step of a path names."""
        call = model_call(graph, step, prefix)
        calls = calls_of_layer(graph, cast("str", call.layer))
        if len(calls) > 1 and step == call.layer:
            rest = path.removeprefix(f"{prefix}{step}/")
            names = [f"{prefix}{step}#1", *(f"{prefix}{other.name}" for other in calls[1:])]
            message = (
                f"'{prefix}{step}' of graph '{graph.name}' is called {len(calls)} times, so "
                f"'{path}' is several tensors; name one: "
                f"{', '.join(f'{name}/{rest}' for name in names)}"
            )
            raise GraphError(message)
        return call

    def _inline(self, name: str) -> None:
        key = cast("str", self.graph.calls[name].layer)
        inner = nested_graph(self.graph.layers[key])
        outputs = flat(inner.outputs)
        self.graph, moved = _inlined(self.graph, key, Edit(""))
        for call, mapping in moved.items():
            self._inside[call] = mapping
            self._instead |= {Ref(call, i): mapping[ref] for i, ref in enumerate(outputs)}

    def _latest(self, ref: Ref) -> Ref:
        while ref in self._instead:
            ref = self._instead[ref]
        return ref


def _nested(graph: "Graph") -> list[str]:
    return [key for key, layer in graph.layers.items() if layer.graph is not None]


def _inlined(graph: "Graph", key: str, edit: Edit) -> "tuple[Graph, dict[str, dict[Ref, Ref]]]":
    """Replace every call of a nested model by the calls inside it.

    Returns:
        The graph, and for every call of the model the new tensors by those inside it.
    """
    record = graph.layers[key]
    draft = Draft(graph, edit)
    names = _layer_names(draft, record)
    for inner_key, layer in nested_graph(record).layers.items():
        if not layer.is_input:
            name = names[inner_key]
            draft.layers[name] = dataclasses.replace(layer, name=name)
    moved: dict[str, dict[Ref, Ref]] = {}
    for call in calls_of_layer(graph, key):
        now = draft.calls[call.name]
        moved[call.name] = _inline_call(graph, draft, now, nested_graph(record), names)
    return draft.done(), moved


def _layer_names(draft: Draft, record: Layer) -> dict[str, str]:
    """Return keys in the outer graph for the inner layers; layers in both graphs keep theirs."""
    known = {layer.identity: key for key, layer in draft.layers.items()}
    names: dict[str, str] = {}
    for key, layer in nested_graph(record).layers.items():
        name = known.get(layer.identity)
        if name is None:
            taken = {*draft.layers, *draft.calls, *names.values()}
            name = prefixed(record.name, layer.name)
            name = next_free(name, taken) if name in taken else name
        names[key] = name
    return names


def _inline_call(
    graph: "Graph", draft: Draft, call: Call, inner: "Graph", names: dict[str, str]
) -> dict[Ref, Ref]:
    """Replace one call of a nested model by the calls inside it, and return the new tensors."""
    _check_plain(graph, call)
    tensors = _converted(graph, draft, inner, given_tensors(graph, call, inner))
    mapping: dict[Ref, Ref] = dict(zip(flat(inner.inputs), tensors, strict=True))
    moved = [item for item in inner.calls.values() if Ref(item.name) not in mapping]
    taken = {*draft.calls}
    for item in moved:
        name = unique_name(names[cast("str", item.layer)], taken)
        taken.add(name)
        mapping |= {Ref(item.name, i): Ref(name, i) for i in range(len(item.outputs))}

    def new(leaf: Any) -> Any:
        return mapping[leaf] if isinstance(leaf, Ref) else leaf

    # The effect of masks on outer tensors inside the model is not recorded.
    masked = any(draft.calls[ref.call].outputs[ref.index].mask is not None for ref in tensors)
    # In the place of the call, so that the calls of a shared layer inside keep their order.
    known = [*draft.calls]
    at = known.index(call.name)
    last = known[at - 1] if at else None
    for item in moved:
        key = names[cast("str", item.layer)]
        extra = context(graph, call, item, draft.layers[key])
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
    return mapping


def given_tensors(graph: "Graph", call: Call, inner: "Graph") -> list[Ref]:
    """List the tensors that a model is called on, in the order of its inputs.

    Keras matches a dict by name, and any other structure by order.
    """
    tree: Any = call.args[0] if call.args else call.kwargs["inputs"]
    wanted: list[Ref] = flat(inner.inputs)
    if isinstance(tree, dict):
        by_name, inputs = cast("dict[str, Any]", tree), inner.inputs
        keys = [ref.call for ref in wanted]
        if isinstance(inputs, dict):
            keys = sorted(cast("dict[str, Any]", inputs))
        if all(isinstance(by_name.get(key), Ref) for key in keys):
            return [by_name[key] for key in keys]
    tensors: list[Ref] = flat(tree)
    if len(tensors) != len(wanted):
        message = (
            f"call '{call.name}' of graph '{graph.name}' passes {len(tensors)} tensors to a model "
            f"with {len(wanted)} inputs, so it cannot be flattened"
        )
        raise GraphError(message)
    return tensors


def _converted(graph: "Graph", draft: Draft, inner: "Graph", tensors: list[Ref]) -> list[Ref]:
    """Add the casts and changes of rank that a nested model applies to its inputs."""
    converted: list[Ref] = []
    starts: list[Ref] = flat(inner.inputs)
    for ref, start in zip(tensors, starts, strict=True):
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
        converted.append(ref)
    return converted


def context(graph: "Graph", call: Call, item: Call, layer: Layer) -> dict[str, Any]:
    """Return the arguments that a model passes on to a call inside, such as `training`."""
    return {
        key: value
        for key, value in call.written.items()
        if key != "inputs" and key not in item.written and graph.live_origin().accepts(layer, key)
    }


def _check_plain(graph: "Graph", call: Call) -> None:
    """Check that a call of a nested model has no explicit mask."""
    for key, item in call.written.items():
        if key != "inputs" and any(isinstance(leaf, Ref) for leaf in leaves(item)):
            message = (
                f"call '{call.name}' of graph '{graph.name}' passes a tensor as '{key}' to a "
                "nested model, which has no place in a flat graph; pass it to the layers inside"
            )
            raise GraphError(message)


def flat(tree: Tree) -> list[Any]:
    """List the leaves of a tree in Keras's order: dicts by sorted keys."""
    if isinstance(tree, dict):
        items = cast("dict[Any, Any]", tree)
        return [leaf for key in sorted(items) for leaf in flat(items[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for item in cast("list[Any]", tree) for leaf in flat(item)]
    return [tree]
