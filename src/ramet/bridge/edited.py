"""From an edited Graph to a Keras model: replay what is as it was, call the rest.

A call is replayed, without running its layer, if the layer is unchanged and every
argument is either the copy of the tensor that it was recorded with, or another
one of the same shape, dtype and mask. Any other call is made by calling the layer,
so that shapes, dtypes and masks are inferred anew; arguments that Keras had filled
in are left out, for Keras to fill them in again.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.copies import duplicate
from ramet.bridge.editedcalls import EditedCalls
from ramet.bridge.fresh import refresh
from ramet.bridge.inheritance import Inheritance
from ramet.bridge.live import is_edited, live_of
from ramet.bridge.reconfigure import reconfigured
from ramet.bridge.replay import Replayer
from ramet.bridge.resize import new_shapes, refuse_sizes, resized
from ramet.bridge.settle import (
    NOT_COMPILED,
    check_layer_name,
    compile_alike,
)
from ramet.bridge.stages import Stages
from ramet.bridge.training import carry_flags
from ramet.bridge.transfer import take_over_adapted
from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.locate import layer_paths
from ramet.graph.tree import map_tree, same_shape

_LATER = 10**9
"""Calls of edited graphs come after those that have their recorded numbers."""


def all_graphs(graph: Graph, home: int = 0) -> Iterator[tuple[int, Graph]]:
    """Yields a graph and those nested in it, each once, with the number of the model's record."""
    seen = {id(graph)}
    waiting = [(home, graph)]
    while waiting:
        number, found = waiting.pop()
        yield number, found
        for record in found.layers.values():
            if record.graph is not None and id(record.graph) not in seen:
                seen.add(id(record.graph))
                waiting.append((record.apart, record.graph))


