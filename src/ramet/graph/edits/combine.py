"""Several graphs joined to one: side by side, or end to end."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ramet._arguments import check_name, check_text, check_word
from ramet._words import Promise, weakest
from ramet.errors import GraphError
from ramet.graph.data import Call, Edit, Layer, Ref, Spec
from ramet.graph.edits.apart import Apart, apart
from ramet.graph.edits.draft import UNKNOWN, Draft
from ramet.graph.edits.inline import flat
from ramet.graph.edits.nested import rebuilt
from ramet.graph.edits.resolve import TensorFunction
from ramet.graph.edits.splice import put
from ramet.graph.journal import Journal, with_entry
from ramet.graph.names import counted, listed, prefixed, unique_name
from ramet.graph.stages import Stage, Stages
from ramet.graph.tree import Tree, map_tree
from ramet.graph.walk import nested_models

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def merge(graphs: Sequence["Graph"], inputs: str, outputs: Any, name: str | None) -> "Graph":
    """Join graphs side by side, on their own inputs or on those of the first."""
    check_word(inputs, "inputs", ("shared", "separate"))
    _check_name(name)
    names = [graph.name for graph in graphs]
    is_joined = outputs is not None and callable(outputs)
    promise: Promise = "changed" if is_joined else _promise(graphs)
    edit = Edit(f"merge {', '.join(repr(n) for n in names)} on {inputs} inputs", promise=promise)
    joined = _Joined(edit, shares_inputs=inputs == "shared")
    trees = [joined.add(graph, _label(names, at)) for at, graph in enumerate(graphs)]
    if inputs == "shared":
        joined.share_inputs(graphs, [inp for inp, _ in trees])
        starts: Tree = trees[0][0]
    else:
        starts = [ref for inp, _ in trees for ref in flat(inp)]
    ends: Tree = [ref for _, out in trees for ref in flat(out)]
    live = graphs[0].live_origin()
    if live.is_layer(outputs):
        joined.add_call(apart(live.layer(outputs, "what joins the outputs")), ends)
        ends = Ref([*joined.calls][-1])
    elif outputs is not None and not callable(outputs):
        ends = _chosen(outputs, names, [out for _, out in trees])
    stage = _stage(graphs, None if is_joined else _returned(graphs, names, outputs))
    whole = joined.graph(stage, starts, ends, name or "_".join(names))
    is_function = callable(outputs) and not live.is_layer(outputs)
    return _joined_by(whole, outputs, edit) if is_function else whole


def _joined_by(graph: "Graph", function: Any, edit: Edit) -> "Graph":
    """Replace the outputs of a graph by a function of the list of them."""
    new = TensorFunction(graph, function, "what joins the outputs")
    traced = new.traced(graph, (graph.outputs,), {}, None)
    draft = Draft(graph, edit)
    outputs, _ = put(draft, traced, (graph.outputs,), {})
    rest = iter(outputs)
    draft.outputs = map_tree(lambda _: next(rest), traced.outputs)
    journal = graph.journal
    return draft.done().changed(journal=Journal.of(journal, journal.notes, journal.stages))


def chain(graphs: Sequence["Graph"], name: str | None) -> "Graph":
    """Join graphs end to end: the outputs of each are the inputs of the next."""
    _check_name(name)
    names = [graph.name for graph in graphs]
    promise = "exact" if all(map(_fits, graphs[:-1], graphs[1:])) else "changed"
    promise = weakest((promise, _promise(graphs)))
    edit = Edit(f"chain {', '.join(repr(n) for n in names)}", promise=promise)
    joined = _Joined(edit, shares_inputs=True)
    starts, ends = joined.add(graphs[0], _label(names, 0))
    for at, graph in enumerate(graphs[1:], 1):
        inputs, outputs = joined.add(graph, _label(names, at))
        tensors, starts_of_next = flat(ends), flat(inputs)
        if len(tensors) != len(starts_of_next):
            message = (
                f"'{names[at - 1]}' has {counted(len(tensors), 'output')} and '{names[at]}' has "
                f"{counted(len(starts_of_next), 'input')}, so they cannot be chained; extract as "
                "many outputs as there are inputs"
            )
            raise GraphError(message)
        joined.connect(dict(zip(starts_of_next, tensors, strict=True)))
        ends = map_tree(joined.current, outputs)
    last = _numbered(len(graphs) - 1, graphs[-1].outputs)
    stage = _stage(graphs, last, in_turn=True)
    return joined.graph(stage, starts, ends, name or "_".join(names))


def _stage(graphs: Sequence["Graph"], ends: Tree, *, in_turn: bool = False) -> Stage:
    return Stage(graphs[0], ends=ends, joined=tuple(graphs), in_turn=in_turn)


def _returned(graphs: Sequence["Graph"], names: list[str], outputs: Any) -> Tree:
    """Return what a merged graph returns, as numbers of graphs and of their outputs."""
    trees = [_numbered(at, graph.outputs) for at, graph in enumerate(graphs)]
    if outputs is not None:
        return _chosen(outputs, names, trees)
    return [ref for tree in trees for ref in flat(tree)]


def _numbered(at: int, tree: Tree) -> Tree:
    """Return the outputs of a graph as its number, and theirs in Keras's order."""
    order = {ref: number for number, ref in reversed([*enumerate(flat(tree))])}
    return map_tree(lambda ref: Ref(str(at), order[ref]), tree)


