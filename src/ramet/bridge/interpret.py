"""The calls of a graph made one after the other, on live values.

`Interpreter` is the loop; what happens at one call is its `call`, which can be overridden.
"""

import abc
import contextlib
from collections.abc import Generator, Iterable
from typing import Any, cast

import keras

from ramet.bridge import internals
from ramet.bridge.live import live_of
from ramet.bridge.values import copy_value
from ramet.errors import OptionError
from ramet.graph import Call, Graph, Ref
from ramet.graph.locate import call_labels
from ramet.graph.tree import Tree, map_tree


class Interpreter:
    """Runs one graph: fills in arguments, makes calls, keeps values by tensor."""

    def __init__(self, graph: Graph) -> None:
        """Starts without values."""
        self.graph = graph
        self.values: dict[Ref, Any] = {}

    def start(self, inputs: Iterable[Any]) -> None:
        """Gives the inputs their values, in Keras's flat order."""
        self.values.update(zip(keras.tree.flatten(self.graph.inputs), inputs, strict=True))

    def run(self, inputs: Iterable[Any], calls: Iterable[Call] | None = None) -> tuple[Any, ...]:
        """Makes all calls and returns the outputs, in Keras's flat order.

        Args:
            inputs: The values of the inputs, in Keras's flat order.
            calls: Which calls to make, and in which order; by default all, in the graph's.
        """
        self.start(inputs)
        for call in self.graph.calls.values() if calls is None else calls:
            if Ref(call.name) not in self.values:
                self.step(call)
        return tuple(self.values[ref] for ref in keras.tree.flatten(self.graph.outputs))

    def step(self, call: Call) -> tuple[Tree, Tree]:
        """Makes one call, keeps its outputs, and returns the arguments that it was given."""
        args, kwargs = map_tree(self._filled, call.args), map_tree(self._filled, call.kwargs)
        outputs = self.call(call, args, kwargs)
        for index, value in enumerate(keras.tree.flatten(outputs)):
            self.values[Ref(call.name, index)] = value
        return args, kwargs

    def call(self, call: Call, args: Any, kwargs: Any) -> Any:
        """Calls the layer of a call. Override it to do more, or something else."""
        return self.layer(call)(*args, **kwargs)

    def layer(self, call: Call) -> Any:
        """Returns the live layer of a call."""
        return self.graph.layers[cast("str", call.layer)].origin

    def _filled(self, leaf: Any) -> Any:
        return self.values[leaf] if isinstance(leaf, Ref) else leaf


class Tapped(abc.ABC):
    """Runs a model as Keras does, and shows the outputs of every call on the way.

    Keras calls the model. Where it would make the calls of a graph, the model's own or a
    nested one's, an `Interpreter` makes them instead, in the same order. So inputs, masks
    and `training` are what they are without it. Override `given` and `seen`.
    """

    def __init__(self, graph: Graph) -> None:
        """Takes a graph as it was traced, not edited."""
        self._graph = graph
        self._graphs: dict[int, Graph] = {}
        self._functions: list[Any] = []
        self._register(graph)
        self._next: tuple[Any, str] | None = None

    @abc.abstractmethod
    def given(self, path: str, value: Any) -> None:
        """Sees the value of an input of a graph."""

    @abc.abstractmethod
    def seen(self, path: str, graph: Graph, call: Call, outputs: Any) -> Any:
        """Sees the outputs of a call, and returns those to go on with."""

    def _register(self, graph: Graph) -> None:
        """Remembers the graphs by what holds them, each once."""
        function = live_of(graph).function
        if id(function) not in self._graphs:
            self._graphs[id(function)] = graph
            self._functions.append(function)
            for layer in graph.layers.values():
                if layer.graph is not None:
                    self._register(layer.graph)

    def run(self, data: Any, *, training: bool) -> Any:
        """Calls the model and returns its outputs."""
        live = live_of(self._graph)
        with internals.run_by(self._functions, self._run_function):
            self._next = live.function, ""
            return live.model(data, training=training)

    def _run_function(
        self, function: Any, inputs: list[Any], operate: internals.Operate
    ) -> tuple[Any, ...] | None:
        """Makes the calls of a graph, if it is the one whose model is being called."""
        expected = self._next
        if expected is None or expected[0] is not function:
            return None  # A layer calls the model inside, where the graph does not see it.
        graph = self._graphs[id(function)]
        by_node = {id(c.origin.node): c for c in graph.calls.values()}
        calls = [by_node[id(node)] for node in internals.nodes_as_run(function)]
        outputs = _TappedGraph(self, graph, expected[1], operate).run(inputs, calls)
        self._next = expected  # A `call` of the user's own may run its graph again.
        return outputs

    def announce(self, layer: Any, path: str) -> None:
        """Says which layer is called next, so that a nested model knows where it is."""
        function = internals.functional_of(layer)
        self._next = None if function is None else (function, f"{path}/")


