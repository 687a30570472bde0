"""From a Graph to a Keras model: copy the layers, replay the calls."""

import contextlib
from collections.abc import Generator
from numbers import Integral
from typing import Any, Final

import keras

from ramet.bridge import internals
from ramet.bridge.copier import Copier
from ramet.bridge.fresh import refresh, refresh_training
from ramet.bridge.live import is_edited, live_of
from ramet.bridge.plain import Uncopyable
from ramet.bridge.trace import trace_function, trace_tensors
from ramet.errors import CopyError, GraphError, OptionError, StateError
from ramet.graph import Call, Graph, Layer, Ref, Spec
from ramet.graph.names import did_you_mean
from ramet.graph.tree import Tree, map_tree

WEIGHTS: Final = ("copy", "share", "fresh")
"""What the variables of a new model can be."""


def build(graph: Graph, *, weights: str, seed: int | None, name: str | None) -> Any:
    """Makes a model of a graph that was traced from one; see `Graph.build`."""
    live = live_of(graph)
    check_options(weights, seed, name)
    if live.model is not None and internals.functional_of(live.model) is not live.function:
        message = f"model '{graph.name}' was rebuilt after it had been traced; trace it again"
        raise GraphError(message)
    if is_edited(graph):
        from ramet.bridge.edited import build_edited

        return build_edited(graph, weights=weights, seed=seed, name=name or graph.name)
    return Builder(weights, graph).model(live.model, seed=seed, name=name or graph.name)


def copy_model(model: Any, *, weights: str, seed: int | None, name: str | None) -> Any:
    """Copies a model that has no graph: it is one layer."""
    check_options(weights, seed, name)
    check_has_values(model, weights)
    return Builder(weights, None).model(model, seed=seed, name=name)


def check_options(weights: Any, seed: Any, name: Any) -> None:
    """Checks the options that `build` and `clone` have in common.

    Raises:
        OptionError: If one has a value that it cannot have.
    """
    if not isinstance(weights, str) or weights not in WEIGHTS:
        known = ", ".join(f"'{word}'" for word in WEIGHTS)
        hint = did_you_mean(weights, WEIGHTS) if isinstance(weights, str) else ""
        message = f"unknown weights={weights!r}; expected one of {known}{hint}"
        raise OptionError(message)
    if seed is not None and weights != "fresh":
        message = (
            f"seed={seed!r} has no meaning with weights='{weights}', where nothing is "
            "drawn at random; leave it out, or ask for weights='fresh'"
        )
        raise OptionError(message)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, Integral)):
        message = f"seed must be an integer, got {seed!r}"
        raise OptionError(message)
    if name is not None and (not isinstance(name, str) or not name or "/" in name):
        message = f"name must be a string without '/', got {name!r}"
        raise OptionError(message)


def check_has_values(model: Any, weights: str) -> None:
    """Checks that a model has the values that are to be copied or shared.

    Raises:
        StateError: If it has not been built and has no weights yet.
    """
    if weights == "fresh" or model.built or model.weights:
        return
    layers = internals.all_layers(model)
    waiting = any(internals.may_create_weights(layer) for layer in layers[1:])
    if waiting or len(layers) == 1:
        message = (
            f"model '{model.name}' has not been built, so there are no weights to "
            f"{weights} yet; build it or call it on data first, or ask for "
            "weights='fresh'"
        )
        raise StateError(message)


