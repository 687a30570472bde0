"""A traced model as a module of source: a function for the model, and one for each nested one."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.graph import Graph
from ramet.graph.reach import written_layers
from ramet.source.calls import CallWriter
from ramet.source.constructors import LayerWriter, with_name_of
from ramet.source.counting import base_of
from ramet.source.expr import Expr, Group, Leaf, bare_name, call, display, text_of
from ramet.source.flags import flag_lines
from ramet.source.lines import Line, Statement
from ramet.source.names import Scope
from ramet.source.shared import is_container, is_operation, shared_layers
from ramet.source.values import Values
from ramet.tracing.origin import live_of
from ramet.tracing.trace import trace_function


@dataclass
class _Unit:
    """One function of the source."""

    name: Leaf
    model: Any
    scope: Scope
    needs: dict[str, None] = field(default_factory=dict[str, None])
    """Names that are passed to it: parameters, and layers that several functions use."""
    lines: list[Line] = field(default_factory=list["Line"])


class Module:
    """Writes the functions that build a model."""

    def __init__(self, graph: Graph, *, exact: bool) -> None:
        """Prepare to write a graph.

        Args:
            graph: The graph of a live model, without edits.
            exact: Whether operations keep their names.
        """
        self.graph = graph
        self.exact = exact
        self.values = Values()
        live = live_of(graph)
        self._own = {id(layer) for layer in internals.all_layers(live.model)}
        self._own |= {id(variable) for variable in live.model.variables}
        self.layers = LayerWriter(self.values, self._known, lambda part: id(part) in self._own)
        self.units: dict[int, _Unit] = {}
        self.order: list[_Unit] = []
        self.pinned: set[int] = set()
        """Identities of layers that the source finds by their names."""
        self.shared: dict[int, Leaf] = {}
        self.named_operations = False
        self.root: _Unit | None = None
        self.unit: _Unit | None = None
        self._names: dict[int, Leaf] = {}
        self._spread, self._tied = shared_layers(graph)
        self._lines: list[Line] = []

    def write(self) -> None:
        """Write all functions; the one for the model itself comes last."""
        self.values.scope.taken.update(("build_model", "name_operations"))
        self.root = self._unit(live_of(self.graph).model, bare_name("build_model"))

    def _unit(self, model: Any, name: Leaf) -> _Unit:
        unit = _Unit(name, model, Scope(self.values.scope))
        if self.root is None:
            self.root = unit
        with self._inside(unit) as used:
            unit.lines += [*self._body(model)]
            for needed in used:
                if needed not in self.shared.values() or unit is not self.root:
                    unit.needs.setdefault(needed)
        self.units[id(model)] = unit
        self.order.append(unit)
        return unit

    @contextmanager
    def _inside(self, unit: _Unit) -> Generator[list[str]]:
        """Write into another function for a while, and yield the names that it uses."""
        outer = self.unit, self._names, self._lines
        self.unit, self._names, self._lines = unit, {}, []
        with self.values.recording() as used, self.layers.owned_by(id(unit.model)):
            yield used
        self.unit, self._names, self._lines = outer

    def _known(self, layer: Any) -> Expr | None:
        """Write a layer that already has a name, or a model that has a function."""
        name = self._names.get(id(layer))
        if name is not None:
            return name
        if id(layer) in self._spread:
            return self._shared(layer)
        if id(layer) in self._tied:
            self._tied.discard(id(layer))
            return self._layer_used(layer, several=True)
        return self._built(layer) if is_container(layer) else None

    def _shared(self, layer: Any) -> Expr:
        """Write the name of a layer that several functions use: the outermost creates it."""
        name = self.shared.get(id(layer))
        if name is None:
            unit, self.unit = self.unit, self.root
            names, self._names = self._names, {}
            name = self.values.scope.new(layer.name)
            spread = self._spread.pop(id(layer))
            written = self.layers.layer(layer)
            self._spread[id(layer)] = spread
            self.shared[id(layer)] = name
            _of(self.root).lines.append(Statement(f"{name} = ", written))
            self.unit, self._names = unit, names
        self.values.used.append(name)
        return name

    def _built(self, model: Any) -> Expr:
        """Write the call of the function that builds a nested model."""
        unit = self.units.get(id(model))
        if unit is None:
            unit = self._unit(model, self.values.scope.new(f"build_{model.name}"))
        self.values.used += unit.needs
        return call(unit.name, **{need: bare_name(need) for need in unit.needs})

    def _body(self, model: Any) -> Iterator[Line]:
        if not is_container(model):
            expr, names = self._own_constructor(model)
        elif isinstance(model, keras.Sequential):
            expr, names = self._sequential(model)
        else:
            expr, names = self._functional(model), []
        yield from self._lines
        flags = flag_lines(model, self._names, self.pinned) if self.unit is self.root else []
        if not names and not flags:
            yield Statement("return ", expr)
            return
        yield Statement("model = ", expr)
        yield from names
        yield from flags
        yield "    return model"

    def _own_constructor(self, model: Any) -> tuple[Expr, list[Line]]:
        """Write a model that builds its graph itself, in the constructor of its class."""
        expr = self.layers.layer(model)
        if not isinstance(expr, Group) or _says_name(expr, model):
            return expr, []
        return expr, [_renaming("model", model)]

    def _sequential(self, model: Any) -> tuple[Expr, list[Line]]:
        items = [
            self.layers.input(layer)
            if isinstance(layer, keras.layers.InputLayer)
            else self._layer_used(layer, several=False)
            for layer in internals.sublayers_of(model)
        ]
        expr = with_name_of(model, call(self._class_of(model), display("[]", items)))
        self.layers.use(model)
        names: list[Line] = []
        function = internals.functional_of(model)
        if function is not None:
            for layer in trace_function(function).layers.values():
                if is_operation(layer.origin):
                    self.layers.use(layer.origin)
            self.layers.use(function, inside=True)
            names = self._naming(function, bare_name("model.inputs"), bare_name("model.outputs"))
        return expr, names

    def _functional(self, model: Any) -> Expr:
        graph = self.graph if model is live_of(self.graph).model else trace_function(model)
        scope = _of(self.unit).scope
        calls = CallWriter(graph, scope, self._lines, self.layers, self._layer_used)
        for key in written_layers(graph):
            layer = graph.layers[key].origin
            if is_container(layer):  # Nested models are usually built first.
                self._model_used(layer)
        calls.write()
        args = [calls.tree(graph.inputs), calls.tree(graph.outputs)]
        self._lines += self._naming(model, calls.flat(graph.inputs), calls.flat(graph.outputs))
        self.layers.use(model)
        return with_name_of(model, call(self._class_of(model), *args))

    def _class_of(self, model: Any) -> Leaf:
        kind = type(model)
        if kind.__name__ == "Functional" and kind.__module__.startswith("keras."):
            return bare_name("keras.Model")
        return self.values.class_name(kind)

    def _naming(self, function: Any, inputs: Expr, outputs: Expr) -> list[Line]:
        """Write the call that names the operations of a graph, if it has any."""
        names = internals.operation_names(function) if self.exact else []
        if not names:
            return []
        self.named_operations = True
        listed = display("[]", [text_of(name) for name in names])
        return [Statement("", call(bare_name("name_operations"), inputs, outputs, listed))]

    def _layer_used(self, layer: Any, *, several: bool) -> Expr:
        """Write a layer where it is called; one that is called again gets a name first."""
        if id(layer) in self._names:
            return self._names[id(layer)]
        if is_operation(layer):
            return self._operation(layer, several=several)
        if is_container(layer):
            return self._model_used(layer)
        written = self.layers.layer(layer)
        if isinstance(written, str):
            return written
        own = not is_container(layer) and id(layer) not in self._spread
        forgets = own and not _says_name(written, layer)
        words = self.layers.vocabulary(layer)
        if not several and not forgets and words is None:
            return written
        name = self._define(layer, written)
        if forgets:
            self._lines.append(_renaming(name, layer))
        if words is not None:
            self._lines.append(Statement("", call(bare_name(f"{name}.set_vocabulary"), words)))
        return name

    def _model_used(self, model: Any) -> Expr:
        """Write a nested model, which gets a name before it is called."""
        if id(model) in self._spread:
            return self._shared(model)
        return self._names.get(id(model)) or self._define(model, self._built(model))

    def _operation(self, operation: Any, *, several: bool) -> Expr:
        """Write an operation that no function of `keras.ops` creates, by its class."""
        try:
            config = internals.live_config(operation)
        except NotImplementedError:
            config = {}
        written = self.values.constructed(type(operation), config, operation, operation.name)
        if not several:
            return written
        self.layers.use(operation)
        return self._define(operation, written)

    def _define(self, layer: Any, written: Expr) -> Leaf:
        """Write a line that gives a layer a name."""
        name = _of(self.unit).scope.new(layer.name)
        self._names[id(layer)] = name
        self._lines.append(Statement(f"{name} = ", written))
        return name


def _of(unit: _Unit | None) -> _Unit:
    assert unit is not None  # noqa: S101 expressions are written inside a function
    return unit


def _renaming(access: str, layer: Any) -> Statement:
    """Write the name of a layer whose constructor has no such argument."""
    counted = base_of(layer.name, type(layer).__name__)
    return Statement(f"{access}.name = ", text_of(layer.name), counted=counted)


def _says_name(written: Group, layer: Any) -> bool:
    own = text_of(layer.name)
    if any(item.keyword == "name" and item.expr == own for item in written.items):
        return True
    head = written.head if isinstance(written.head, Leaf) else ""
    return head.startswith("make_") or head.endswith(".from_config")
