"""Several graphs made into one: side by side, or end to end."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ramet.errors import GraphError, OptionError
from ramet.graph.draft import UNKNOWN, Draft, with_entry
from ramet.graph.given import TensorFunction, put
from ramet.graph.inline import flat
from ramet.graph.journal import Journal
from ramet.graph.locate import layer_paths
from ramet.graph.names import prefixed, unique_name
from ramet.graph.parts import Apart, Call, Edit, Layer, Ref, Spec, apart
from ramet.graph.tree import Tree, map_tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph


def merge(graphs: Sequence["Graph"], inputs: str, outputs: Any, name: str | None) -> "Graph":
    """Puts graphs side by side, on inputs of their own or on those of the first."""
    if inputs not in ("shared", "separate"):
        message = f"unknown inputs={inputs!r}; expected 'shared' or 'separate'"
        raise OptionError(message)
    names = [graph.name for graph in graphs]
    edit = Edit(f"merge {', '.join(repr(n) for n in names)} on {inputs} inputs")
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
    whole = joined.graph(graphs, starts, ends, name or "_".join(names))
    is_function = callable(outputs) and not live.is_layer(outputs)
    return _joined_by(whole, outputs, edit) if is_function else whole


def _joined_by(graph: "Graph", function: Any, edit: Edit) -> "Graph":
    """Lets the outputs of a graph be what a function makes of the list of them."""
    new = TensorFunction(graph, function, "what joins the outputs")
    traced = new.traced(graph, (graph.outputs,), {}, None)
    draft = Draft(graph, edit)
    made, _ = put(draft, traced, (graph.outputs,), {})
    rest = iter(made)
    draft.outputs = map_tree(lambda _: next(rest), traced.outputs)
    return draft.done()


def chain(graphs: Sequence["Graph"], name: str | None) -> "Graph":
    """Puts graphs end to end: each takes what the one before it gives."""
    names = [graph.name for graph in graphs]
    edit = Edit(f"chain {', '.join(repr(n) for n in names)}")
    joined = _Joined(edit, shares_inputs=True)
    starts, ends = joined.add(graphs[0], _label(names, 0))
    for at, graph in enumerate(graphs[1:], 1):
        wanted, after = joined.add(graph, _label(names, at))
        given = flat(ends)
        taken = flat(wanted)
        if len(given) != len(taken):
            message = (
                f"'{names[at - 1]}' gives {len(given)} tensors and '{names[at]}' takes "
                f"{len(taken)}; extract as many as fit"
            )
            raise GraphError(message)
        joined.connect(dict(zip(taken, given, strict=True)))
        ends = map_tree(joined.current, after)
    return joined.graph(graphs, starts, ends, name or "_".join(names))


def _label(names: Sequence[str], at: int) -> str:
    same = Counter(names)[names[at]] > 1
    return f"{names[at]}_{at + 1}" if same else names[at]


def _chosen(outputs: Any, names: list[str], trees: list[Tree]) -> Tree:
    """Returns outputs by the names of the graphs that give them."""
    known = {_label(names, at): tree for at, tree in enumerate(trees)}

    def find(label: Any) -> Tree:
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
        """Takes the parts of a graph in; layers whose names are taken get its name before theirs.

        Returns:
            Its inputs and outputs.
        """
        keys: dict[str, str] = {}
        known = {layer.identity: key for key, layer in self.layers.items()}
        moved, apart_ = self._moved(graph, known), Apart()
        for key, layer in graph.layers.items():
            new = key
            there = known.get(layer.identity)
            if layer.identity in moved:
                layer = apart_.layer(layer)  # noqa: PLW2901 another now
            elif there is not None and layer.kind != "InputLayer":
                keys[key] = self._one_layer(key, there, label)
                continue
            if key in self.layers:
                new = unique_name(prefixed(label, key), self.layers).replace("#", "_")
                if layer.kind != "InputLayer" or not self._shares_inputs:
                    self.renamed.append(f"'{key}' of '{label}' is now '{new}'")
            keys[key] = new
            name = layer.name if new == key else new
            self.layers[new] = dataclasses.replace(layer, name=name)
        names: dict[str, str] = {}
        taken = {*self.calls}
        for call in graph.calls.values():
            base = call.name if call.layer is None else keys[call.layer]
            names[call.name] = unique_name(base, taken)
            taken.add(names[call.name])

        def new_ref(leaf: Any) -> Any:
            return Ref(names[leaf.call], leaf.index) if isinstance(leaf, Ref) else leaf

        for call in graph.calls.values():
            specs = tuple(dataclasses.replace(s, mask=new_ref(s.mask)) for s in call.outputs)
            key = None if call.layer is None else keys[call.layer]
            if key is not None and self.layers[key].kind == "InputLayer":
                specs = tuple(dataclasses.replace(s, name=self.layers[key].name) for s in specs)
            self.calls[names[call.name]] = dataclasses.replace(
                call,
                name=names[call.name],
                layer=key,
                args=map_tree(new_ref, call.args),
                kwargs=map_tree(new_ref, call.kwargs),
                outputs=specs,
            )
        return map_tree(new_ref, graph.inputs), map_tree(new_ref, graph.outputs)

    def _one_layer(self, key: str, there: str, label: str) -> str:
        """Returns the key that a layer of an earlier graph keeps, and notes that it had another."""
        if key != there:
            self.renamed.append(f"'{key}' of '{label}' is the same layer as '{there}'")
        return there

    def _moved(self, graph: "Graph", known: dict[tuple[int, int], str]) -> set[tuple[int, int]]:
        """Returns which layers of a graph are others than those that are there already.

        Those are layers that were edited in one of the graphs, and, with a nested model,
        all that it has in common with the graph around it.
        """
        inside = {
            key: {item.identity for _, item in layer_paths(layer.graph)}
            for key, layer in graph.layers.items()
            if layer.graph is not None
        }
        moved: set[tuple[int, int]] = set()
        count = -1
        while count < len(moved):
            count = len(moved)
            for key, layer in graph.layers.items():
                there = known.get(layer.identity)
                edited = (
                    there is not None
                    and layer.kind != "InputLayer"
                    and not layer.is_record_of(self.layers[there])
                )
                parts = inside.get(key, set())
                if edited or layer.identity in moved or not moved.isdisjoint(parts):
                    moved |= {layer.identity, *parts}
        return moved

    def add_call(self, layer: Layer, tensors: list[Ref]) -> None:
        """Takes a layer in that reads several tensors."""
        key = unique_name(layer.name, {*self.layers, *self.calls}).replace("#", "_")
        self.layers[key] = dataclasses.replace(layer, name=key, edit=self.edit)
        self.calls[key] = Call(key, key, (tensors,), {}, (UNKNOWN,), edit=self.edit)

    def share_inputs(self, graphs: Sequence["Graph"], trees: list[Tree]) -> None:
        """Lets all graphs read the inputs of the first."""
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
        """Lets the readers of some inputs read other tensors; the inputs go away."""
        self._instead |= mapping

    def current(self, ref: Ref) -> Ref:
        """Returns what is read instead of an input that went away."""
        while ref in self._instead:
            ref = self._instead[ref]
        return ref

    def graph(self, graphs: Sequence["Graph"], inputs: Tree, outputs: Tree, name: str) -> "Graph":
        """Returns the whole as a graph."""
        entries = [entry for graph in graphs for entry in graph.journal]
        text = "; ".join([self.edit.text, *self.renamed])
        edit = Edit(text)
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
            journal=Journal(entries),
        )
        draft = Draft(whole, edit)
        same = all(
            whole.calls[ref.call].outputs[ref.index] == whole.calls[new.call].outputs[new.index]
            for ref, new in ((ref, self.current(ref)) for ref in self._instead)
        )
        draft.redirect({ref: self.current(ref) for ref in self._instead}, mark=not same)
        draft.forget({ref.call for ref in self._instead})
        draft.outputs = map_tree(self.current, outputs)
        return with_entry(draft.done(), edit)


def _compatible(first: Spec, second: Spec) -> bool:
    sizes = zip(first.shape, second.shape, strict=False)
    return (
        first.dtype == second.dtype
        and len(first.shape) == len(second.shape)
        and all(a is None or b is None or a == b for a, b in sizes)
    )