def _promise(graphs: Sequence["Graph"]) -> Promise:
    """Return what graphs promise that become one: each of them still computes the same.

    Random numbers are drawn by one after the other, and a layer of several becomes one, or, where
    an edit changed it in one of them, several.
    """
    live = graphs[0].live_origin()
    promise = weakest(graph.live_origin().promise_of_order(graph) for graph in graphs)
    known: set[tuple[int, int]] = set()
    for graph in graphs:
        own = {layer.identity for layer in _all_layers(graph.layers.values())}
        if not own.isdisjoint(known) and any(map(live.keeps_state, graphs)):
            return "changed"
        trains_otherwise = any(map(live.trains_otherwise, graph.layers.values()))
        if len(graphs) > 1 and (trains_otherwise or not own.isdisjoint(known)):
            promise = weakest((promise, "inference-equal"))
        known |= own
    return promise


def _fits(first: "Graph", second: "Graph") -> bool:
    """Whether one graph uses the outputs of another as they are, without converting them."""
    ends, starts = _specs(first, first.outputs), _specs(second, second.inputs)
    kinds = [[(s.dtype, len(s.shape), s.sparse, s.ragged) for s in each] for each in (ends, starts)]
    return all(spec.known for spec in ends) and kinds[0] == kinds[1]


def _specs(graph: "Graph", tensors: Tree) -> list[Spec]:
    return [graph.calls[ref.call].outputs[ref.index] for ref in flat(tensors)]


def _check_name(name: Any) -> None:
    if name is not None:
        check_name(name, "name")


def _label(names: Sequence[str], at: int) -> str:
    same = Counter(names)[names[at]] > 1
    return f"{names[at]}_{at + 1}" if same else names[at]


def _chosen(outputs: Any, names: list[str], trees: list[Tree]) -> Tree:
    """Return a tree of outputs for a tree of names of graphs."""
    known = {_label(names, at): tree for at, tree in enumerate(trees)}

    def find(label: Any) -> Tree:
        check_text(label, "the name of a model in outputs")
        if label not in known:
            message = f"no outputs of '{label}' to merge; there are those of {', '.join(known)}"
            raise GraphError(message)
        return known[label]

    return map_tree(find, outputs)