class EditedBuilder(Replayer):
    """Builds one model of an edited graph.

    Layers that were taken apart from those with the same origins are copied by builders of
    their own, one for all that were taken apart together, so that they have in common what
    they had. All these builders know each other.
    """

    def __init__(self, weights: str, graph: Graph, stages: Stages | None = None) -> None:
        """Starts with nothing built but the layers that edits changed."""
        super().__init__(weights)
        self.graph = graph
        self.home = 0
        """The number of the records whose layers this builder copies; see `Layer.apart`."""
        self.stages: Stages = {} if stages is None else stages
        self.optimizer = NOT_COMPILED
        self.inheritance = Inheritance(self)
        self._builders: dict[int, EditedBuilder] = {0: self}
        self._graphs: dict[tuple[int, int], Graph] = {}
        self._made: dict[tuple[int, int], Any] = {}
        self.remade: list[tuple[Any, Any]] = []
        self._mapped = 0
        self._unfilled: dict[int, None] = {}
        self._called: set[tuple[int, int]] = set()
        self._resized: dict[tuple[int, int], Layer] = {}
        graphs = [*all_graphs(graph)]
        for number, inner in graphs:
            self._graphs.setdefault((number, id(live_of(inner).function)), inner)
        records = (record for _, inner in graphs for record in inner.layers.values())
        self.records = [*{id(record): record for record in records}.values()]
        if weights == "share":
            for record in self.records:
                if not record.apart and isinstance(record.origin, keras.Layer):
                    self.copier.share(record.origin)
        for number, inner in graphs:
            self._builder(number).forget_removed(inner)
            model = live_of(inner).model
            if model is not None and is_edited(inner):
                self._builder(number).copier.skip(model, internals.COMPILE_FIELDS)
        self._place_changed()
        for number, inner in graphs:
            self._builder(number).place_successors(inner)

    def _builder(self, number: int) -> "EditedBuilder":
        """Returns the builder of the layers that were taken apart under a number."""
        if number not in self._builders:
            self._builders[number] = self._another(number)
        return self._builders[number]

    def _another(self, number: int) -> "EditedBuilder":
        """Makes a builder that copies its own layers, and knows what this one knows."""
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        Replayer.__init__(made, "fresh" if self.weights == "fresh" else "copy")
        made.home, made._mapped = number, 0
        made.copier.order, made.operations = self.copier.order, self.operations
        origins = {
            id(record.origin): record.origin for record in self.records if record.apart == number
        }
        if len(origins) == 1:
            made.copier.begin(*origins.values())
        return made

    def give_graph(self, source: Any, made: Any) -> bool:
        """Gives the copy of a model its graph, if that was edited."""
        graph = self._graphs.get((self.home, id(source)))
        if graph is not None and is_edited(graph):
            tensors = EditedCalls(self, graph).make()
            ends = (map_tree(tensors.__getitem__, tree) for tree in (graph.inputs, graph.outputs))
            self.give(source, *ends)
        return super().give_graph(source, made)

    def forget_removed(self, graph: Graph) -> None:
        """Lets the new model track only those layers that its graph still has."""
        live = live_of(graph)
        if live.graph is None or live.graph is graph:
            return
        kept = {id(record.origin) for record in graph.layers.values() if record.apart == self.home}
        kept |= {id(record.inherits) for record in graph.layers.values()}
        gone = [r.origin for r in live.graph.layers.values() if id(r.origin) not in kept]
        for model in {id(live.function): live.function, id(live.model): live.model}.values():
            self.copier.drop(model, gone)

    def _place_changed(self) -> None:
        """Makes changed layers, and puts them where the model held the old ones."""
        for record in self.records:
            if record.changes is not None and record.identity not in self._made:
                made = self._made[record.identity] = reconfigured(record)
                self._builder(record.apart).copier.memo[id(record.origin)] = made

    def place_successors(self, graph: Graph) -> None:
        """Puts layers that took the place of others where the model held those."""
        successors = [r for r in graph.layers.values() if r.inherits is not None]
        if not successors:
            return
        kept = {
            id(record.origin)
            for record in self.records
            if record.changes is None and record.apart == self.home
        }
        for record in successors:
            if id(record.inherits) not in kept:
                self.copier.memo[id(record.inherits)] = self.layer(record)

    def ids(self) -> set[int]:
        """Returns the ids of the layers that the records tell of, and of all that was copied."""
        copies = (each.copier.memo.values() for each in self._builders.values())
        return {id(made) for values in (self._made.values(), *copies) for made in values}

    def whole(self) -> Any:
        """Makes a model of the class of the one that was traced, with its attributes."""
        made = self.copier.copy(live_of(self.graph).model)
        self.finish()
        internals.reset_compile(made)
        return internals.adopt_layers(made, self.removed_from(self.graph), attributes=False)

    def edited_models(self, made: Any) -> Iterator[Any]:
        """Yield the new models whose graphs were edited: the whole, and nested ones."""
        if live_of(self.graph).model is not None:
            yield made
        for record in self.records:
            if record.graph is not None and is_edited(record.graph):
                yield self.layer(record)

    def finish(self) -> None:
        """Fills all that was copied, and maps the graphs that were given."""
        known = -1
        while known < len(self._made):
            # To fill a model may ask another builder for a layer.
            known = len(self._made)
            for builder in [*self._builders.values()]:
                builder.copier.drain()
        for builder in self._builders.values():
            builder.copier.finish()
            builder.map_functions()

    def removed_from(self, graph: Graph) -> list[Any]:
        """Lists new layers that a model has only because it had them before."""
        read = live_of(graph).graph
        kept = {id(self.layer(record)) for record in graph.layers.values()}
        old = () if read is None else read.layers.values()
        copies = (self.copier.memo.get(id(record.origin)) for record in old)
        return [copy for copy in copies if copy is not None and id(copy) not in kept]

    def part(self, name: str) -> Any:
        """Makes a plain Functional model."""
        tensors = EditedCalls(self, self.graph).make()
        self.finish()
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
            made = self._builder(record.apart).copier.copy(record.origin)
            self._made[record.identity] = made
            self._unfilled[record.apart] = None
        return made

    def drain(self) -> None:
        """Fills what was copied so far, by others too, and maps the graphs that were given."""
        self._drain()
        while self._unfilled:
            number, _ = self._unfilled.popitem()
            self._builder(number)._drain()  # noqa: SLF001 the same class

    def _drain(self) -> None:
        self.copier.drain()
        if self._mapped < len(self.functions):
            self.map_functions()
            self._mapped = len(self.functions)

    def callable_layer(self, record: Layer) -> Any:
        """Returns the new layer of a record, with all that it needs to be called."""
        builder = self._builder(record.apart)
        made = self.layer(record)
        builder.drain()
        if not getattr(made, "built", True):
            vars(made)["name"] = record.name
            if record.inherits is not None and record.weights != "fresh":
                take_over_adapted(record.inherits, made)
        if record.graph is not None and is_edited(record.graph):
            removed = builder.removed_from(record.graph)
            made = internals.adopt_layers(made, removed, attributes=False)
            self._made[record.identity] = builder.copier.memo[id(record.origin)] = made
        return made

    def path_of(self, record: Layer) -> str:
        """Returns the path of a layer from the outermost graph."""
        paths = (path for path, each in layer_paths(self.graph) if each.identity == record.identity)
        return next(paths, record.name)

    def note_call(self, record: Layer) -> None:
        """Notes that a nested model is called, and so has inputs of some shape for good."""
        self._called.add(record.identity)

    def is_resized(self, record: Layer) -> bool:
        """Whether a nested model has inputs of other shapes than its record tells."""
        return record.identity in self._resized

    def resized(self, graph: Graph, call: Call, record: Layer, tensors: dict[Ref, Any]) -> Layer:
        """Returns the record of a layer; of a nested model, one that fits what it is called on.

        Raises:
            GraphError: If the model is called on tensors of another shape already.
        """
        record = self._resized.get(record.identity, record)
        if record.graph is None:
            return record
        shapes = new_shapes(graph, call, record.graph, tensors)
        if shapes and record.identity in self._called:
            refuse_sizes(graph, call, record.graph, shapes)
        self.note_call(record)
        return self._with_graph(record, resized(record.graph, shapes)) if shapes else record

    def _with_graph(self, record: Layer, graph: Graph) -> Layer:
        """Gives a nested model that is not copied yet another graph."""
        function = live_of(graph).function
        new = self._resized[record.identity] = dataclasses.replace(
            record, graph=graph, edit=graph.journal[-1]
        )
        builder = self._builder(record.apart)
        builder.forget_removed(graph)
        builder.copier.skip(live_of(graph).model, internals.COMPILE_FIELDS)
        self._graphs[record.apart, id(function)] = graph
        old = () if record.graph is None else record.graph.layers.values()
        gone = {id(record), *map(id, old)}
        kept = [each for each in self.records if id(each) not in gone]
        self.records[:] = [*kept, new, *graph.layers.values()]
        return new

    def fitted(self, record: Layer, made: Any, args: Any) -> Any:
        """Returns a layer for a batch of another size, if it keeps states for one."""
        if record.changes is None and internals.has_other_batch(made, args):
            made = reconfigured(dataclasses.replace(record, changes={}))
            vars(made)["name"] = record.name
            self._made[record.identity] = made
            self._builder(record.apart).copier.memo[id(record.origin)] = made
            self.remade.append((record.origin, made))
        return made

    def count(self, output: Any) -> None:
        """Counts a call that was made, so that each comes after those that it needs."""
        made = internals.producer(output)
        if made is not None:
            order = self.copier.order
            order[id(made[0])] = len(order) + _LATER
            self.operations[id(made[0].operation)] = made[0].operation

    @property
    def graphs(self) -> list[Graph]:
        """The graph and those nested in it."""
        return [*self._graphs.values()]

    def settle(self) -> None:
        """Gives layers that edits brought in or changed their names and weights."""
        self.settle_names()
        if self.weights == "fresh":
            refresh(self.pairs(), duplicate)
        self.inheritance.settle()
        self._carry_flags()

    def _carry_flags(self) -> None:
        """Let layers that were created again train like those before them."""
        for record in self.records:
            if record.changes is not None:
                carry_flags(record.origin, self.layer(record))

    def compile_nested(self) -> None:
        """Compiles nested models that were edited as they were, with new optimizers."""
        done: set[int] = set()
        for record in self.records:
            if record.graph is None or not is_edited(record.graph):
                continue
            made, read = self.layer(record), live_of(record.graph).graph
            if id(made) not in done:
                done.add(id(made))
                internals.reset_compile(made)
                if read is not None and same_shape(read.outputs, record.graph.outputs):
                    copier = self._builder(record.apart).copier
                    compile_alike(record.origin, made, copier, self.heirs(made))

    def heirs(self, made: Any) -> dict[int, Any] | None:
        """Returns the new variables that go on where old ones were; see `Inheritance.heirs`."""
        return None if self.weights == "fresh" else self.inheritance.heirs(made)

    def settle_names(self) -> None:
        """Gives renamed layers their names, and their variables paths to match.

        Where graphs inside each other name one layer differently, the outer one counts.
        """
        settled: set[int] = set()
        for record in self.records:
            made = self.layer(record)
            if made.name != record.name and id(made) not in settled:
                check_layer_name(made, record.name)
                own = self.weights != "share" or record.apart != 0
                internals.rename_layer(made, record.name, variables=own)
            settled.add(id(made))

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """Yields the layers that were copied with their copies."""
        seen: set[int] = set()
        for record in self.records:
            copied = isinstance(record.origin, keras.Layer) and record.changes is None
            whole = record.graph is None or not is_edited(record.graph)
            if copied and record.origin.built and whole:
                made = self.layer(record)
                self.copier.drain()  # An input that the new graph does without has no copy yet.
                both = (internals.all_layers(layer) for layer in (record.origin, made))
                for old, new in zip(*both, strict=True):
                    if id(new) not in seen:
                        seen.add(id(new))
                        yield old, new