class Builder:
    """Builds one model, with every model and layer inside it."""

    def __init__(self, weights: str, graph: Graph | None) -> None:
        """Starts with nothing built; `graph` is that of the model to be built."""
        self.weights = weights
        self.results: dict[int, tuple[Tree, Tree]] = {}
        self.graphs: dict[int, Graph] = {}
        self.functions: list[Any] = []
        self.order: dict[int, int] = {}
        self.operations: dict[int, Any] = {}
        self.copier = Copier(
            on_tensor=self.tensor,
            on_function=self._function,
            share=weights == "share",
            renew=weights == "fresh",
        )
        if graph is not None:
            self._register(graph)

    def model(self, source: Any, *, seed: int | None, name: str | None) -> Any:
        """Makes the new model."""
        with seeded(seed):
            made = self.copy(source)
            if self.weights == "fresh":
                old, new = internals.all_layers(source), internals.all_layers(made)
                refresh(zip(old, new, strict=True), duplicate)
                refresh_training(made, self.copier.optimizers)
        if name is not None:
            vars(made)["name"] = name
        return made

    def copy(self, source: Any) -> Any:
        """Copies a model or layer, with the graphs of all models inside."""
        if self.weights == "share":
            self.share(source)
        made = self.copier.copy(source)
        self.copier.finish()
        self.map_functions()
        return made

    def share(self, source: Any) -> None:
        """Lets the copy of a model or layer have the very variables of the source."""
        for layer in internals.all_layers(source):
            for variable in internals.layer_state(layer):
                self.copier.keep_variable(variable)

    def map_functions(self) -> None:
        """Puts calls into their recorded order and maps the graphs made so far."""
        for operation in self.operations.values():
            internals.order_nodes(operation, self.order)
        for function in self.functions:
            internals.map_graph(function)

    def _register(self, graph: Graph) -> None:
        """Remembers which graph belongs to which model, nested ones too."""
        live = live_of(graph)
        if id(live.function) not in self.graphs:
            self.graphs[id(live.function)] = graph
            for layer in graph.layers.values():
                if layer.graph is not None and not layer.apart:
                    self._register(layer.graph)

    def _function(self, source: Any, made: Any) -> None:
        """Gives the copy of a model its graph."""
        if id(source) in self.results:
            internals.set_structures(made, *self.results[id(source)])
            self.functions.append(made)
            return
        graph = self.graphs.get(id(source))
        if graph is None:
            graph = trace_function(source)
            self._register(graph)
        tensors = self.make_calls(graph)
        inputs = _filled(graph.inputs, tensors)
        internals.set_structures(made, inputs, _filled(graph.outputs, tensors))
        self.functions.append(made)

    def tensor(self, tensor: Any) -> Any:
        """Returns the copy of a symbolic tensor, also of one outside the graph."""
        if id(tensor) not in self.copier.memo:
            self.make_calls(trace_tensors([tensor]))
        return self.copier.memo[id(tensor)]

    def put(self, old: Any, new: Any) -> None:
        """Takes a given symbolic tensor for the copy of another, inputs too."""
        self.copier.memo[id(old)] = new
        if internals.is_input(old) and internals.is_input(new):
            self.copier.memo[id(internals.maker(old))] = internals.maker(new)

    def make_calls(self, graph: Graph) -> dict[Ref, Any]:
        """Makes the calls of a graph again, without running a layer."""
        tensors: dict[Ref, Any] = {}
        for call in graph.calls.values():
            sources = call.origin.tensors
            if id(sources[0]) not in self.copier.memo:
                made = self.replay(graph, call, tensors)
                self.copier.memo.update(zip(map(id, sources), made, strict=True))
            for index, tensor in enumerate(sources):
                tensors[Ref(call.name, index)] = self.copier.memo[id(tensor)]
        self._attach_masks(graph, tensors)
        return tensors

    def layer(self, record: Layer) -> Any:
        """Returns the new layer of a record."""
        return self.copier.copy(record.origin)

    def replay(self, graph: Graph, call: Call, tensors: dict[Ref, Any]) -> list[Any]:
        """Makes one call as it was recorded, and returns its symbolic outputs."""
        outputs = [_symbolic(spec) for spec in call.outputs]
        if call.layer is not None:
            operation = self.layer(graph.layers[call.layer])
            args, kwargs = self.arguments(graph, call, (call.args, call.kwargs), tensors)
            node = internals.new_node(operation, args, kwargs, outputs)
            self.order[id(node)] = internals.node_index(call.origin.node)
            self.operations[id(operation)] = operation
        return outputs

    def arguments(self, graph: Graph, call: Call, tree: Tree, tensors: dict[Ref, Any]) -> Tree:
        """Returns arguments of a call with the new tensors and copied constants.

        Raises:
            CopyError: If a constant cannot be copied.
        """

        def fill(leaf: Any) -> Any:
            return tensors[leaf] if isinstance(leaf, Ref) else self.copier.copy(leaf)

        try:
            return map_tree(fill, tree)
        except Uncopyable as problem:
            message = (
                f"call '{call.name}' of model '{graph.name}' cannot be copied: one of its "
                f"arguments holds a {problem.kind}; give it to the layer another way"
            )
            raise CopyError(message) from problem

    def _attach_masks(self, graph: Graph, tensors: dict[Ref, Any]) -> None:
        for call in graph.calls.values():
            for index, spec in enumerate(call.outputs):
                if spec.mask is not None:
                    mask = self.arguments(graph, call, spec.mask, tensors)
                    internals.set_keras_mask(tensors[Ref(call.name, index)], mask)


@contextlib.contextmanager
def seeded(seed: int | None) -> Generator[None]:
    """Lets everything that is drawn at random come from a seed, if there is one."""
    with contextlib.ExitStack() as stack:
        if seed is not None:
            stack.enter_context(internals.untouched_randomness())
            stack.enter_context(internals.untouched_names())
            internals.seed_globals(int(seed))
        yield


def copy_fresh(layer: Any) -> Any:
    """Copies one layer and gives it fresh weights."""
    made = duplicate(layer)
    if isinstance(layer, keras.Layer):
        pairs = zip(internals.all_layers(layer), internals.all_layers(made), strict=True)
        refresh(pairs, duplicate)
    return made


def duplicate(layer: Any) -> Any:
    """Makes a structural copy of a layer, for fresh weights."""
    return Builder("fresh", None).copy(layer)


def _filled(tree: Tree, tensors: dict[Ref, Any]) -> Tree:
    return map_tree(tensors.__getitem__, tree)


def _symbolic(spec: Spec) -> Any:
    return internals.new_tensor(
        shape=spec.shape,
        dtype=spec.dtype,
        sparse=spec.sparse,
        ragged=spec.ragged,
        ragged_rank=spec.ragged_rank,
        row_splits_dtype=spec.row_splits_dtype,
        name=spec.name,
    )
