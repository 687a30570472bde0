"""A graph during an edit: a mutable copy that becomes a checked Graph when done."""

import dataclasses
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, cast

from ramet.errors import GraphError
from ramet.graph.check import still_holds
from ramet.graph.data import Call, Edit, Layer, Ref, Spec
from ramet.graph.names import is_automatic, next_free
from ramet.graph.tree import Tree, leaves, map_tree

if TYPE_CHECKING:
    from ramet.graph.core import Graph

UNKNOWN = Spec(shape=(), dtype="", name="", known=False)
"""The spec of an output of a new layer: not known before it is built."""


class Draft:
    """The parts of one graph, which one edit changes."""

    def __init__(self, graph: "Graph", edit: Edit) -> None:
        """Start with copies of the parts of a graph."""
        self._graph = graph
        self.edit = edit
        self.layers = graph.parts("layers")
        self.calls = graph.parts("calls")
        self.inputs = graph.inputs
        self.outputs = graph.outputs
        self._inserted: dict[str | None, list[str]] = {}
        self._changed: set[str] = set()
        self._removed: set[str] = set()
        self._orphans = False

    @property
    def graph(self) -> "Graph":
        """The graph before the edit."""
        return self._graph

    def done(self) -> "Graph":
        """Return the checked graph, without layers that are not called any more."""
        calls = self.calls
        if self._inserted:
            calls = {call.name: call for call in self.in_order()}
        layers = self.layers
        if self._orphans:
            used = {call.layer for call in calls.values()}
            layers = {key: layer for key, layer in layers.items() if key in used}
        fields = {"layers": layers, "calls": calls, "inputs": self.inputs, "outputs": self.outputs}
        graph = self._graph.changed(**fields)
        if still_holds(graph, self._changed, self._removed):
            return graph
        return dataclasses.replace(self._graph, **fields)

    def in_order(self) -> list[Call]:
        """List the calls, new ones directly after those that they were inserted after."""
        new = {name for names in self._inserted.values() for name in names}
        ordered: list[Call] = []
        self._place(self._inserted.get(None, []), ordered)
        for name, call in self.calls.items():
            if name not in new:
                ordered.append(call)
                if name in self._inserted:
                    self._place(self._inserted[name], ordered)
        return ordered

    def _place(self, names: list[str], ordered: list[Call]) -> None:
        waiting = [*reversed(names)]
        while waiting:
            name = waiting.pop()
            if name in self.calls:
                ordered.append(self.calls[name])
            waiting += reversed(self._inserted.get(name, []))

    def add_layer(self, layer: Layer, *, freed: str | None = None) -> str:
        """Add a layer and return its key; an automatic name that is taken gets another number.

        Args:
            layer: The layer.
            freed: Name of a layer that this edit removes.

        Raises:
            GraphError: If the name is taken and not automatic.
        """
        name = layer.name
        taken = self.layers.keys() - {freed}
        if name in taken:
            if not is_automatic(name, layer.kind):
                message = (
                    f"graph '{self._graph.name}' already has a layer '{name}'; give the new "
                    f"{layer.kind} another name"
                )
                raise GraphError(message)
            name = next_free(name, taken)
        self.layers[name] = dataclasses.replace(layer, name=name, edit=self.edit)
        return name

    def add_or_find(self, layer: Layer) -> str:
        """Add a layer, unless it is in the graph already, and return its key."""
        for key, known in self.layers.items():
            if known.identity == layer.identity:
                return key
        return self.add_layer(layer)

    def add_call(self, call: Call, *, after: str | None) -> None:
        """Add a call, after another or before all."""
        self.calls[call.name] = dataclasses.replace(call, edit=self.edit)
        self.place(call.name, after=after)

    def place(self, name: str, *, after: str | None) -> None:
        """Set the place of a new call: after another, or before all."""
        self._changed.add(name)
        self._inserted.setdefault(after, []).append(name)

    def change_call(self, name: str, **changes: Any) -> None:
        """Replace fields of a call."""
        self._changed.add(name)
        self._orphans = self._orphans or "layer" in changes
        self.calls[name] = dataclasses.replace(self.calls[name], edit=self.edit, **changes)

    def set_argument(self, name: str, place: tuple[Any, ...], ref: Ref) -> None:
        """Replace the tensor at a place in a call's arguments."""
        call = self.calls[name]
        start, *steps = place
        args, kwargs = list(call.args), dict(call.kwargs)
        if isinstance(start, int):
            args[start] = _with_leaf(args[start], steps, ref)
        else:
            kwargs[start] = _with_leaf(kwargs[start], steps, ref)
        self.change_call(name, args=tuple(args), kwargs=kwargs)

    def rename_calls(self, names: dict[str, str]) -> None:
        """Rename calls, and update all references to them."""
        if all(old == new for old, new in names.items()):
            return

        def new(leaf: Any) -> Any:
            return Ref(names[leaf.call], leaf.index) if _is_named(leaf, names) else leaf

        calls: dict[str, Call] = {}
        for name, call in self.calls.items():
            changed: dict[str, Any] = {}
            hit = False
            for ref in call.refs:
                hit = hit or ref.call in names
            if not (hit or call.masked or name in names):
                calls[name] = call
                continue
            if hit:
                changed = {"args": map_tree(new, call.args), "kwargs": map_tree(new, call.kwargs)}
            if any(_is_named(spec.mask, names) for spec in call.outputs):
                specs = (dataclasses.replace(spec, mask=new(spec.mask)) for spec in call.outputs)
                changed["outputs"] = tuple(specs)
            if name in names:
                changed["name"] = names[name]
            renamed = dataclasses.replace(call, **changed) if changed else call
            calls[renamed.name] = renamed
            self._changed.add(renamed.name)
        self.calls = calls
        self.inputs, self.outputs = map_tree(new, self.inputs), map_tree(new, self.outputs)

    def redirect(
        self, mapping: dict[Ref, Ref], *, but: Collection[str] = (), mark: bool = True
    ) -> None:
        """Reconnect the consumers of some tensors to others.

        Args:
            mapping: New tensors by the old ones.
            but: Names of consumers that stay as they are.
            mark: Whether the consumers count as edited.
        """

        def new(leaf: Any) -> Any:
            return mapping.get(leaf, leaf) if isinstance(leaf, Ref) else leaf

        sources = {ref.call for ref in mapping}
        for name, call in self.calls.items():
            if call.masked:
                self._set_masks(name, new)
            for ref in call.refs:
                if ref.call in sources and ref in mapping:
                    break
            else:
                continue
            if name not in but:
                self._changed.add(name)
                call = self.calls[name]  # noqa: PLW2901 with other masks, perhaps
                self.calls[name] = dataclasses.replace(
                    call,
                    args=map_tree(new, call.args),
                    kwargs=map_tree(new, call.kwargs),
                    edit=self.edit if mark and _reads(call, mapping) else call.edit,
                )
        self.outputs = map_tree(new, self.outputs)

    def forget(self, names: set[str]) -> None:
        """Remove calls, with the derived arguments and masks that they computed.

        A call that had such an argument or mask is run when the graph is built, so that
        Keras derives it again.
        """
        self._orphans = True
        self._removed |= names
        for name in names:
            self.calls.pop(name, None)
        for name, call in self.calls.items():
            if not (call.derived or call.masked):
                continue
            lost = {k for k in call.derived if _refers(call.kwargs.get(k), names)}
            if lost:
                kwargs = {k: v for k, v in call.kwargs.items() if k not in lost}
                call = dataclasses.replace(  # noqa: PLW2901 what is left of it
                    call, kwargs=kwargs, derived=call.derived - lost, origin=None
                )
            if any(_refers(spec.mask, names) for spec in call.outputs):
                call = dataclasses.replace(call, origin=None)  # noqa: PLW2901 the same
            self.calls[name] = call
            self._set_masks(name, lambda mask: None if _refers(mask, names) else mask)

    def _set_masks(self, name: str, new: Callable[[Any], Any]) -> None:
        call = self.calls[name]
        if all(spec.mask is None for spec in call.outputs):
            return
        masks = [new(spec.mask) for spec in call.outputs]
        if any(mask is not spec.mask for mask, spec in zip(masks, call.outputs, strict=True)):
            specs = (
                dataclasses.replace(spec, mask=mask)
                for mask, spec in zip(masks, call.outputs, strict=True)
            )
            self.calls[name] = dataclasses.replace(call, outputs=tuple(specs))


def _reads(call: Call, mapping: dict[Ref, Ref]) -> bool:
    return any(ref in mapping for ref in call.written_refs)


def _refers(tree: Tree, names: set[str]) -> bool:
    return any(isinstance(leaf, Ref) and leaf.call in names for leaf in leaves(tree))


def _is_named(leaf: Any, names: dict[str, str]) -> bool:
    return isinstance(leaf, Ref) and leaf.call in names


def _with_leaf(tree: Tree, steps: list[Any], ref: Ref) -> Tree:
    """Return a tree with the leaf at the end of some steps replaced."""
    if not steps:
        return ref
    step, *rest = steps
    if isinstance(tree, dict):
        items = cast("dict[Any, Any]", tree)
        return {k: _with_leaf(v, rest, ref) if k == step else v for k, v in items.items()}
    values = [
        _with_leaf(item, rest, ref) if index == step else item
        for index, item in enumerate(cast("list[Any]", tree))
    ]
    return values if isinstance(tree, list) else tuple(values)
