"""From an edited Graph to a Keras model: replay what is as it was, call the rest.

A call is replayed, without running its layer, if the layer is unchanged and every
argument is either the copy of the tensor that it was recorded with, or another
one of the same shape, dtype and mask. Any other call is made by calling the layer, so
that Keras infers shapes, dtypes and masks; arguments that Keras had filled in are left
out, for Keras to fill them in again.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.building.calls import EditedCalls
from ramet.building.finish import check_layer_name, compile_alike
from ramet.building.layer_group import CallOrder, LayerGroup
from ramet.building.postponed import Postponed
from ramet.building.reconfigure import reconfigured
from ramet.building.resize import new_shapes, refuse_sizes, resized
from ramet.building.trainable import carry_flags
from ramet.building.weights.inheritance import Inheritance
from ramet.building.weights.roles import roles_of
from ramet.building.weights.stages import Stages
from ramet.building.weights.transfer import take_over_adapted
from ramet.copying.fresh_weights import refresh
from ramet.errors import OptionError
from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.paths import layer_paths
from ramet.graph.tree import map_tree, same_shape
from ramet.tracing.origin import is_edited, live_of


class EditedBuilder:
    """Builds one model of an edited graph."""

    def __init__(self, weights: str, graph: Graph, stages: Stages | None = None) -> None:
        """Start with nothing built but the layers that edits changed."""
        self.weights = weights
        self.graph = graph
        self.stages: Stages = {} if stages is None else stages
        self.inheritance = Inheritance(self)
        self.order = CallOrder()
        self.refitted: list[tuple[Any, Any]] = []
        """Old layers with new ones that were re-created for a batch of another size."""
        self._groups = {0: LayerGroup(0, weights, self.order)}
        self._graphs: dict[tuple[int, int], Graph] = {}
        """The graphs, by group and by the ids of the functions that they were traced from."""
        self._layers: dict[tuple[int, int], Any] = {}
        """The new layers so far, by the identities of their records."""
        self._unfilled: dict[int, None] = {}
        """Numbers of the groups in which a layer was copied and maybe not filled yet."""
        self._before_steps: list[Any] = []
        """Variables that steps may remove, kept so that no new one gets the id of an old one."""
        self._resized: dict[tuple[int, int], Layer] = {}
        """Records of nested models whose inputs have other shapes now."""
        graphs = [
            (0 if visit.layer is None else visit.layer.apart, visit.graph) for visit in graph.walk()
        ]
        for number, inner in graphs:
            self._graphs.setdefault((number, id(live_of(inner).function)), inner)
        records = (record for _, inner in graphs for record in inner.layers.values())
        self.records = [*{id(record): record for record in records}.values()]
        self._postponed = Postponed(self.records)
        if weights == "share":
            self._share_variables()
        for number, inner in graphs:
            self._prepare_copy(inner, self._group(number))
        self._omit_computed()
        self._place_changed()
        for number, inner in graphs:
            self._place_successors(inner, self._group(number))

    # --- groups, and how the copiers learn of the edits ---

    def _group(self, number: int) -> LayerGroup:
        """Return the group of the layers that were taken apart under a number."""
        if number not in self._groups:
            weights = "fresh" if self.weights == "fresh" else "copy"
            group = self._groups[number] = LayerGroup(number, weights, self.order)
            origins = {
                id(record.origin): record.origin
                for record in self.records
                if record.apart == number
            }
            if len(origins) == 1:
                (group.copier.root,) = origins.values()
        return self._groups[number]

    def _share_variables(self) -> None:
        for record in self.records:
            if not record.apart and isinstance(record.origin, keras.Layer):
                self._groups[0].copier.share_variables(record.origin)

    def _prepare_copy(self, graph: Graph, group: LayerGroup) -> None:
        """Say what a copier leaves out of the copy of a model: what the edits change."""
        live = live_of(graph)
        self._forget_removed(graph, group)
        if is_edited(self._graphs[group.number, id(live.function)]):
            group.copier.await_graph(live.function)
        if live.model is not None and is_edited(graph):
            group.copier.skip(live.model, internals.COMPILE_FIELDS)

    def _omit_computed(self) -> None:
        """Leave out the values of weights that are computed for a copied layer."""
        seen: set[tuple[int, int]] = set()
        for record in self.records if self.weights == "copy" else ():
            known = record.identity in seen
            seen.add(record.identity)
            if record.recipe and record.changes is None and record.origin.built and not known:
                roles = roles_of(record.origin)
                variables = (roles[role] for role in record.recipe if role in roles)
                self._group(record.apart).copier.omit_values(variables)

    def _forget_removed(self, graph: Graph, group: LayerGroup) -> None:
        """Let the new model track only those layers that its graph still has."""
        live = live_of(graph)
        if live.graph is None or live.graph is graph:
            return
        records = graph.layers.values()
        kept = {id(record.origin) for record in records if record.apart == group.number}
        kept |= {id(record.inherits) for record in records}
        gone = [r.origin for r in live.graph.layers.values() if id(r.origin) not in kept]
        for model in {id(live.function): live.function, id(live.model): live.model}.values():
            group.copier.drop(model, gone)

    def _place_changed(self) -> None:
        """Re-create changed layers, and put them where the model held the old ones."""
        for record in self.records:
            if record.changes is not None and record.identity not in self._layers:
                self._place(record, reconfigured(record))

    def _place(self, record: Layer, layer: Any) -> None:
        """Use a layer as the new one of a record, and wherever its origin is copied."""
        self._layers[record.identity] = layer
        self._group(record.apart).copier.memo[id(record.origin)] = layer

    def _place_successors(self, graph: Graph, group: LayerGroup) -> None:
        """Put layers that replaced others where the model held those."""
        successors = [r for r in graph.layers.values() if r.inherits is not None]
        if not successors:
            return
        kept = {
            id(record.origin)
            for record in self.records
            if record.changes is None and record.apart == group.number
        }
        for record in successors:
            if id(record.inherits) not in kept:
                group.copier.memo[id(record.inherits)] = self.layer(record)

    # --- filling copies, with their graphs ---

    def _fill(self, group: LayerGroup) -> None:
        """Fill all that a group copied so far, and build the edited graphs of models among it.

        To call a nested model, its own graph has to be built while the graph around it is:

            _fill ── copier.advance ──▶ "outer needs a graph"
             └─ EditedCalls(outer).make
                 └─ callable_layer("inner") ─ _fill_all
                     └─ _fill ── copier.advance ──▶ "inner needs a graph"
                         ├─ EditedCalls(inner).make
                         ├─ copier.give_graph(inner)
                         └─ copier.advance ──▶ None: inner is filled, and can be called
             ├─ copier.give_graph(outer)
             └─ copier.advance ──▶ None

        So this is as deep as models are nested, and it ends: `advance` asks for each graph
        once. The copier itself is never inside of its own work: `advance` has returned
        before anything is called here.
        """
        while (function := self._next_function(group)) is not None:
            graph = self._graphs[group.number, id(function)]
            tensors = EditedCalls(self, group, graph).make()
            ends = (map_tree(tensors.__getitem__, tree) for tree in (graph.inputs, graph.outputs))
            group.copier.give_graph(function, *ends)

    def _next_function(self, group: LayerGroup) -> Any | None:
        """Return the next function whose graph is to be built now."""
        function = self._postponed.take(group.number)
        while function is None:
            function = group.copier.advance()
            if function is None or not self._postponed.has_to_wait(group.number, function):
                return function
            function = None
        return function

    def _fill_all(self, group: LayerGroup) -> None:
        """Fill what was copied so far, in other groups too, and map the graphs among it."""
        self._fill(group)
        group.map_new_graphs()
        while self._unfilled:
            number, _ = self._unfilled.popitem()
            self._fill(self._group(number))
            self._group(number).map_new_graphs()

    def finish(self) -> None:
        """Fill all that was copied, and map the graphs that were built here."""
        self._fill_groups()
        self._postponed.end()
        self._fill_groups()
        for group in self._groups.values():
            self._fill(group)
            group.copier.finish()
            group.map_graphs()

    def _fill_groups(self) -> None:
        """Fill all that was copied in any group."""
        known = -1
        while known < len(self._layers):
            # Filling a model may ask another group for a layer.
            known = len(self._layers)
            for group in [*self._groups.values()]:
                self._fill(group)

    # --- the model ---

    def whole(self) -> Any:
        """Return a model of the class of the one that was traced, with its attributes."""
        group = self._groups[0]
        model = group.copier.copy(live_of(self.graph).model)
        self.finish()
        internals.reset_compile(model)
        return internals.adopt_layers(model, _had(self.graph, group), attributes=False)

    def part(self, name: str) -> Any:
        """Return a plain Functional model."""
        tensors = self.make_calls()
        self.finish()
        self._settle_names()
        inputs, outputs = (
            map_tree(tensors.__getitem__, tree) for tree in (self.graph.inputs, self.graph.outputs)
        )
        with internals.deep_recursion(len(self.graph.calls)):
            model = internals.new_functional(inputs, outputs, name)
        internals.require_where_computed(model)
        return model

    def make_calls(self) -> dict[Ref, Any]:
        """Make the calls of the outermost graph, and return its symbolic tensors."""
        return EditedCalls(self, self._groups[0], self.graph).make()

    def edited_models(self, model: Any) -> Iterator[Any]:
        """Yield the new models whose graphs were edited: the whole, and nested ones."""
        if live_of(self.graph).model is not None:
            yield model
        for record in self.records:
            if record.graph is not None and is_edited(record.graph):
                yield self.layer(record)

    @property
    def graphs(self) -> list[Graph]:
        """The graph and those nested in it."""
        return [*self._graphs.values()]

    # --- new layers ---

    def layer(self, record: Layer) -> Any:
        """Return the new layer of a record."""
        layer = self._layers.get(record.identity)
        if layer is None:
            layer = self._group(record.apart).copier.copy(record.origin)
            self._layers[record.identity] = layer
            self._unfilled[record.apart] = None
        return layer

    def callable_layer(self, record: Layer) -> Any:
        """Return the new layer of a record, with all that it needs to be called."""
        group = self._group(record.apart)
        layer = self.layer(record)
        if record.graph is None:
            self._postponed.note_use(record.origin)
        self._fill_all(group)
        if not getattr(layer, "built", True):
            vars(layer)["name"] = record.name
            if record.inherits is not None and record.weights != "fresh":
                take_over_adapted(record.inherits, layer)
        if record.graph is not None and is_edited(record.graph):
            layer = internals.adopt_layers(layer, _had(record.graph, group), attributes=False)
            self._place(record, layer)
        return layer

    def path_of(self, record: Layer) -> str:
        """Return the path of a layer from the outermost graph."""
        paths = (path for path, each in layer_paths(self.graph) if each.identity == record.identity)
        return next(paths, record.name)

    def ids(self) -> set[int]:
        """Return the ids of the new layers of all records, and of all that was copied."""
        copies = (group.copier.memo.values() for group in self._groups.values())
        return {id(each) for values in (self._layers.values(), *copies) for each in values}

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """Yield the layers that were copied with their copies."""
        seen: set[int] = set()
        for record in self.records:
            copied = isinstance(record.origin, keras.Layer) and record.changes is None
            whole = record.graph is None or not is_edited(record.graph)
            if copied and record.origin.built and whole:
                layer = self.layer(record)
                # An input that the new graph does not need has no copy yet.
                self._fill(self._groups[0])
                both = (internals.all_layers(each) for each in (record.origin, layer))
                for old, new in zip(*both, strict=True):
                    if id(new) not in seen:
                        seen.add(id(new))
                        yield old, new

    # --- calls on other sizes ---

    def note_call(self, record: Layer) -> None:
        """Note that a nested model is called, so that its input shapes are final."""
        self._postponed.note_call(record)

    def is_resized(self, record: Layer) -> bool:
        """Whether a nested model has inputs of other shapes than in its record."""
        return record.identity in self._resized

    def resized(self, graph: Graph, call: Call, record: Layer, tensors: dict[Ref, Any]) -> Layer:
        """Return the record of a layer; of a nested model, one that fits what it is called on.

        Raises:
            GraphError: If the model is called on tensors of another shape already.
        """
        record = self._resized.get(record.identity, record)
        if record.graph is None:
            return record
        shapes = new_shapes(graph, call, record.graph, tensors)
        if shapes and self._postponed.is_called(record):
            refuse_sizes(graph, call, record.graph, shapes)
        self.note_call(record)
        return self._with_graph(record, resized(record.graph, shapes)) if shapes else record

    def _with_graph(self, record: Layer, graph: Graph) -> Layer:
        """Give a nested model that is not copied yet another graph."""
        live, group = live_of(graph), self._group(record.apart)
        new = self._resized[record.identity] = dataclasses.replace(
            record, graph=graph, edit=graph.journal[-1]
        )
        self._forget_removed(graph, group)
        group.copier.skip(live.model, internals.COMPILE_FIELDS)
        self._graphs[group.number, id(live.function)] = graph
        group.copier.await_graph(live.function)
        old = () if record.graph is None else record.graph.layers.values()
        gone = {id(record), *map(id, old)}
        kept = [each for each in self.records if id(each) not in gone]
        self.records[:] = [*kept, new, *graph.layers.values()]
        return new

    def fitted(self, record: Layer, layer: Any, args: Any) -> Any:
        """Return a layer for a batch of another size, if it keeps states for one."""
        if record.changes is None and internals.has_other_batch(layer, args):
            layer = reconfigured(dataclasses.replace(record, changes={}))
            vars(layer)["name"] = record.name
            self._place(record, layer)
            self.refitted.append((record.origin, layer))
        return layer

    # --- names, weights, flags and compilation, once all is built ---

    def settle(self) -> None:
        """Give layers that edits added or changed their names, weights and flags."""
        self._settle_paths()
        self._settle_names()
        if self.weights == "fresh":
            refresh(self.pairs())
        self.inheritance.settle()
        for record in self.records:
            if record.changes is not None and record.can_train:
                carry_flags(record.origin, self.layer(record))

    def _settle_paths(self) -> None:
        """Let re-created layers stand where those before them stood."""
        for record in self.records:
            layer, source = self.layer(record), record.origin
            if record.changes is None:
                source = None if record.recipe is None else record.inherits
            if isinstance(source, keras.Layer) and isinstance(layer, keras.Layer):
                internals.place_like(layer, source)

    def take_steps(self) -> None:
        """Let edits do what they do to new layers: add adapters, merge them.

        Raises:
            OptionError: If the variables are the source's own.
        """
        stepped = {record.identity: record for record in self.records if record.steps}
        for record in stepped.values():
            layer = self.layer(record)
            changes = any(step.changes_variables(layer) for step in record.steps)
            if self.weights == "share" and changes:
                message = (
                    f"layer '{record.name}' has variables that change ({record.edit}), so it "
                    "cannot share those of the source; build with weights='copy', or, to add the "
                    "first adapter, freeze the source: model.trainable = False"
                )
                raise OptionError(message)
        if stepped:
            self.inheritance.remember()
        for record in stepped.values():
            layer = self.layer(record)
            self._before_steps += layer.variables
            before = {id(variable) for variable in self._before_steps}
            for step in record.steps:
                step.apply(layer)
            new = [variable for variable in layer.variables if id(variable) not in before]
            self.inheritance.note_new(new)

    def _settle_names(self) -> None:
        """Give renamed layers their names, and their variables paths to match.

        Where graphs inside each other name one layer differently, the outer one counts.
        """
        settled: set[int] = set()
        for record in self.records:
            layer = self.layer(record)
            if layer.name != record.name and id(layer) not in settled:
                check_layer_name(layer, record.name)
                own = self.weights != "share" or record.apart != 0
                internals.rename_layer(layer, record.name, variables=own)
            settled.add(id(layer))

    def compile_nested(self) -> None:
        """Compile nested models that were edited as they were, with new optimizers."""
        done: set[int] = set()
        for record in self.records:
            if record.graph is None or not is_edited(record.graph):
                continue
            model, traced = self.layer(record), live_of(record.graph).graph
            if id(model) not in done:
                done.add(id(model))
                internals.reset_compile(model)
                if traced is not None and same_shape(traced.outputs, record.graph.outputs):
                    self.compile_from(record.origin, model, record.apart)

    def compile_from(self, source: Any, model: Any, number: int = 0) -> str:
        """Compile a new model like its source, and return what became of the optimizer.

        Args:
            source: The old model.
            model: The new one.
            number: The group that it belongs to.
        """
        group = self._group(number)
        heirs = None if self.weights == "fresh" else self.inheritance.heirs(model)

        def copied(value: Any) -> Any:
            twin = group.copier.copy(value)
            self._fill(group)
            return twin

        return compile_alike(source, model, copied, heirs)


def _had(graph: Graph, group: LayerGroup) -> list[Any]:
    """List the copies of the layers that a model had before it was edited.

    A layer that only served a mask may have lost its place, too: the mask is another one now.
    """
    operations: Any = live_of(graph).function.operations
    copies = (group.copier.memo.get(id(operation)) for operation in operations)
    return [copy for copy in copies if copy is not None]
