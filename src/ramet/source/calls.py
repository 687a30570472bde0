"""The calls of a graph as statements, one line each."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras

from ramet.errors import SourceError
from ramet.graph import Call, Graph, Ref
from ramet.graph.names import is_automatic
from ramet.graph.reach import written_calls
from ramet.graph.tree import Tree, leaves
from ramet.source.constructors import LayerWriter
from ramet.source.expr import (
    Expr,
    Group,
    Leaf,
    bare_name,
    call,
    display,
    mapping,
    part_of,
    row,
    text_of,
)
from ramet.source.lines import Line, Statement, fits
from ramet.source.names import Scope, identifier
from ramet.source.operations import operation_call, operator_form
from ramet.source.shared import block_of, is_operation
from ramet.source.tensors import Tensors
from ramet.source.values import public_path
from ramet.source.waiting import FORMS, Form, Waiting


class CallWriter:
    """Writes the calls of one graph into the lines of a function."""

    def __init__(
        self,
        graph: Graph,
        scope: Scope,
        lines: list[Line],
        layers: LayerWriter,
        write_layer: Callable[..., Expr],
    ) -> None:
        """Prepare to write.

        Args:
            graph: The graph.
            scope: The names of the function.
            lines: The lines of the function, to which statements are appended.
            layers: Writes constructors, and records which layers the source creates.
            write_layer: Writes a layer where it is called: `write_layer(layer, several=...)`,
                where `several` says that it is called more than once.
        """
        self._graph = graph
        self._lines = lines
        self._layers = layers
        self._write_layer = write_layer
        self._calls = written_calls(graph)
        self._tensors = Tensors(scope, self._calls, graph.outputs)
        self._derived = {*graph.calls} - {step.name for step in self._calls}
        """The calls that no line makes, until they are recorded as used."""
        self._waiting = Waiting(self._tensors, self._assign)
        self._block: str | None = None

    def write(self) -> None:
        """Write all calls, with an empty line before each block."""
        inputs = set(leaves(self._graph.inputs))
        counts = Counter(step.layer for step in self._calls)
        for position, step in enumerate(self._calls):
            self._use_derived(step.refs)
            if not step.refs and (step.layer is None or Ref(step.name) in inputs):
                self._waiting.settle()
                self._lines.append(self._input_line(step))
                continue
            several = counts[step.layer] > 1
            if several or not self._write_operation(step, position):
                self._write_layer_call(step, position, several=several)
            self._use_derived(spec.mask for spec in step.outputs if isinstance(spec.mask, Ref))

    def tree(self, tree: Tree, where: str = "model") -> Expr:
        """Write a structure of tensors and constants.

        Raises:
            SourceError: If tensors are in a container that has no source.
        """
        if isinstance(tree, Ref):
            return self._tensors.names[tree]
        if type(tree) is dict or (isinstance(tree, dict) and _is_tracked(tree)):
            keys = [self._layers.values.constant(key, where) for key in tree]
            items = [self.tree(item, where) for item in tree.values()]
            return mapping(zip(keys, items, strict=True))
        if type(tree) in (list, tuple) or (isinstance(tree, list) and _is_tracked(tree)):
            items = [self.tree(item, where) for item in tree]
            return display("[]" if isinstance(tree, list) else "()", items)
        if any(isinstance(leaf, Ref) for leaf in leaves(tree)):
            message = (
                f"call '{where}' has tensors in a {type(tree).__name__}, which has no source; "
                "use a dict, list or tuple"
            )
            raise SourceError(message)
        return self._layers.values.constant(tree, where)

    def flat(self, tree: Tree) -> Expr:
        """Write a list of the tensors in a structure, each once."""
        return display("[]", list(dict.fromkeys(self._tensors.names[ref] for ref in leaves(tree))))

    def _use_derived(self, refs: Iterable[Ref]) -> None:
        """Record the operations that Keras creates for masks, in the order in which it does.

        Args:
            refs: The inputs of a call, or the masks that it computes.
        """
        reached: set[str] = set()
        waiting = [ref.call for ref in refs]
        while waiting:
            name = waiting.pop()
            if name in self._derived and name not in reached:
                reached.add(name)
                waiting += [ref.call for ref in self._graph.calls[name].refs]
        for name in [name for name in self._graph.calls if name in reached] if reached else []:
            origin = self._graph.layers[self._graph.calls[name].layer or ""].origin
            self._layers.use(origin, inside=not is_operation(origin))
        self._derived -= reached

    def _input_line(self, step: Call) -> Statement:
        single = isinstance(self._graph.inputs, Ref)
        automatic = step.layer is None or is_automatic(step.name, "InputLayer")
        automatic = automatic or step.name.startswith("keras_tensor")
        wanted = "inputs" if single and automatic else step.name
        name = self._tensors.scope.new(wanted)
        self._tensors.names[Ref(step.name)] = name
        if step.layer is None:
            spec = step.outputs[0]
            expr = call(
                bare_name("keras.KerasTensor"),
                self._layers.values.constant(spec.shape, step.name),
                dtype=text_of(spec.dtype),
                name=text_of(spec.name),
            )
        else:
            expr = self._layers.input(self._graph.layers[step.layer].origin)
        return Statement(f"{name} = ", expr)

    def _write_layer_call(self, step: Call, position: int, *, several: bool) -> None:
        """Write the call of a layer, or of an operation that no function creates."""
        self._waiting.join(step, ("index",))
        self._waiting.finish()
        self._begin(step)
        layer = self._graph.layers[step.layer or ""].origin
        if is_operation(layer) and not several:
            self._layers.use(layer)
        head = self._write_layer(layer, several=several)  # It may write lines of its own first.
        args = [self.tree(value, step.name) for value in step.args]
        names = {key: self.tree(value, step.name) for key, value in step.written.items()}
        self._assign(step, position, call(head, *args, **names))

    def _write_operation(self, step: Call, position: int) -> bool:
        """Write an operation with an operator, an index or a function; return whether it is one.

        A short one that is used once waits for the next expression.
        """
        layer = self._graph.layers[step.layer or ""].origin
        expr = self._operation(step, layer) if is_operation(layer) else None
        if expr is None:
            return False
        self._layers.use(layer)
        form: Form = "call" if isinstance(expr, Group) else "operator"
        if isinstance(expr, Leaf) and _is_index(layer):
            form = "index"
        if not self._waiting.add(step, position, expr, form):
            self._waiting.finish()
            self._assign(step, position, expr)
        return True

    def _operation(self, step: Call, operation: Any) -> Expr | None:
        """Return the shortest form of an operation that fits on a line, or the call of a function.

        Expressions that wait are put into it where that reads well.
        """

        def write(value: Any) -> Expr:
            return self.tree(value, step.name)

        brief: Sequence[Form] = FORMS if len(step.written_refs) > 1 else ("index", "operator")
        if _is_index(operation):
            brief = ("call",)
        for forms, form_of in (
            (FORMS, operator_form),
            (brief, operation_call),
            ((), operator_form),
            ((), operation_call),
        ):
            self._waiting.join(step, forms)
            expr = form_of(self._graph, step, operation, write)
            is_last = form_of is operation_call and not self._waiting.joined
            if expr is not None and (is_last or self._is_short(step, expr)):
                return expr
        return None

    def _is_short(self, step: Call, expr: Expr) -> bool:
        """Whether an assignment fits on one line, whatever the name will be."""
        name = identifier(self._graph.layers[step.layer or ""].name)
        return fits(max(f"{name}_99", "outputs", key=len), expr)

    def _begin(self, step: Call) -> None:
        """Write an empty line if a call is the first of a block."""
        block = block_of(step.name)
        if self._lines and block != self._block and block is not None:
            self._lines.append("")
        self._block = block

    def _assign(self, step: Call, position: int, expr: Expr) -> None:
        """Write a call as a statement."""
        self._begin(step)
        target, expr = self._targets(step, position, expr)
        self._lines.append(Statement(f"{target} = ", expr))

    def _targets(self, step: Call, position: int, written: Expr) -> tuple[Leaf, Expr]:
        """Name the outputs of a call: one tensor, several in a row, or a structure of them."""
        layer = self._graph.layers[step.layer or ""]
        name = identifier(layer.name)
        structure = None if layer.graph is None else layer.graph.outputs
        count = len(step.outputs)
        if count == 1 and (structure is None or isinstance(structure, Ref)):
            return self._tensors.name(Ref(step.name), position, name), written
        if structure is not None and not _is_row(structure):
            whole = self._tensors.scope.new(name)
            for index, (path, _) in enumerate(keras.tree.flatten_with_path(structure)):
                keys = [self._layers.values.constant(key, name) for key in path]
                self._tensors.names[Ref(step.name, index)] = part_of(whole, keys)
            return whole, written
        targets = [
            self._tensors.name(Ref(step.name, index), position, f"{name}_{index}")
            if self._tensors.is_read(Ref(step.name, index))
            else bare_name("_")
            for index in range(count)
        ]
        custom = isinstance(layer.origin, keras.Layer) and not public_path(type(layer.origin))
        if structure is None and custom:
            written = call(bare_name("keras.tree.flatten"), written)
        return row(targets), written


def _is_index(operation: Any) -> bool:
    """Whether an operation is an index: `x[:, 0]`."""
    return type(operation).__name__ == "GetItem"


def _is_tracked(tree: Tree) -> bool:
    """Whether Keras put a container of its own in place of the one that the user wrote."""
    return type(tree).__module__.startswith("keras.")


def _is_row(structure: Tree) -> bool:
    return isinstance(structure, (list, tuple)) and all(isinstance(i, Ref) for i in structure)
