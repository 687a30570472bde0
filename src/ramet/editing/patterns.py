"""Patterns and replacements: ordinary functions, traced by the tracer."""

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet._arguments import attribute, check_depth
from ramet.backends import is_of_keras
from ramet.backends.values import same_bits, to_numpy
from ramet.copying.models import copy_layer
from ramet.editing.inferred import Inferred
from ramet.editing.likeness import differs
from ramet.editing.tensor_functions import input_like, trace_call
from ramet.errors import OptionError
from ramet.graph import Call, Graph, Layer, Ref, Spec
from ramet.graph.tree import leaves
from ramet.tracing.origin import is_edited
from ramet.tracing.trace import trace_between

_COMMUTES = ("Add", "Multiply", "Average", "Maximum", "Minimum")
"""Layers and operations of Keras that are commutative."""

_TRIES = 200
"""How many combinations of shapes a pattern is tried on before it is refused."""


@dataclass(frozen=True)
class Pattern:
    """A pattern, traced."""

    graph: Graph
    """Its calls."""
    written: dict[int, list[str]]
    """Names of the explicit constructor arguments of its layers, by the layers' ids."""

    def differs(self, asked: Layer, layer: Layer) -> str | None:
        """Return why a layer does not match one of the pattern, or `None` if it does."""
        return differs(asked, layer, self.written.get(id(asked.origin), []))

    def commutes(self, layer: Layer) -> bool:
        """Whether the order of a layer's arguments does not matter."""
        return layer.kind in _COMMUTES and is_of_keras(type(layer.origin))

    def arguments(self, layer: Layer, call: Call) -> dict[str, Any]:
        """Return the explicit arguments of a call by their names in the layer's signature."""
        return internals.named_arguments(layer.origin, call.args, call.written)

    def context(self, layer: Layer) -> frozenset[str]:
        """Return the names of arguments that a model passes on to a layer, such as `training`."""
        return internals.context_arguments(layer.origin)

    def same_constant(self, asked: Any, other: Any) -> bool:
        """Whether two constants in arguments are the same, arrays by their values."""
        try:
            return internals.equal_constants(asked, other)
        except (TypeError, ValueError):
            return False


def trace_pattern(function: Callable[..., Any], graph: Graph) -> Pattern:
    """Trace a pattern on inputs with the shapes of tensors of the graph.

    Raises:
        OptionError: If it fits none.
    """
    count = len(parameters_of(function))
    failure: Exception | None = None
    for specs in (_recorded_specs, _inferred_specs):
        known = [*dict.fromkeys((spec.shape, spec.dtype) for spec in specs(graph))]
        for shapes in itertools.islice(itertools.product(known, repeat=count), _TRIES):
            inputs = [keras.Input(batch_shape=shape, dtype=dtype) for shape, dtype in shapes]
            try:
                with internals.fresh_names(), internals.noted_arguments() as written:
                    return Pattern(_own_graph(inputs, function(*inputs)), written)
            except Exception as error:  # noqa: BLE001 layers do not fit every shape
                failure = error
    reason = "it has no tensors" if failure is None else internals.reason_of(failure)
    message = (
        f"pattern '{name_of(function)}' cannot be called on any tensor of graph "
        f"'{graph.name}': {reason}"
    )
    raise OptionError(message) from failure


def _own_graph(inputs: list[Any], outputs: Any) -> Graph:
    """Return what a pattern computes from its parameters, as a graph.

    Raises:
        OptionError: If it returns a tensor that comes from elsewhere.
    """
    check_depth(outputs, "what a pattern returns")
    graph = trace_between(inputs, outputs)
    starts = {*leaves(graph.inputs)}
    for call in graph.calls.values():
        if not call.refs and Ref(call.name) not in starts:
            raise OptionError(f"it uses '{call.name}', which is none of its parameters")
    return graph


def _recorded_specs(graph: Graph) -> Iterator[Spec]:
    for visit in graph.walk():
        for call in visit.graph.calls.values():
            yield from (spec for spec in call.outputs if spec.known)


def _inferred_specs(graph: Graph) -> Iterator[Spec]:
    """Yield the specs of tensors in edited graphs, as far as these can be built."""
    for visit in graph.walk():
        inner = visit.graph
        with contextlib.suppress(Exception):
            yield from Inferred(inner).all_specs(inner) if is_edited(inner) else ()


