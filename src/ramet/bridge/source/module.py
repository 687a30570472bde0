"""A traced model as a module of source: one function for it, one for each model inside."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.live import live_of
from ramet.bridge.source.expr import (
    Expr,
    Group,
    Item,
    Leaf,
    bare_name,
    call,
    display,
    mapping,
    part_of,
    row,
    text_of,
)
from ramet.bridge.source.flags import flag_lines
from ramet.bridge.source.layers import LayerWriter
from ramet.bridge.source.layout import statement
from ramet.bridge.source.names import Scope, identifier
from ramet.bridge.source.operations import operation_call
from ramet.bridge.source.tensors import Tensors
from ramet.bridge.source.values import Values, public_path
from ramet.bridge.trace import trace_function
from ramet.errors import SourceError
from ramet.graph import Call, Graph, Ref
from ramet.graph.names import is_automatic
from ramet.graph.reach import written_calls
from ramet.graph.tree import Tree, leaves


@dataclass
class _Unit:
    """One function of the source."""

    name: Leaf
    model: Any
    scope: Scope
    needs: dict[str, None] = field(default_factory=dict[str, None])
    """Names that it is given: parameters, and layers that several functions use."""
    lines: list[str] = field(default_factory=list[str])


class Module:
    """Writes the functions that make a model."""

    def __init__(self, graph: Graph) -> None:
        """Takes the graph of a model as it is: one without edits that are to be built."""
        self.graph = graph
        self.values = Values()
        live = live_of(graph)
        self._own = {id(layer) for layer in internals.all_layers(live.model)}
        self._own |= {id(variable) for variable in live.model.variables}
        self.layers = LayerWriter(self.values, self._known, lambda part: id(part) in self._own)
        self.units: dict[int, _Unit] = {}
        self.order: list[_Unit] = []
        self.shared: dict[int, Leaf] = {}
        self.named_operations = False
        self.root: _Unit | None = None
        self.unit: _Unit | None = None
        self._names: dict[int, Leaf] = {}
        self._spread, self._tied = _spread(graph)
        self._lines: list[str] = []

    def write(self) -> None:
        """Writes all functions; the one for the model itself comes last."""
        self.values.scope.taken.update(("build_model", "name_operations"))
        self.root = self._unit(live_of(self.graph).model, bare_name("build_model"))

    def _unit(self, model: Any, called: Leaf) -> _Unit:
        made = _Unit(called, model, Scope(self.values.scope))
        outer, self.unit = self.unit, made
        outer_names, self._names = self._names, {}
        outer_lines, self._lines = self._lines, []
        used, self.values.used = self.values.used, []
        if self.root is None and outer is None:
            self.root = made
        body = [*self._body(model)]
        made.lines += body
        for needed in self.values.used:
            if needed not in self.shared.values() or made is not self.root:
                made.needs.setdefault(needed)
        self.unit, self._names, self.values.used = outer, outer_names, used
        self._lines = outer_lines
        self.units[id(model)] = made
        self.order.append(made)
        return made

    def _known(self, layer: Any) -> Expr | None:
        """Writes a layer that has a name already, or a model that has a function."""
        found = self._names.get(id(layer))
        if found is not None:
            return found
        if id(layer) in self._spread:
            return self._shared(layer)
        if id(layer) in self._tied:
            self._tied.discard(id(layer))
            return self._layer_used(layer, self._lines, several=True)
        return self._built(layer) if _is_container(layer) else None

    def _shared(self, layer: Any) -> Expr:
        """Writes the name of a layer that several functions use: the outermost makes it."""
        name = self.shared.get(id(layer))
        if name is None:
            unit, self.unit = self.unit, self.root
            names, self._names = self._names, {}
            name = self.values.scope.new(layer.name)
            spread = self._spread.pop(id(layer))
            written = self.layers.layer(layer)
            self._spread[id(layer)] = spread
            self.shared[id(layer)] = name
            assert self.root is not None  # noqa: S101 it is made before anything else
            self.root.lines += statement(f"{name} = ", written)
            self.unit, self._names = unit, names
        self.values.used.append(name)
        return name

    def _built(self, model: Any) -> Expr:
        """Writes the call of the function that makes a model inside of another one."""
        unit = self.units.get(id(model))
        if unit is None:
            unit = self._unit(model, self.values.scope.new(f"build_{model.name}"))
        self.values.used += unit.needs
        return call(unit.name, **{need: bare_name(need) for need in unit.needs})

    def _body(self, model: Any) -> Iterator[str]:
        if not _is_container(model):
            lines, expr, names = self._own_constructor(model)
        elif isinstance(model, keras.Sequential):
            lines, expr, names = self._sequential(model)
        else:
            lines, expr, names = self._functional(model)
        yield from lines
        flags = flag_lines(model) if self.unit is self.root else []
        if not names and not flags:
            yield from statement("return ", expr)
            return
        yield from statement("model = ", expr)
        yield from names
        yield from flags
        yield "    return model"

    def _own_constructor(self, model: Any) -> tuple[list[str], Expr, list[str]]:
        """Writes a model that makes its graph itself, in the constructor of its class."""
        expr = self.layers.layer(model)
        named = not isinstance(expr, Group) or _says_name(expr, model)
        return [], expr, [] if named else [f"    model.name = {text_of(model.name)}"]

    def _sequential(self, model: Any) -> tuple[list[str], Expr, list[str]]:
        lines = self._lines
        items: list[Expr] = []
        for layer in internals.sublayers_of(model):
            if isinstance(layer, keras.layers.InputLayer):
                items.append(self._input(layer))
            else:
                items.append(self._layer_used(layer, lines, several=False))
        expr = call(self._class_of(model), display("[]", items), name=text_of(model.name))
        names: list[str] = []
        function = internals.functional_of(model)
        if function is not None:
            names = self._naming(function, bare_name("model.inputs"), bare_name("model.outputs"))
        return lines, expr, names

    def _class_of(self, model: Any) -> Leaf:
        kind = type(model)
        if kind.__name__ == "Functional" and kind.__module__.startswith("keras."):
            return bare_name("keras.Model")
        return self.values.class_name(kind)

    def _functional(self, model: Any) -> tuple[list[str], Expr, list[str]]:
        graph = self.graph if model is live_of(self.graph).model else trace_function(model)
        calls = written_calls(graph)
        scope = _of(self.unit).scope
        tensors = Tensors(scope, calls, graph.outputs)
        lines = self._lines
        block: str | None = None
        inputs = set(leaves(graph.inputs))
        counts = _counts(calls)
        for position, made in enumerate(calls):
            if not made.refs and (made.layer is None or Ref(made.name) in inputs):
                self._write_input(graph, made, tensors, lines)
                continue
            begun = _block_of(made.name)
            if lines and begun != block and begun is not None:
                lines.append("")
            block = begun
            several = counts[made.layer or ""] > 1
            lines += self._call_lines(graph, made, position, tensors, several=several)
        args = [self._tree(graph.inputs, tensors), self._tree(graph.outputs, tensors)]
        flat_names = [
            display("[]", list(dict.fromkeys(tensors.names[ref] for ref in leaves(tree))))
            for tree in (graph.inputs, graph.outputs)
        ]
        lines += self._naming(model, *flat_names)
        return lines, call(self._class_of(model), *args, name=text_of(model.name)), []

    def _naming(self, function: Any, inputs: Expr, outputs: Expr) -> list[str]:
        """Writes the call that names the operations of a graph, if it has any."""
        found = internals.operation_names(function)
        if not found:
            return []
        self.named_operations = True
        names = display("[]", [text_of(name) for name in found])
        return statement("", call(bare_name("name_operations"), inputs, outputs, names))

    def _write_input(self, graph: Graph, made: Call, tensors: Tensors, lines: list[str]) -> None:
        single = isinstance(graph.inputs, Ref)
        automatic = is_automatic(made.name, "InputLayer") or made.layer is None
        wanted = "inputs" if single and automatic else made.name
        name = tensors.scope.new(wanted)
        tensors.names[Ref(made.name)] = name
        if made.layer is None:
            spec = made.outputs[0]
            expr = call(
                bare_name("keras.KerasTensor"),
                self.values.constant(spec.shape, made.name),
                dtype=text_of(spec.dtype),
                name=text_of(spec.name),
            )
        else:
            expr = self._input(graph.layers[made.layer].origin)
        lines += statement(f"{name} = ", expr)

    def _input(self, layer: Any) -> Expr:
        """Writes `keras.Input` for an input layer."""
        config = layer.get_config()
        shape = tuple(config["batch_shape"])
        options: dict[str, Any] = {}
        if not shape or shape[0] is not None:
            options["batch_shape"] = shape
        if config["dtype"] != "float32":
            options["dtype"] = config["dtype"]
        options |= {key: True for key in ("sparse", "ragged", "optional") if config.get(key, False)}
        named = {key: self.values.constant(value, layer.name) for key, value in options.items()}
        given = [] if "batch_shape" in options else [self.values.constant(shape[1:], layer.name)]
        return call(bare_name("keras.Input"), *given, **named, name=text_of(layer.name))

    def _call_lines(
        self, graph: Graph, made: Call, position: int, tensors: Tensors, *, several: bool
    ) -> list[str]:
        layer = graph.layers[made.layer or ""].origin

        def write(value: Any) -> Expr:
            return self._tree(value, tensors, made.name)

        kwargs = {k: v for k, v in made.kwargs.items() if k not in made.derived}
        plain = not isinstance(layer, keras.Layer) and not _is_container(layer)
        written = None
        if plain and not several:
            written = operation_call(graph, made, layer, write)
        if written is None:
            head = self._layer_used(layer, self._lines, several=several)
            names = {k: write(v) for k, v in kwargs.items()}
            written = call(head, *map(write, made.args), **names)
        target, written = self._targets(graph, made, position, tensors, written)
        return statement(f"{target} = ", written)

    def _targets(
        self, graph: Graph, made: Call, position: int, tensors: Tensors, written: Expr
    ) -> tuple[Leaf, Expr]:
        """Names what a call makes: one tensor, several in a row, or a structure of them."""
        layer = graph.layers[made.layer or ""]
        name = identifier(layer.name)
        structure = None if layer.graph is None else layer.graph.outputs
        count = len(made.outputs)
        if count == 1 and (structure is None or isinstance(structure, Ref)):
            return tensors.name(Ref(made.name), position, name), written
        if structure is not None and not _is_row(structure):
            whole = tensors.scope.new(name)
            for index, (path, _) in enumerate(keras.tree.flatten_with_path(structure)):
                steps = [self.values.constant(step, name) for step in path]
                tensors.names[Ref(made.name, index)] = part_of(whole, steps)
            return whole, written
        targets = [
            tensors.name(Ref(made.name, index), position, f"{name}_{index}")
            if tensors.is_read(Ref(made.name, index))
            else bare_name("_")
            for index in range(count)
        ]
        custom = isinstance(layer.origin, keras.Layer) and not public_path(type(layer.origin))
        if structure is None and custom:
            written = call(bare_name("keras.tree.flatten"), written)
        return row(targets), written

    def _layer_used(self, layer: Any, lines: list[str], *, several: bool) -> Expr:
        """Writes a layer where it is called; one that is called again gets a name first."""
        if id(layer) in self._names:
            return self._names[id(layer)]
        if not isinstance(layer, keras.Layer) and not _is_container(layer):
            return self._operation(layer, lines, several=several)
        written = self.layers.layer(layer)
        if isinstance(written, str):
            return written
        own = not _is_container(layer) and id(layer) not in self._spread
        forgets = own and not _says_name(written, layer)
        words = self.layers.vocabulary(layer)
        if not several and not forgets and words is None:
            return written
        name = _of(self.unit).scope.new(layer.name)
        self._names[id(layer)] = name
        lines += statement(f"{name} = ", written)
        if forgets:
            lines.append(f"    {name}.name = {text_of(layer.name)}")
        if words is not None:
            lines += statement("", call(bare_name(f"{name}.set_vocabulary"), words))
        return name

    def _operation(self, operation: Any, lines: list[str], *, several: bool) -> Expr:
        """Writes an operation that `keras.ops` does not make, by its class."""
        try:
            config = operation.get_config()
        except NotImplementedError:
            config = {}
        written = self.values.made(type(operation), config, operation, operation.name)
        if not several:
            return written
        name = _of(self.unit).scope.new(operation.name)
        self._names[id(operation)] = name
        lines += statement(f"{name} = ", written)
        return name

    def _tree(self, tree: Tree, tensors: Tensors, where: str = "model") -> Expr:
        if isinstance(tree, Ref):
            return tensors.names[tree]
        if type(tree) is dict or (isinstance(tree, dict) and _is_tracked(tree)):
            keys = [self.values.constant(key, where) for key in tree]
            items = [self._tree(item, tensors, where) for item in tree.values()]
            return mapping(zip(keys, items, strict=True))
        if type(tree) in (list, tuple) or (isinstance(tree, list) and _is_tracked(tree)):
            items = [self._tree(item, tensors, where) for item in tree]
            return display("[]" if isinstance(tree, list) else "()", items)
        if any(isinstance(leaf, Ref) for leaf in leaves(tree)):
            message = (
                f"call '{where}' has tensors in a {type(tree).__name__}, which has no source; "
                "use a dict, list or tuple"
            )
            raise SourceError(message)
        return self.values.constant(tree, where)


def _is_tracked(tree: Tree) -> bool:
    """Tells whether a container is Keras's own in place of the one that its author wrote."""
    return type(tree).__module__.startswith("keras.")


