"""From an edited Graph to a Keras model: replay what is as it was, call the rest.

A call is replayed, without running its layer, if the layer is unchanged and every
argument is either the copy of the tensor that it was recorded with, or another
one of the same shape, dtype and mask. Any other call is made by calling the layer,
so that shapes, dtypes and masks are inferred anew; arguments that Keras had filled
in are left out, for Keras to fill them in again.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, cast

import keras

from ramet.bridge import internals
from ramet.bridge.build import Builder, duplicate, seeded
from ramet.bridge.fresh import refresh
from ramet.bridge.invoke import invoke
from ramet.bridge.live import is_edited, live_of
from ramet.bridge.reconfigure import reconfigured
from ramet.bridge.settle import check_function, compile_alike, name_apart
from ramet.bridge.transfer import take_over, take_over_adapted
from ramet.errors import GraphError
from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.names import counted
from ramet.graph.reach import pruned, written_calls
from ramet.graph.transfer import Transfer, TransferReport
from ramet.graph.tree import leaves, map_tree, paired_leaves, same_shape

_LATER = 10**9
"""Calls of edited graphs come after those that have their recorded numbers."""


def build_edited(graph: Graph, *, weights: str, seed: int | None, name: str) -> Any:
    """Makes a model of a graph that was edited after it had been traced."""
    return _build(pruned(graph), weights, seed, name)[0]


def transfer_report(graph: Graph) -> TransferReport:
    """Builds a graph and tells what became of every variable."""
    if not is_edited(graph):
        variables = live_of(graph).model.variables
        kept = (Transfer(v.path, tuple(v.shape), "kept") for v in variables)
        return TransferReport(graph.name, tuple(kept))
    made, builder = _build(pruned(graph), "copy", None, graph.name)
    return TransferReport(graph.name, tuple(builder.transfer_of(v) for v in made.variables))


def _build(graph: Graph, weights: str, seed: int | None, name: str) -> "tuple[Any, EditedBuilder]":
    live = live_of(graph)
    with seeded(seed):
        builder = EditedBuilder(weights, graph)
        made = builder.whole() if live.model is not None else builder.part(name)
        builder.settle()
    vars(made)["name"] = name
    name_apart(made, {id(value) for value in builder.copier.memo.values()} | builder.ids())
    check_function(made, "rename one of them")
    internals.name_outputs(internals.functional_of(made))
    if live.graph is not None and same_shape(live.graph.outputs, graph.outputs):
        compile_alike(live.model, made, builder.copier)
    return made, builder


def all_records(graph: Graph) -> Iterator[Layer]:
    """Yields the layers of a graph and of those nested in it, each record once."""
    seen: set[int] = set()
    waiting = [graph]
    while waiting:
        for record in waiting.pop().layers.values():
            if id(record) not in seen:
                seen.add(id(record))
                yield record
                if record.graph is not None and not record.apart:
                    waiting.append(record.graph)


class EditedBuilder(Builder):
    """Builds one model of an edited graph."""

    def __init__(self, weights: str, graph: Graph) -> None:
        """Starts with nothing built but the layers that edits changed."""
        super().__init__(weights, graph)
        self.graph = graph
        self.taken: dict[int, tuple[str, str | None]] = {}
        self._made: dict[tuple[int, int], Any] = {}
        self._remade: list[tuple[Any, Any, str]] = []
        self._mapped = 0
        self._records = [*all_records(graph)]
        if weights == "share":
            for record in self._records:
                if not record.apart and isinstance(record.origin, keras.Layer):
                    self.share(record.origin)
        for inner in self.graphs.values():
            self._forget_removed(inner)
        self._place_changed()

    def _forget_removed(self, graph: Graph) -> None:
        """Lets the new model track only those layers that its graph still has."""
        live = live_of(graph)
        if live.graph is None or live.graph is graph:
            return
        kept = {id(record.origin) for record in graph.layers.values() if not record.apart}
        kept |= {id(record.inherits) for record in graph.layers.values()}
        gone = [r.origin for r in live.graph.layers.values() if id(r.origin) not in kept]
        for model in {id(live.function): live.function, id(live.model): live.model}.values():
            self.copier.drop(model, gone)

    def _place_changed(self) -> None:
        """Makes changed layers, and puts them where the model held the old ones."""
        kept = {
            id(record.origin)
            for record in self._records
            if record.changes is None and not record.apart
        }
        for record in self._records:
            if record.changes is not None and record.identity not in self._made:
                made = self._made[record.identity] = reconfigured(record)
                if not record.apart:
                    self.copier.memo[id(record.origin)] = made
            if record.inherits is not None and id(record.inherits) not in kept:
                self.copier.memo[id(record.inherits)] = self.layer(record)

    def ids(self) -> set[int]:
        """Returns the ids of the layers that the records tell of."""
        return {id(made) for made in self._made.values()}

    def whole(self) -> Any:
        """Makes a model of the class of the one that was traced, with its attributes."""
        source = live_of(self.graph).model
        self.copier.skip(source, internals.COMPILE_FIELDS)
        made = self.copier.copy(source)
        self.copier.finish()
        self.map_functions()
        return internals.adopt_layers(made, self._removed_from(self.graph), attributes=False)

    def _removed_from(self, graph: Graph) -> list[Any]:
        """Lists new layers that a model has only because it had them before."""
        read = live_of(graph).graph
        kept = {id(self.layer(record)) for record in graph.layers.values()}
        old = () if read is None else read.layers.values()
        copies = (self.copier.memo.get(id(record.origin)) for record in old)
        return [copy for copy in copies if copy is not None and id(copy) not in kept]

    def part(self, name: str) -> Any:
        """Makes a plain Functional model."""
        tensors = self.make_calls(self.graph)
        self.copier.finish()
        self.map_functions()
        self.settle_names()
        inputs, outputs = (
            map_tree(tensors.__getitem__, tree) for tree in (self.graph.inputs, self.graph.outputs)
        )
        with internals.deep_recursion(len(self.graph.calls)):
            made = keras.Model(inputs, outputs, name=name)
        internals.require_where_computed(made)
        return made

    def layer(self, record: Layer) -> Any:
        """Returns the new layer of a record."""
        made = self._made.get(record.identity)
        if made is None:
            made = self._copy_apart(record) if record.apart else self.copier.copy(record.origin)
            self._made[record.identity] = made
        return made

    def _copy_apart(self, record: Layer) -> Any:
        """Copies a layer that is another than those with the same origin."""
        weights = "fresh" if self.weights == "fresh" else "copy"
        if record.graph is None or not is_edited(record.graph):
            return Builder(weights, None).copy(record.origin)
        builder = EditedBuilder(weights, pruned(record.graph))
        made = builder.whole()
        builder.settle()
        return made

    def callable_layer(self, record: Layer) -> Any:
        """Returns the new layer of a record, with all that it needs to be called."""
        made = self.layer(record)
        self.copier.drain()
        if self._mapped < len(self.functions):
            self.map_functions()
            self._mapped = len(self.functions)
        if not getattr(made, "built", True):
            vars(made)["name"] = record.name
            if record.inherits is not None and record.weights != "fresh":
                take_over_adapted(record.inherits, made)
        if record.graph is not None and not record.apart and is_edited(record.graph):
            made = internals.adopt_layers(made, self._removed_from(record.graph), attributes=False)
            self._made[record.identity] = self.copier.memo[id(record.origin)] = made
        return made

    def fitted(self, record: Layer, made: Any, args: Any) -> Any:
        """Returns a layer for a batch of another size, if it keeps states for one."""
        if record.changes is None and internals.has_other_batch(made, args):
            made = reconfigured(dataclasses.replace(record, changes={}))
            vars(made)["name"] = record.name
            self._made[record.identity] = self.copier.memo[id(record.origin)] = made
            self._remade.append((record.origin, made, "fit"))
        return made

    def count(self, output: Any) -> None:
        """Counts a call that was made, so that each comes after those that it needs."""
        made = internals.producer(output)
        if made is not None:
            self.order[id(made[0])] = len(self.order) + _LATER
            self.operations[id(made[0].operation)] = made[0].operation

    def make_calls(self, graph: Graph) -> dict[Ref, Any]:
        """Makes the calls of a graph again, and only those by running that must be."""
        return _Calls(self, graph).make() if is_edited(graph) else super().make_calls(graph)

    def settle(self) -> None:
        """Gives layers that edits brought in or changed their names and weights."""
        self.settle_names()
        if self.weights == "fresh":
            refresh(self._pairs(), duplicate)
            return
        for record in self._records:
            if isinstance(record.origin, keras.Layer):
                made, remade = self.layer(record), record.changes is not None
                if remade or not record.origin.built:
                    self.taken |= dict.fromkeys(map(id, made.variables), ("fresh", None))
                if record.inherits is not None:
                    self.taken |= take_over(record.inherits, made, record.weights)
                if remade:
                    self._remade.append((record.origin, made, record.weights))
        for source, made, policy in self._remade:
            taken = take_over(source, made, policy)
            kept = {key: ("kept", None) for key, (how, _) in taken.items() if how == "fitted"}
            self.taken |= taken | kept

    def transfer_of(self, variable: Any) -> Transfer:
        """Tells what became of a variable of the new model."""
        status, source = self.taken.get(id(variable), ("kept", None))
        return Transfer(variable.path, tuple(variable.shape), status, source)

    def settle_names(self) -> None:
        """Gives renamed layers their names, and their variables paths to match."""
        for record in self._records:
            made = self.layer(record)
            if made.name != record.name:
                internals.rename_layer(made, record.name, variables=self.weights != "share")

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        """Yields the layers that were copied with their copies."""
        seen: set[int] = set()
        for record in self._records:
            copied = isinstance(record.origin, keras.Layer) and record.changes is None
            whole = record.graph is None or not is_edited(record.graph)
            if copied and record.origin.built and whole:
                both = (
                    internals.all_layers(layer) for layer in (record.origin, self.layer(record))
                )
                for old, new in zip(*both, strict=True):
                    if id(new) not in seen:
                        seen.add(id(new))
                        yield old, new


def _is_changed(record: Layer, node: Any) -> bool:
    """Tells whether a layer is another than the one that a node was made with."""
    other = record.changes is not None or record.origin is not node.operation
    return other or (record.graph is not None and is_edited(record.graph))


class _Calls:
    """Makes the calls of one edited graph."""

    def __init__(self, builder: EditedBuilder, graph: Graph) -> None:
        self._builder = builder
        self._graph = graph
        self._memo = builder.copier.memo
        self._tensors: dict[Ref, Any] = {}
        self._unmasked: dict[Ref, Any] = {}
        self._used: set[int] = set()
        # An input brings its mask by another input, not on the tensor that is passed in.
        self._masks_come_in = any(
            isinstance(spec.mask, Ref) and not call.args
            for call in graph.calls.values()
            for spec in call.outputs
        )

    def make(self) -> dict[Ref, Any]:
        """Makes the calls and returns the symbolic tensors."""
        written = {call.name for call in written_calls(self._graph)}
        for call in self._graph.calls.values():
            self._attach_masks(call.refs)
            standing = self._standing(call)
            if standing is not None:
                self._replay(call, clean=standing)
            elif call.name in written:
                self._call(call, written)
        self._attach_masks([*self._unmasked])
        for ref in self._unmasked:
            message = (
                f"the mask of '{ref.call}' in '{self._graph.name}' is computed from what an "
                "edit changed; edit the layer that makes the mask instead"
            )
            raise GraphError(message)
        return self._tensors

    def _standing(self, call: Call) -> bool | None:
        """Tells whether a call is as recorded: `True`, only alike: `False`, or neither."""
        if call.origin is None or call.layer is None:
            return None if call.origin is None else True
        record, node = self._graph.layers[call.layer], call.origin.node
        if _is_changed(record, node):
            return None
        pairs = paired_leaves(
            (call.args, call.kwargs), (node.arguments.args, node.arguments.kwargs)
        )
        if pairs is None or not all(self._is_alike(new, old) for new, old in pairs):
            return None
        first = id(node) not in self._used and not record.apart
        clean = first and all(
            self._tensors[new] is self._copy_of(old) for new, old in pairs if isinstance(new, Ref)
        )
        masks = [spec.mask for spec in call.outputs if isinstance(spec.mask, Ref)]
        return clean if clean or all(mask in self._tensors for mask in masks) else None

    def _copy_of(self, tensor: Any) -> Any:
        return self._memo.get(id(internals.original(tensor)))

    def _is_alike(self, new: Any, old: Any) -> bool:
        """Tells whether a layer could not tell an argument from the recorded one."""
        if not isinstance(new, Ref):
            return new is old
        tensor = self._tensors.get(new)
        if tensor is None or not isinstance(old, keras.KerasTensor):
            return False
        if tensor is self._copy_of(old):
            return True
        mask, before = (internals.get_keras_mask(each) for each in (tensor, old))
        same = before is None if mask is None else mask is self._copy_of(before)
        return same and internals.same_spec(tensor, old)

    def _replay(self, call: Call, *, clean: bool) -> None:
        sources = call.origin.tensors
        if clean and all(id(source) in self._memo for source in sources):
            made = [self._memo[id(source)] for source in sources]
        else:
            made = self._builder.replay(self._graph, call, self._tensors)
            self._builder.count(made[0])
        if clean:
            self._memo.update(zip(map(id, sources), made, strict=True))
            self._used.add(id(call.origin.node))
        for index, (tensor, spec) in enumerate(zip(made, call.outputs, strict=True)):
            ref = Ref(call.name, index)
            self._tensors[ref] = tensor
            if spec.mask is not None:
                self._unmasked[ref] = spec.mask

    def _attach_masks(self, refs: Any) -> None:
        """Attaches masks to replayed tensors, as soon as they are made."""
        for ref in refs:
            mask = self._unmasked.get(ref)
            if mask is not None and (not isinstance(mask, Ref) or mask in self._tensors):
                del self._unmasked[ref]
                call = self._graph.calls[ref.call]
                value = self._builder.arguments(self._graph, call, mask, self._tensors)
                internals.set_keras_mask(self._tensors[ref], value)

    def _call(self, call: Call, written: set[str]) -> None:
        record = self._graph.layers[cast("str", call.layer)]
        layer = self._builder.callable_layer(record)
        kwargs = {key: item for key, item in call.kwargs.items() if key not in call.derived}
        args, kwargs = self._builder.arguments(
            self._graph, call, (call.args, kwargs), self._tensors
        )
        layer = self._builder.fitted(record, layer, args)
        if self._masks_come_in:
            kwargs |= internals.implied_masks(layer, args, kwargs)
        outputs = invoke(self._graph, call, layer, args, kwargs)
        self._check_count(call, len(outputs))
        self._builder.count(outputs[0])
        for index, (tensor, spec) in enumerate(zip(outputs, call.outputs, strict=False)):
            self._tensors[Ref(call.name, index)] = tensor
            if isinstance(spec.mask, Ref) and internals.get_keras_mask(tensor) is None:
                self._check_mask_unused(call, spec.mask, written)

    def _check_count(self, call: Call, given: int) -> None:
        """Checks that a call gave every output that is used, and no more than the graph knows."""
        known = len(call.outputs)
        if given == known:
            return
        used = {ref: f"'{c.name}'" for c in self._graph.calls.values() for ref in c.written_refs}
        used |= dict.fromkeys(leaves(self._graph.outputs), "the model's outputs")
        missing = [i for i in range(given, known) if Ref(call.name, i) in used]
        if missing or given > known:
            who = used.get(Ref(call.name, missing[0])) if missing else None
            why = f"its output {missing[0]} is used by {who}" if missing else f"{known} is expected"
            message = (
                f"layer '{call.name}' of '{self._graph.name}' now gives "
                f"{counted(given, 'output')}, but {why}; let it give {known}"
            )
            raise GraphError(message)

    def _check_mask_unused(self, call: Call, mask: Ref, written: set[str]) -> None:
        """Checks that the author does not pass on a mask that its layer no longer makes."""
        for other in self._graph.calls.values():
            if other.name in written and mask in other.written_refs:
                message = (
                    f"layer '{call.name}' of '{self._graph.name}' no longer makes the mask that "
                    f"is passed to '{other.name}'; keep its masking, or rewire that argument of "
                    f"'{other.name}' first"
                )
                raise GraphError(message)