class Replacement:
    """A replacement function, traced at every match."""

    def __init__(self, function: Callable[..., Any], graph: Graph, parameters: int) -> None:
        """Check the function against the number of the pattern's parameters."""
        self.name = name_of(function)
        self.text = "a function" if self.name == "<lambda>" else self.name
        names = parameters_of(function)
        if len(names) != parameters:
            message = (
                f"replacement '{self.name}' has {len(names)} tensor parameters and the pattern "
                f"{parameters}; give both the same number"
            )
            raise OptionError(message)
        self._function, self._graph = function, graph
        self._wants_match = "match" in inspect.signature(function).parameters
        self._own = {
            id(layer.origin): layer
            for visit in graph.walk()
            for layer in visit.graph.layers.values()
        }
        self._copies: dict[tuple[int, int], Any] = {}
        self._records: dict[int, tuple[Layer, Any]] = {}

    def traced(
        self, specs: list[Spec], layers: dict[str, Layer], live: Callable[[str], Any]
    ) -> Graph:
        """Trace the function on inputs of some specs.

        A parameter `match` gets copies of the layers that were matched, by their names
        in the pattern.

        Args:
            specs: The specs of the inputs.
            layers: The layers that were matched, by their names in the pattern.
            live: Returns the live layer for such a name.
        """
        inputs = [input_like(spec, self._graph) for spec in specs]
        extra = {}
        if self._wants_match:
            extra["match"] = {key: self._copy_of(layer, key, live) for key, layer in layers.items()}
        what = f"replacement '{self.name}'"
        try:
            return trace_call(
                lambda: self._function(*inputs, **extra), inputs, self._own.values(), what
            )
        except Exception as error:
            error.add_note(f"while tracing {what}")
            raise

    def _copy_of(self, layer: Layer, key: str, live: Callable[[str], Any]) -> Any:
        """Return the copy that stands for a layer, the same in every match."""
        if layer.identity not in self._copies:
            source = live(key)
            copy = copy_layer(source)
            self._copies[layer.identity] = copy
            self._records[id(copy)] = layer, source
        return self._copies[layer.identity]

    def handed_on(self, context: Mapping[str, Any], layer: Layer, call: Call) -> dict[str, Any]:
        """Return context arguments, such as `training`, that a new call gets like the old ones."""
        wanted = internals.context_arguments(layer.origin) - call.written.keys()
        return {key: value for key, value in context.items() if key in wanted}

    def kept_record(self, layer: Layer) -> Layer | None:
        """Return the record of a matched layer, if its copy was called unchanged."""
        record, source = self._records.get(id(layer.origin), (None, None))
        return record if record is not None and _is_unchanged(source, layer.origin) else None


def _is_unchanged(layer: Any, copy: Any) -> bool:
    """Whether the copy of a layer still has the same state."""
    if not isinstance(layer, keras.Layer):
        return True
    pairs = zip(internals.all_layers(layer), internals.all_layers(copy), strict=True)
    return all(
        old.trainable == new.trainable
        and all(
            same_bits(to_numpy(a), to_numpy(b))
            for a, b in zip(internals.own_variables(old), internals.own_variables(new), strict=True)
        )
        for old, new in pairs
    )


def parameters_of(function: Callable[..., Any]) -> list[str]:
    """Return the names of a pattern's parameters: its wildcards."""
    if not callable(function) or isinstance(function, keras.Operation):
        message = f"a pattern must be a function, got a {type(function).__name__}"
        raise OptionError(message)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError) as error:  # as of some classes and built-in functions
        message = (
            f"'{name_of(function)}' does not say which parameters it has; pass a function of the "
            "input tensors"
        )
        raise OptionError(message) from error
    # Parameters with defaults are not wildcards: `lambda x, size=size: ...` in a loop.
    names = [
        name
        for name, parameter in parameters.items()
        if name != "match" and parameter.default is inspect.Parameter.empty
    ]
    if not names:
        message = (
            f"pattern '{name_of(function)}' has no parameters; give it one for each input tensor"
        )
        raise OptionError(message)
    return names


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a pattern or replacement, for messages."""
    name = attribute(function, "__name__")
    return name if isinstance(name, str) else "pattern"
