"""`clone_model`: a model rebuilt by calling new layers in the order of its graph.

One user function makes the layers, another calls them, and Keras infers shapes, dtypes
and masks. The tensors that the calls return become the graph of a copy of the model
object, as in `builder.py`.
"""

from collections.abc import Callable
from typing import Any, cast

import keras

from ramet import keras_internals as internals
from ramet.building.finish import check_function, compile_alike
from ramet.building.replay import copied_arguments
from ramet.copying.deep_copy import Copier
from ramet.copying.from_config import remake
from ramet.copying.models import copy_fresh
from ramet.errors import GraphError, OptionError
from ramet.graph import Call, Graph, Ref
from ramet.graph.interpret import CallLoop
from ramet.graph.names import counted
from ramet.graph.reach import written_calls
from ramet.graph.tree import Tree, leaves, map_tree
from ramet.tracing.options import is_constructed, unconstructed
from ramet.tracing.origin import live_of
from ramet.tracing.trace import has_graph, trace


class LayerwiseClone:
    """One call of `clone_model`: nested models are cloned with the same new layers."""

    def __init__(
        self,
        *,
        clone_function: Callable[[Any], Any] | None,
        call_function: Callable[..., Any] | None,
        recursive: bool,
    ) -> None:
        """Start with no layer made; for the arguments see `ramet.clone_model`."""
        for name, function in (
            ("clone_function", clone_function),
            ("call_function", call_function),
        ):
            if function is not None and not callable(function):
                message = f"{name} must be a function, got {_shown(function)}"
                raise OptionError(message)
        self._clone_function = clone_function or _default_clone
        self._call_function = call_function or _default_call
        self._recursive = recursive
        self._layers: dict[int, Any] = {}
        """New layers, by the ids of the old ones."""
        self._alive: list[Any] = []
        """The old layers, so that no other object gets one of their ids."""
        self._reused: list[tuple[Any, int, int]] = []
        """Layers that the user's function returned as they are, with the calls that they had."""

    def clone(self, model: Any, input_tensors: Any = None) -> Any:
        """Return a model like another one, with new layers, on new inputs.

        If that fails, calls that were made of the source's own layers are undone.
        """
        try:
            if has_graph(model):
                return self._clone_graph(model, input_tensors)
            return self._clone_unbuilt(model, input_tensors)
        except Exception:
            for layer, calls, uses in self._reused:
                internals.forget_calls(layer, calls, uses)
            raise

    def _clone_graph(self, model: Any, input_tensors: Any = None) -> Any:
        graph = trace(model)
        live = live_of(graph)
        copier = Copier("copy")
        copier.skip(model, internals.COMPILE_FIELDS)
        inputs = self._inputs(graph, copier, input_tensors)
        calls = _NewCalls(self, graph, copier)
        calls.start(inputs)
        calls.make_calls(written_calls(graph))
        for layer in internals.sublayers_of(model):
            if id(layer) not in copier.memo:
                self.new_layer(layer)
        outputs = calls.filled(graph.outputs)
        for old, new in self._layers.items():
            copier.memo[old] = new
        copier.give_graph(live.function, inputs, outputs)
        twin = _copy_model(copier, model)
        check_function(twin, "let the functions give every new layer a name of its own")
        twin = internals.adopt_layers(twin, [*self._layers.values()])
        compile_alike(model, twin, lambda value: _copied(copier, value))
        return twin

    def _clone_unbuilt(self, model: Any, input_tensors: Any = None) -> Any:
        """Return a copy of a Sequential model that has no graph yet, made of new layers."""
        if self._call_function is not _default_call and input_tensors is None:
            message = (
                f"Sequential model '{model.name}' has not been built, so there are no "
                "calls for call_function yet; build it or pass input_tensors"
            )
            raise OptionError(message)
        copier = Copier("copy")
        copier.skip(model, internals.COMPILE_FIELDS)
        for layer in internals.sublayers_of(model):
            if not isinstance(layer, keras.layers.InputLayer):
                copier.memo[id(layer)] = self.new_layer(layer)
        twin = _copy_model(copier, model)
        if input_tensors is not None:
            inputs = outputs = _as_input(_only_tensor(model, input_tensors))
            for layer in twin.layers:
                outputs = self.call_layer(
                    layer, (outputs,), {}, f"'{layer.name}' of '{model.name}'"
                )
                _check_are_tensors([outputs], layer.name)
            internals.set_functional(twin, inputs, outputs)
            twin = internals.adopt_layers(twin, [])
        compile_alike(model, twin, lambda value: _copied(copier, value))
        return twin

    def _inputs(self, graph: Graph, copier: Copier, input_tensors: Any) -> Tree:
        """Return the new model's inputs, in the structure of the old ones."""
        if input_tensors is None:
            return map_tree(lambda ref: _copied(copier, _live_tensor(graph, ref)), graph.inputs)
        old, new = list(leaves(graph.inputs)), keras.tree.flatten(input_tensors)
        for tensor in new:
            if not isinstance(tensor, keras.KerasTensor):
                message = (
                    f"input_tensors of model '{graph.name}' must be symbolic Keras "
                    f"tensors, got a {type(tensor).__name__}; make one with "
                    "keras.Input(shape)"
                )
                raise OptionError(message)
        if len(old) == len(new) == 1:
            return map_tree(lambda _: _as_input(new[0]), graph.inputs)
        _check_structure(graph, input_tensors)
        refs = keras.tree.flatten(graph.inputs)
        by_ref = dict(zip(refs, map(_as_input, new), strict=True))
        return map_tree(by_ref.__getitem__, graph.inputs)

    def call_layer(self, layer: Any, args: Any, kwargs: Any, where: str) -> Any:
        """Call a new layer with the user's function."""
        try:
            return self._call_function(layer, *args, **kwargs)
        except Exception as error:
            error.add_note(f"while calling layer {where}")
            raise

    def new_layer(self, origin: Any) -> Any:
        """Return the new layer for an old one, the same one every time."""
        if id(origin) not in self._layers:
            try:
                layer = self._layers[id(origin)] = self._make_layer(origin)
            except Exception as error:
                error.add_note(f"while cloning layer '{origin.name}'")
                raise
            self._alive.append(origin)
            if layer is origin:
                self._reused.append((origin, *internals.count_calls(origin)))
            _check_is_layer(layer, origin)
        return self._layers[id(origin)]

    def _make_layer(self, origin: Any) -> Any:
        nested = isinstance(origin, keras.Model) and internals.is_container(origin)
        if not (self._recursive and nested):
            return self._clone_function(origin)
        return self._clone_graph(origin) if has_graph(origin) else self._clone_unbuilt(origin)