class _TappedGraph(Interpreter):
    """Runs one graph at one place, for a `Tapped`."""

    def __init__(
        self, tapped: Tapped, graph: Graph, prefix: str, operate: internals.Operate
    ) -> None:
        super().__init__(graph)
        self._tapped = tapped
        self._operate = operate
        self._paths = {name: prefix + label for name, label in call_labels(graph).items()}

    def start(self, inputs: Iterable[Any]) -> None:
        super().start(inputs)
        for ref, value in self.values.items():
            self._tapped.given(self._paths[ref.call], value)

    def call(self, call: Call, args: Any, kwargs: Any) -> Any:
        path, layer = self._paths[call.name], self.layer(call)
        self._tapped.announce(layer, path)
        outputs = self._operate(layer)(*args, **kwargs)
        return self._tapped.seen(path, self.graph, call, outputs)


@contextlib.contextmanager
def without_traces(model: Any) -> Generator[None]:
    """Lets a model be called without leaving anything behind, on it or in global generators.

    Random numbers are those that the next call would draw.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(internals.room_for(model))
        stack.enter_context(internals.untouched_layers(model))
        stack.enter_context(internals.borrowed_randomness())
        stack.enter_context(internals.untouched_names())
        internals.make_global_generator()
        held = [(variable, variable.value) for variable in model.variables]
        stack.enter_context(keras.StatelessScope(state_mapping=held))
        yield


def copied_data(data: Any) -> Any:
    """Copies input data with the masks on it: some layers write into what they are given."""
    return keras.tree.map_structure(_copied, data)


def _copied(value: Any) -> Any:
    made, mask = copy_value(value), internals.get_keras_mask(value)
    if mask is not None:
        internals.set_keras_mask(made, mask)
    return made


def replacement(path: str, old: Any, new: Any) -> Any:
    """Returns what a hook puts in the place of some outputs, with their dtypes and masks.

    Raises:
        OptionError: If it does not fit.
    """
    try:
        keras.tree.assert_same_structure(old, new)
    except ValueError as error:
        message = (
            f"each returned another structure for '{path}' than that of its outputs; return "
            "values in the structure that was passed in, or None to keep them"
        )
        raise OptionError(message) from error
    return keras.tree.map_structure(lambda a, b: _replaced(path, a, b), old, new)


def _replaced(path: str, old: Any, new: Any) -> Any:
    if new is None or new is old or not keras.ops.is_tensor(old):
        return old if new is None else new
    # A copy, since a mask is put on it.
    value = keras.ops.copy(keras.ops.convert_to_tensor(new, dtype=old.dtype))
    if tuple(value.shape) != tuple(old.shape):
        message = (
            f"each returned a value of shape {tuple(value.shape)} for '{path}', whose shape is "
            f"{tuple(old.shape)}; return one of that shape, such as keras.ops.zeros_like(value)"
        )
        raise OptionError(message)
    given = internals.get_keras_mask(new)
    mask = internals.get_keras_mask(old) if given is None else given
    if mask is not None:
        internals.set_keras_mask(value, mask)
    return value
