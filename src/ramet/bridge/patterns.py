"""Patterns and replacements: ordinary functions, traced by the tracer."""

import contextlib
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.copies import Builder
from ramet.bridge.inferred import Inferred
from ramet.bridge.likeness import differs
from ramet.bridge.live import is_edited
from ramet.bridge.tensor_functions import input_like, trace_call
from ramet.bridge.trace import trace_between
from ramet.bridge.values import same_bits
from ramet.errors import OptionError
from ramet.graph import Call, Graph, Layer, Spec

_COMMUTES = ("Add", "Multiply", "Average", "Maximum", "Minimum")
"""Layers and operations of Keras whose arguments can change places."""

_TRIES = 200
"""How many shapes a pattern is tried on before it counts as one that fits none."""


@dataclass(frozen=True)
class Pattern:
    """A pattern, traced."""

    graph: Graph
    """Its calls."""
    written: dict[int, list[str]]
    """The arguments that were written for its layers, by the layers' ids."""

    def differs(self, asked: Layer, found: Layer) -> str | None:
        """Tells why a layer is not what one of the pattern asks for, or `None`."""
        return differs(asked, found, self.written.get(id(asked.origin), []))

    def commutes(self, found: Layer) -> bool:
        """Whether the order of a layer's arguments says nothing."""
        own = type(found.origin).__module__.partition(".")[0] == "keras"
        return own and found.kind in _COMMUTES

    def arguments(self, found: Layer, call: Call) -> dict[str, Any]:
        """Returns the written arguments of a call by their names in the layer's signature."""
        kwargs = {key: item for key, item in call.kwargs.items() if key not in call.derived}
        return internals.named_arguments(found.origin, call.args, kwargs)

    def context(self, found: Layer) -> frozenset[str]:
        """Names the arguments that a model hands on to a layer, such as `training`."""
        return internals.context_arguments(found.origin)

    def same_constant(self, asked: Any, given: Any) -> bool:
        """Whether two constants in arguments are the same, arrays by their values."""
        try:
            return internals.equal_constants(asked, given)
        except (TypeError, ValueError):
            return False


def trace_pattern(function: Callable[..., Any], graph: Graph) -> Pattern:
    """Traces a pattern on inputs of such shapes as tensors of the graph have.

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
                    return Pattern(trace_between(inputs, function(*inputs)), written)
            except Exception as error:  # noqa: BLE001 the author's layers do not fit every shape
                failure = error
    reason = "it has no tensors" if failure is None else internals.reason_of(failure)
    message = (
        f"pattern '{_name(function)}' cannot be called on any tensor of graph "
        f"'{graph.name}': {reason}"
    )
    raise OptionError(message) from failure


def _recorded_specs(graph: Graph) -> Iterator[Spec]:
    for inner in _all_graphs(graph):
        for call in inner.calls.values():
            yield from (spec for spec in call.outputs if spec.known)


def _inferred_specs(graph: Graph) -> Iterator[Spec]:
    """Yields specs that tensors have since an edit, as far as the graphs can be built."""
    for inner in _all_graphs(graph):
        with contextlib.suppress(Exception):
            yield from Inferred(inner).all_specs(inner) if is_edited(inner) else ()


def _all_graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for layer in graph.layers.values():
        if layer.graph is not None:
            yield from _all_graphs(layer.graph)


class Replacement:
    """A replacement, to be traced at every match."""

    def __init__(self, function: Callable[..., Any], graph: Graph, parameters: int) -> None:
        """Checks the function against the number of the pattern's parameters."""
        self.name = _name(function)
        names = parameters_of(function)
        if len(names) != parameters:
            message = (
                f"replacement '{self.name}' takes {len(names)} tensors and the pattern "
                f"{parameters}; let both take as many"
            )
            raise OptionError(message)
        self._function, self._graph = function, graph
        self._wants_match = "match" in inspect.signature(function).parameters
        self._own = {
            id(layer.origin): layer
            for inner in _all_graphs(graph)
            for layer in inner.layers.values()
        }
        self._copies: dict[tuple[int, int], Any] = {}
        self._records: dict[int, tuple[Layer, Any]] = {}

    def traced(
        self, specs: list[Spec], layers: dict[str, Layer], live: Callable[[str], Any]
    ) -> Graph:
        """Traces the function on inputs of given specs.

        A parameter `match` gets copies of the layers that were matched, by their names
        in the pattern.

        Args:
            specs: What is known of the tensors.
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
        """Returns the copy that stands for a layer, the same in every match."""
        if layer.identity not in self._copies:
            source = live(key)
            made = Builder("copy").copy(source)
            self._copies[layer.identity] = made
            self._records[id(made)] = layer, source
        return self._copies[layer.identity]

    def handed_on(self, context: Mapping[str, Any], layer: Layer, call: Call) -> dict[str, Any]:
        """Returns what a call is given like those in whose place it comes: `training`."""
        written = call.kwargs.keys() - call.derived
        wanted = internals.context_arguments(layer.origin) - written
        return {key: value for key, value in context.items() if key in wanted}

    def kept_record(self, layer: Layer) -> Layer | None:
        """Returns the record of a matched layer whose copy was called as it is."""
        record, source = self._records.get(id(layer.origin), (None, None))
        return record if record is not None and _is_unchanged(source, layer.origin) else None


def _is_unchanged(layer: Any, copy: Any) -> bool:
    """Tells whether the copy of a layer still is one."""
    if not isinstance(layer, keras.Layer):
        return True
    pairs = zip(internals.all_layers(layer), internals.all_layers(copy), strict=True)
    return all(
        old.trainable == new.trainable
        and all(
            same_bits(internals.to_numpy(a), internals.to_numpy(b))
            for a, b in zip(internals.own_variables(old), internals.own_variables(new), strict=True)
        )
        for old, new in pairs
    )


def parameters_of(function: Callable[..., Any]) -> list[str]:
    """Returns the names of a pattern's parameters: its wildcards."""
    if not callable(function) or isinstance(function, keras.Operation):
        message = f"a pattern must be a function, got a {type(function).__name__}"
        raise OptionError(message)
    # What has a default is the function's own affair: `lambda x, size=size: ...` in a loop.
    names = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if name != "match" and parameter.default is inspect.Parameter.empty
    ]
    if not names:
        message = f"pattern '{_name(function)}' has no parameters; let it take the tensors it reads"
        raise OptionError(message)
    return names


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", "pattern")