class _NewCalls(CallLoop):
    """Makes the calls of one graph on new layers; values are symbolic tensors."""

    def __init__(self, clone: LayerwiseClone, graph: Graph, copier: Copier) -> None:
        super().__init__(graph)
        self._clone = clone
        self._copier = copier
        users = {ref: f"'{c.name}'" for c in written_calls(graph) for ref in c.written_refs}
        self._users = users | dict.fromkeys(leaves(graph.outputs), "the model's outputs")

    def start(self, inputs: Tree) -> None:
        """Use the inputs of the new model in the place of the old ones."""
        flat = (keras.tree.flatten(tree) for tree in (self.graph.inputs, inputs))
        self.values.update(zip(*flat, strict=True))
        for ref, tensor in self.values.items():
            self._replace(_live_tensor(self.graph, ref), tensor)

    def step(self, call: Call) -> None:
        """Call the new layer of a call."""
        record = self.graph.layers[cast("str", call.layer)]
        layer = self._clone.new_layer(record.origin)
        args, kwargs = copied_arguments(
            self._copier, self.graph, call, (call.args, call.written), self.values
        )
        where = f"'{record.name}' of '{self.graph.name}'"
        outputs = keras.tree.flatten(self._clone.call_layer(layer, args, kwargs, where))
        _check_are_tensors(outputs, record.name)
        outputs = outputs[: len(call.outputs)]
        self.keep(call, outputs)
        for old, new in zip(call.origin.tensors, outputs, strict=False):
            self._replace(old, new)
        self._check_outputs(call)

    def _replace(self, old: Any, new: Any) -> None:
        """Use a symbolic tensor as the copy of another; of an input, its layer too."""
        self._copier.memo[id(old)] = new
        if internals.is_input(old) and internals.is_input(new):
            self._copier.memo[id(internals.maker(old))] = internals.maker(new)

    def _check_outputs(self, call: Call) -> None:
        """Check that a call returned every output that is used."""
        refs = [Ref(call.name, index) for index in range(len(call.outputs))]
        count = sum(ref in self.values for ref in refs)
        for ref in refs:
            if ref in self._users and ref not in self.values:
                message = (
                    f"layer '{call.name}' of '{self.graph.name}' now returns "
                    f"{counted(count, 'output')}, but its output {ref.index} is used by "
                    f"{self._users[ref]}; let it return {counted(len(call.outputs), 'output')}"
                )
                raise GraphError(message)


