"""A graph made again by calling its layers, which may have become others.

This is the way of `clone_model`: a user's function makes the layers, another
calls them, and shapes, dtypes and masks are inferred anew. What the calls give
is put into a copy of the model object, like in `build`.
"""

from collections.abc import Callable
from typing import Any, cast

import keras

from ramet.bridge import internals
from ramet.bridge.copies import Builder, copy_fresh
from ramet.bridge.live import live_of
from ramet.bridge.remake import remake
from ramet.bridge.replay import Replayer
from ramet.bridge.settle import check_function, compile_alike
from ramet.bridge.trace import has_graph, trace
from ramet.errors import GraphError, OptionError
from ramet.graph import Call, Graph, Ref
from ramet.graph.names import counted
from ramet.graph.reach import written_calls
from ramet.graph.tree import Tree, leaves, map_tree


class Rerun:
    """Runs graphs on new layers; one instance per call of `clone_model`."""

    def __init__(
        self,
        *,
        clone_function: Callable[[Any], Any] | None,
        call_function: Callable[..., Any] | None,
        recursive: bool,
    ) -> None:
        """Remembers the user's functions; see `ramet.clone_model`."""
        for name, given in (("clone_function", clone_function), ("call_function", call_function)):
            if given is not None and not callable(given):
                message = f"{name} must be a function, got {_shown(given)}"
                raise OptionError(message)
        self._clone_function = clone_function or _default_clone
        self._call_function = call_function or _default_call
        self._recursive = recursive
        self._made: dict[int, Any] = {}
        self._kept: list[Any] = []
        self._reused: list[tuple[Any, int, int]] = []

    def clone(self, model: Any, input_tensors: Any = None) -> Any:
        """Makes a model like the given one of new layers, on new inputs.

        If that fails, layers of the source that the user's function reused lose the
        calls that were made of them.
        """
        try:
            if has_graph(model):
                return self._model(model, input_tensors)
            return self._unbuilt(model, input_tensors)
        except Exception:
            for layer, calls, uses in self._reused:
                internals.forget_calls(layer, calls, uses)
            raise

    def _model(self, model: Any, input_tensors: Any = None) -> Any:
        graph = trace(model)
        live = live_of(graph)
        builder = Replayer("copy")
        builder.copier.skip(model, internals.COMPILE_FIELDS)
        inputs = self._inputs(graph, builder, input_tensors)
        flat = (keras.tree.flatten(tree) for tree in (graph.inputs, inputs))
        tensors: dict[Ref, Any] = dict(zip(*flat, strict=True))
        for ref, tensor in tensors.items():
            builder.put(_live_tensor(graph, ref), tensor)
        users = _users(graph)
        for call in written_calls(graph):
            if Ref(call.name) not in tensors:
                self._run(graph, call, builder, tensors)
                _check_outputs(graph, call, tensors, users)
        for layer in internals.sublayers_of(model):
            if id(layer) not in builder.copier.memo:
                self._new_layer(layer)
        outputs = map_tree(tensors.__getitem__, graph.outputs)
        for old, new in self._made.items():
            builder.copier.memo[old] = new
        builder.give(live.function, inputs, outputs)
        made = builder.copy(model)
        check_function(made, "let the functions give every new layer a name of its own")
        made = internals.adopt_layers(made, [*self._made.values()])
        compile_alike(model, made, builder.copier)
        return made

    def _unbuilt(self, model: Any, input_tensors: Any = None) -> Any:
        """Makes a Sequential model that has no graph yet of new layers."""
        if self._call_function is not _default_call and input_tensors is None:
            message = (
                f"Sequential model '{model.name}' has not been built, so there are no "
                "calls for call_function yet; build it or pass input_tensors"
            )
            raise OptionError(message)
        builder = Builder("copy")
        builder.copier.skip(model, internals.COMPILE_FIELDS)
        for layer in internals.sublayers_of(model):
            if not isinstance(layer, keras.layers.InputLayer):
                builder.copier.memo[id(layer)] = self._new_layer(layer)
        made = builder.copy(model)
        if input_tensors is not None:
            inputs = outputs = _as_input(_only_tensor(model, input_tensors))
            for layer in made.layers:
                outputs = self._call(layer, (outputs,), {}, f"'{layer.name}' of '{model.name}'")
                _check_are_tensors([outputs], layer.name)
            internals.set_functional(made, inputs, outputs)
            made = internals.adopt_layers(made, [])
        compile_alike(model, made, builder.copier)
        return made

    def _inputs(self, graph: Graph, builder: Replayer, given: Any) -> Tree:
        """Returns the new model's inputs, in the structure of the old ones."""
        if given is None:
            return map_tree(lambda ref: builder.tensor(_live_tensor(graph, ref)), graph.inputs)
        old, new = list(leaves(graph.inputs)), keras.tree.flatten(given)
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
        _check_structure(graph, given)
        refs = keras.tree.flatten(graph.inputs)
        by_ref = dict(zip(refs, map(_as_input, new), strict=True))
        return map_tree(by_ref.__getitem__, graph.inputs)

    def _run(self, graph: Graph, call: Call, builder: Replayer, tensors: dict[Ref, Any]) -> None:
        record = graph.layers[cast("str", call.layer)]
        layer = self._new_layer(record.origin)

        kwargs = {k: v for k, v in call.kwargs.items() if k not in call.derived}
        args, kwargs = builder.arguments(graph, call, (call.args, kwargs), tensors)
        outputs = self._call(layer, args, kwargs, f"'{record.name}' of '{graph.name}'")
        flat = keras.tree.flatten(outputs)
        _check_are_tensors(flat, record.name)
        for index, tensor in enumerate(call.origin.tensors):
            if index < len(flat):
                tensors[Ref(call.name, index)] = flat[index]
                builder.put(tensor, flat[index])

    def _call(self, layer: Any, args: Any, kwargs: Any, where: str) -> Any:
        try:
            return self._call_function(layer, *args, **kwargs)
        except Exception as error:
            error.add_note(f"while calling layer {where}")
            raise

    def _new_layer(self, origin: Any) -> Any:
        """Returns the new layer for an old one, the same whenever it is met."""
        if id(origin) not in self._made:
            try:
                self._made[id(origin)] = self._make_layer(origin)
            except Exception as error:
                error.add_note(f"while cloning layer '{origin.name}'")
                raise
            self._kept.append(origin)
            if self._made[id(origin)] is origin:
                self._reused.append((origin, *internals.count_calls(origin)))
            _check_is_layer(self._made[id(origin)], origin)
        return self._made[id(origin)]

    def _make_layer(self, origin: Any) -> Any:
        nested = isinstance(origin, keras.Model) and internals.is_container(origin)
        if not (self._recursive and nested):
            return self._clone_function(origin)
        return self._model(origin) if has_graph(origin) else self._unbuilt(origin)


