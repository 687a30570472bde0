"""Graphs run on live values, and models whose graphs are run so that every value is seen."""

import abc
import contextlib
from collections import Counter
from collections.abc import Generator, Iterable
from typing import Any, cast

import keras

from ramet import keras_internals as internals
from ramet._arguments import shown
from ramet.backends.values import copy_value
from ramet.errors import OptionError
from ramet.graph import Call, Graph, Ref
from ramet.graph.interpret import CallLoop
from ramet.graph.paths import call_labels
from ramet.graph.tree import Tree
from ramet.tracing.origin import live_of


class Interpreter(CallLoop):
    """Runs one graph on live values. Override `call` to do more, or something else."""

    def start(self, inputs: Iterable[Any]) -> None:
        """Set the values of the inputs, in Keras's flat order."""
        self.values.update(zip(keras.tree.flatten(self.graph.inputs), inputs, strict=True))

    def run(self, inputs: Iterable[Any], calls: Iterable[Call] | None = None) -> tuple[Any, ...]:
        """Make all calls and return the outputs, in Keras's flat order.

        A value is forgotten as soon as no later call needs it.

        Args:
            inputs: The values of the inputs, in Keras's flat order.
            calls: Which calls to make, and in which order; by default all, in the graph's.
        """
        self.start(inputs)
        planned = [*(self.graph.calls.values() if calls is None else calls)]
        outputs = keras.tree.flatten(self.graph.outputs)
        needed = [call for call in planned if self.is_needed(call)]
        uses = Counter(ref.call for call in needed for ref in call.refs)
        uses.update(ref.call for ref in outputs)
        for call in needed:
            self.make_calls([call])
            self._release(call, uses)
        return tuple(self.values[ref] for ref in outputs)

    def _release(self, call: Call, uses: Counter[str]) -> None:
        """Forget values that no later call needs."""
        uses.subtract(ref.call for ref in call.refs)
        for name in {call.name, *(ref.call for ref in call.refs)}:
            if uses[name] <= 0:
                for index in range(len(self.graph.calls[name].outputs)):
                    self.values.pop(Ref(name, index), None)

    def step(self, call: Call) -> tuple[Tree, Tree]:
        """Make one call, keep its outputs, and return the arguments that it was called with."""
        args, kwargs = self.filled(call.args), self.filled(call.kwargs)
        self.keep(call, keras.tree.flatten(self.call(call, args, kwargs)))
        return args, kwargs

    def call(self, call: Call, args: Any, kwargs: Any) -> Any:
        """Call the layer of a call."""
        return self.layer(call)(*args, **kwargs)

    def layer(self, call: Call) -> Any:
        """Return the live layer of a call."""
        return self.graph.layers[cast("str", call.layer)].origin


class Tapped(abc.ABC):
    """Runs a model as Keras does, and shows the outputs of every call on the way.

    Keras calls the model. Where it would make the calls of a graph, the model's own or a
    nested one's, an `Interpreter` makes them instead, in the same order. So inputs, masks
    and `training` are what they are without it. Override `given`, `entered` and `seen`.
    """

    def __init__(self, graph: Graph) -> None:
        """Takes a graph as it was traced, not edited."""
        self._graph = graph
        live = [(live_of(visit.graph).function, visit.graph) for visit in graph.walk()]
        self._graphs = {id(function): inner for function, inner in live}
        self._functions = [function for function, _ in live]
        self._next: tuple[Any, str] | None = None

    @abc.abstractmethod
    def given(self, path: str, value: Any) -> None:
        """Sees the value of an input of a graph."""

    def entered(self, path: str, arguments: tuple[Any, Any]) -> None:  # noqa: B027 most need not
        """See the arguments of a call before it is made."""

    @abc.abstractmethod
    def seen(self, path: str, graph: Graph, call: Call, outputs: Any) -> Any:
        """See the outputs of a call, and return those to continue with."""

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
        self._tapped.entered(path, (args, kwargs))
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
    except (ValueError, TypeError, RecursionError) as error:
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
    try:
        value = keras.ops.copy(keras.ops.convert_to_tensor(new, dtype=old.dtype))
    except Exception as error:
        message = (
            f"each returned {shown(new)} for '{path}', which is not a tensor; return values like "
            "those that were passed in, or None to keep them"
        )
        raise OptionError(message) from error
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