def _copied(copier: Copier, value: Any) -> Any:
    """Return the copy of an object, filled; of a symbolic tensor, with all calls above it."""
    twin = copier.copy(value)
    copier.drain()
    return twin


def _copy_model(copier: Copier, model: Any) -> Any:
    """Copy a model, and map the graphs that were built for it."""
    twin = copier.copy_whole(model)
    for function in copier.graphs.built_elsewhere:
        internals.map_graph(function)
    return twin


def _live_tensor(graph: Graph, ref: Ref) -> Any:
    return graph.calls[ref.call].origin.tensors[ref.index]


def _check_is_layer(layer: Any, origin: Any) -> None:
    if not isinstance(layer, keras.Operation):
        message = (
            f"clone_function returned {_shown(layer)} for layer '{origin.name}'; let it "
            "return a layer: a new one, or the old one itself"
        )
        raise OptionError(message)
    if not is_constructed(layer):
        raise OptionError(f"clone_function for layer '{origin.name}': {unconstructed(layer)}")


def _check_are_tensors(outputs: list[Any], layer: str) -> None:
    for output in outputs:
        if not isinstance(output, keras.KerasTensor):
            message = (
                f"calling layer '{layer}' returned {_shown(output)} among its outputs; let "
                "call_function return what the layer returns: symbolic tensors"
            )
            raise OptionError(message)


def _shown(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _as_input(tensor: Any) -> Any:
    """Return a Keras input as it is, and a new input like any other tensor."""
    if internals.is_input(tensor):
        return tensor
    return keras.Input(
        batch_shape=tensor.shape,
        dtype=tensor.dtype,
        sparse=tensor.sparse,
        name=f"input_wrapper_for_{tensor.name}",
    )


def _check_structure(graph: Graph, input_tensors: Any) -> None:
    def names(tree: Any) -> Any:
        return keras.tree.map_structure(lambda tensor: tensor.name, tree)

    live = live_of(graph)
    expected = internals.structures_of(live.function)[0]
    try:
        keras.tree.assert_same_structure(input_tensors, expected)
    except ValueError as error:
        message = (
            "`input_tensors` must have the same structure as model.input of "
            f"'{graph.name}': expected {names(expected)}, got {names(input_tensors)}"
        )
        raise OptionError(message) from error


def _only_tensor(model: Any, input_tensors: Any) -> Any:
    """Return the one symbolic tensor that a Sequential model can be built on."""
    tensors = keras.tree.flatten(input_tensors)
    if len(tensors) != 1 or not isinstance(tensors[0], keras.KerasTensor):
        types = ", ".join(type(tensor).__name__ for tensor in tensors)
        message = (
            f"Sequential model '{model.name}' has one input, but input_tensors holds "
            f"{types or 'nothing'}; pass one symbolic tensor, such as keras.Input(shape)"
        )
        raise OptionError(message)
    return tensors[0]


def _default_call(layer: Any, *args: Any, **kwargs: Any) -> Any:
    return layer(*args, **kwargs)


def _default_clone(layer: Any) -> Any:
    """Re-create a layer from its config, unbuilt; copy one that has no config."""
    if not internals.is_adapted(layer):
        twin = remake(layer, built=False)
        if twin is not None:
            return twin
    return copy_fresh(layer)