def _of(unit: _Unit | None) -> _Unit:
    assert unit is not None  # noqa: S101 expressions are written inside of a function
    return unit


def _says_name(written: Group, layer: Any) -> bool:
    if Item(text_of(layer.name), keyword="name") in written.items:
        return True
    head = written.head if isinstance(written.head, Leaf) else ""
    return head.startswith("make_") or head.endswith(".from_config")


def _is_row(structure: Tree) -> bool:
    return isinstance(structure, (list, tuple)) and all(isinstance(i, Ref) for i in structure)


def _is_container(model: Any) -> bool:
    """Tells whether a model is made by its graph or its layers, not by its own constructor."""
    if not internals.is_container(model):
        return False
    kind = type(model)
    if kind.__module__.startswith("keras."):
        return True
    own = next(base for base in kind.__mro__ if "__init__" in vars(base))
    if own.__module__.startswith("keras."):
        return True
    kinds = {p.kind for p in inspect.signature(kind.__init__).parameters.values()}
    return inspect.Parameter.VAR_POSITIONAL in kinds and inspect.Parameter.VAR_KEYWORD in kinds


def _counts(calls: list[Call]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for made in calls:
        counts[made.layer or ""] = counts.get(made.layer or "", 0) + 1
    return counts


def _block_of(name: str) -> str | None:
    """Returns the block that a layer belongs to by its name: `conv2_block1_bn`, say."""
    parts = name.split("_")
    heads = [i for i, part in enumerate(parts[:-1]) if part.startswith(("block", "stage", "stem"))]
    return "_".join(parts[: heads[0] + 1]) if heads else None


def _spread(graph: Graph) -> tuple[dict[int, Any], set[int]]:
    """Returns the layers that more than one function calls, and those that others hold."""
    where: dict[int, set[int]] = {}
    live: dict[int, Any] = {}
    waiting, done = [graph], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in done:
            continue
        done.add(id(one))
        for layer in one.layers.values():
            if isinstance(layer.origin, keras.layers.InputLayer):
                continue
            live[id(layer.origin)] = layer.origin
            where.setdefault(id(layer.origin), set()).add(id(one))
            if layer.graph is not None and _is_container(layer.origin):
                waiting.append(layer.graph)
    spread = {key: live[key] for key, graphs in where.items() if len(graphs) > 1}
    held = {
        id(part)
        for layer in live.values()
        if isinstance(layer, keras.Layer) and not _is_container(layer)
        for part in internals.all_layers(layer)[1:]
    }
    return spread, held & live.keys() - spread.keys()