def _live_tensor(graph: Graph, ref: Ref) -> Any:
    return graph.calls[ref.call].origin.tensors[ref.index]


def _users(graph: Graph) -> dict[Ref, str]:
    """Returns who uses each tensor that is used: a call, or the model's outputs."""
    users = {ref: f"'{call.name}'" for call in written_calls(graph) for ref in call.written_refs}
    return users | dict.fromkeys(leaves(graph.outputs), "the model's outputs")


def _check_outputs(
    graph: Graph, call: Call, tensors: dict[Ref, Any], users: dict[Ref, str]
) -> None:
    """Checks that a call gave every output that is used."""
    refs = [Ref(call.name, index) for index in range(len(call.outputs))]
    given = sum(ref in tensors for ref in refs)
    for ref in refs:
        if ref in users and ref not in tensors:
            message = (
                f"layer '{call.name}' of '{graph.name}' now gives "
                f"{counted(given, 'output')}, but its output {ref.index} is used by "
                f"{users[ref]}; let it give {counted(len(call.outputs), 'output')}"
            )
            raise GraphError(message)


def _check_is_layer(made: Any, origin: Any) -> None:
    if not isinstance(made, keras.Operation):
        message = (
            f"clone_function returned {_shown(made)} for layer '{origin.name}'; let it "
            "return a layer: a new one, or the old one itself"
        )
        raise OptionError(message)


def _check_are_tensors(outputs: list[Any], layer: str) -> None:
    for output in outputs:
        if not isinstance(output, keras.KerasTensor):
            message = (
                f"calling layer '{layer}' gave {_shown(output)} among its outputs; let "
                "call_function return what the layer returns: symbolic tensors"
            )
            raise OptionError(message)


def _shown(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _as_input(tensor: Any) -> Any:
    """Returns a Keras input as it is; any other tensor's place is taken by one."""
    if internals.is_input(tensor):
        return tensor
    return keras.Input(
        batch_shape=tensor.shape,
        dtype=tensor.dtype,
        sparse=tensor.sparse,
        name=f"input_wrapper_for_{tensor.name}",
    )


def _check_structure(graph: Graph, given: Any) -> None:
    def names(tree: Any) -> Any:
        return keras.tree.map_structure(lambda tensor: tensor.name, tree)

    live = live_of(graph)
    expected = internals.structures_of(live.function)[0]
    try:
        keras.tree.assert_same_structure(given, expected)
    except ValueError as error:
        message = (
            "`input_tensors` must have the same structure as model.input of "
            f"'{graph.name}': expected {names(expected)}, got {names(given)}"
        )
        raise OptionError(message) from error


def _only_tensor(model: Any, given: Any) -> Any:
    """Returns the one symbolic tensor that a Sequential model can be built on."""
    tensors = keras.tree.flatten(given)
    if len(tensors) != 1 or not isinstance(tensors[0], keras.KerasTensor):
        kinds = ", ".join(type(tensor).__name__ for tensor in tensors)
        message = (
            f"Sequential model '{model.name}' has one input, but input_tensors holds "
            f"{kinds or 'nothing'}; pass one symbolic tensor, such as keras.Input(shape)"
        )
        raise OptionError(message)
    return tensors[0]


def _default_call(layer: Any, *args: Any, **kwargs: Any) -> Any:
    return layer(*args, **kwargs)


def _default_clone(layer: Any) -> Any:
    """Makes an unbuilt layer from its config; one that has none is copied."""
    if not internals.is_adapted(layer):
        made = remake(layer, built=False)
        if made is not None:
            return made
    return copy_fresh(layer)