class _Joined:
    """The parts of several graphs, with names that do not clash."""

    def __init__(self, edit: Edit, *, shares_inputs: bool) -> None:
        self.edit = edit
        self._shares_inputs = shares_inputs
        self.layers: dict[str, Layer] = {}
        self.calls: dict[str, Call] = {}
        self.renamed: list[str] = []
        self._instead: dict[Ref, Ref] = {}

    def add(self, graph: "Graph", label: str) -> tuple[Tree, Tree]:
        """Add the parts of a graph; layers whose names are taken are prefixed with its label.

        Returns:
            Its inputs and outputs.
        """
        keys = self._add_layers(graph, label)
        names = self._add_calls(graph, keys)
        return _renamed(graph.inputs, names), _renamed(graph.outputs, names)

    def _add_layers(self, graph: "Graph", label: str) -> dict[str, str]:
        """Add the layers of a graph, and return their new keys by the old ones."""
        keys: dict[str, str] = {}
        known = {layer.identity: key for key, layer in self.layers.items()}
        moved, apart_ = self._moved(graph), Apart()
        for key, layer in graph.layers.items():
            new = key
            there = known.get(layer.identity)
            if layer.identity in moved:
                layer = apart_.layer(layer)  # noqa: PLW2901 a new layer
            elif there is not None and not layer.is_input:
                keys[key] = self._one_layer(key, there, label)
                continue
            if key in self.layers:
                new = unique_name(prefixed(label, key), self.layers).replace("#", "_")
                if not layer.is_input or not self._shares_inputs:
                    self.renamed.append(f"'{key}' of '{label}' is now '{new}'")
            keys[key] = new
            name = layer.name if new == key else new
            self.layers[new] = dataclasses.replace(layer, name=name)
        return keys

    def _add_calls(self, graph: "Graph", keys: dict[str, str]) -> dict[str, str]:
        """Add the calls of a graph, and return their new names by the old ones."""
        names: dict[str, str] = {}
        taken = {*self.calls}
        for call in graph.calls.values():
            base = call.name if call.layer is None else keys[call.layer]
            names[call.name] = unique_name(base, taken)
            taken.add(names[call.name])
        for call in graph.calls.values():
            specs = tuple(
                dataclasses.replace(s, mask=_renamed(s.mask, names)) for s in call.outputs
            )
            key = None if call.layer is None else keys[call.layer]
            if key is not None and self.layers[key].is_input:
                specs = tuple(dataclasses.replace(s, name=self.layers[key].name) for s in specs)
            self.calls[names[call.name]] = dataclasses.replace(
                call,
                name=names[call.name],
                layer=key,
                args=_renamed(call.args, names),
                kwargs=_renamed(call.kwargs, names),
                outputs=specs,
            )
        return names

    def _one_layer(self, key: str, there: str, label: str) -> str:
        """Return the key of a layer of an earlier graph, and note if it had another one here."""
        if key != there:
            self.renamed.append(f"'{key}' of '{label}' is the same layer as '{there}'")
        return there

    def _moved(self, graph: "Graph") -> set[tuple[int, int]]:
        """Return the identities of layers that become new ones, since the same layer differs.

        Those are layers that were edited in one of the graphs and, with a nested model, all
        layers that it shares with the graph around it. Layers inside nested models count too.
        """
        known = {layer.identity: layer for layer in _all_layers(self.layers.values())}
        moved = {
            layer.identity
            for layer in _all_layers(graph.layers.values())
            if layer.identity in known
            and not layer.is_input
            and not layer.is_record_of(known[layer.identity])
        }
        inside = {
            layer.identity: {item.identity for item in _all_layers([layer])}
            for _, layer in nested_models(graph)
        }
        count = -1
        while count < len(moved):
            count = len(moved)
            for identity, parts in inside.items():
                if identity in moved or not moved.isdisjoint(parts):
                    moved |= {identity, *parts}
        return moved

    def add_call(self, layer: Layer, tensors: list[Ref]) -> None:
        """Add a layer that is called on a list of tensors."""
        key = unique_name(layer.name, {*self.layers, *self.calls}).replace("#", "_")
        self.layers[key] = dataclasses.replace(layer, name=key, edit=self.edit)
        self.calls[key] = Call(key, key, (tensors,), {}, (UNKNOWN,), edit=self.edit)

    def share_inputs(self, graphs: Sequence["Graph"], trees: list[Tree]) -> None:
        """Connect all graphs to the inputs of the first."""
        first = flat(trees[0])
        names = [ref.call for ref in flat(graphs[0].inputs)]
        for graph, tree in zip(graphs[1:], trees[1:], strict=True):
            others = flat(tree)
            theirs = [ref.call for ref in flat(graph.inputs)]
            if sorted(theirs) == sorted(names):
                others = [others[theirs.index(name)] for name in names]
            specs = [[self.calls[ref.call].outputs[0] for ref in refs] for refs in (first, others)]
            if len(first) != len(others) or not all(map(_compatible, *specs)):
                shown = [", ".join(f"{s.dtype}{s.shape}" for s in each) for each in specs]
                message = (
                    f"'{graphs[0].name}' and '{graph.name}' cannot share inputs: they take "
                    f"{shown[0]} and {shown[1]}; use inputs='separate', or with_inputs first"
                )
                raise GraphError(message)
            self.connect(dict(zip(others, first, strict=True)))

    def connect(self, mapping: dict[Ref, Ref]) -> None:
        """Replace some inputs by other tensors."""
        self._instead |= mapping

    def current(self, ref: Ref) -> Ref:
        """Return the tensor that replaces an input; any other tensor unchanged."""
        while ref in self._instead:
            ref = self._instead[ref]
        return ref

    def graph(self, stage: Stage, inputs: Tree, outputs: Tree, name: str) -> "Graph":
        """Return the joined graph."""
        graphs = stage.joined
        entries = [entry for graph in graphs for entry in graph.journal]
        stages = [each for graph in graphs for each in _stages_of(graph)]
        renamed = listed(self.renamed, separator="; ")
        text = "; ".join(filter(None, [self.edit.text, renamed]))
        edit = Edit.of_many(text, [self.edit.text, *self.renamed], self.edit.promise)
        first, *others = (graph.live_origin() for graph in graphs)
        origin = first.part(*others)
        whole = dataclasses.replace(
            graphs[0],
            name=name,
            layers=self.layers,
            calls=self.calls,
            inputs=inputs,
            outputs=outputs,
            origin=origin,
            journal=Journal.of(entries, (), tuple(stages)),
        )
        draft = Draft(whole, edit)
        same = all(
            whole.calls[ref.call].outputs[ref.index] == whole.calls[new.call].outputs[new.index]
            for ref, new in ((ref, self.current(ref)) for ref in self._instead)
        )
        draft.redirect({ref: self.current(ref) for ref in self._instead}, mark=not same)
        draft.forget({ref.call for ref in self._instead})
        draft.outputs = map_tree(self.current, outputs)
        # A model inside several of the graphs was traced with each of them.
        return with_entry(rebuilt(draft.done(), None, None, lambda inner: inner), edit, stage)


def _stages_of(graph: "Graph") -> Stages:
    """Return the stages of a graph's journal, the last of which leads to the graph itself."""
    stages = graph.journal.stages
    if not stages or stages[-1] is None:
        return stages
    return (*stages[:-1], dataclasses.replace(stages[-1], after=graph))


def _all_layers(layers: Iterable[Layer]) -> Iterator[Layer]:
    """Yield layers, and those inside of nested models."""
    for layer in layers:
        yield layer
        if layer.graph is not None:
            for visit in layer.graph.walk():
                yield from visit.graph.layers.values()


def _renamed(tree: Tree, names: dict[str, str]) -> Tree:
    """Return a tree whose `Ref`s refer to calls by their new names."""
    return map_tree(
        lambda leaf: Ref(names[leaf.call], leaf.index) if isinstance(leaf, Ref) else leaf, tree
    )


def _compatible(first: Spec, second: Spec) -> bool:
    sizes = zip(first.shape, second.shape, strict=False)
    return (
        first.dtype == second.dtype
        and len(first.shape) == len(second.shape)
        and all(a is None or b is None or a == b for a, b in sizes)
    )
