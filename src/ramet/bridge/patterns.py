"""Patterns and replacements: ordinary functions, traced by the tracer."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.copies import Builder
from ramet.bridge.reconfigure import current
from ramet.bridge.trace import trace_between
from ramet.bridge.values import same_bits
from ramet.errors import GraphError, OptionError
from ramet.graph import Graph, Layer, Spec
from ramet.graph.tree import map_tree

_TRIES = 200
"""How many shapes a pattern is tried on before it counts as one that fits none."""


class AnyLayer(keras.Layer):
    """Stands in a pattern for every layer of a kind; `ramet.any_layer` makes one."""

    def __init__(self, kind: type, name: str | None, constraints: dict[str, Any]) -> None:
        """Remembers what is asked for."""
        super().__init__(name=name or internals.automatic_name(kind))
        self.kind = kind
        self.constraints = constraints

    def call(self, inputs: Any) -> Any:
        """Gives what it takes, or the first of several."""
        return keras.tree.flatten(inputs)[0] * 1

    def compute_output_spec(self, inputs: Any, *others: Any, **kwargs: Any) -> Any:
        """Says the same of symbolic tensors."""
        del others, kwargs
        first = keras.tree.flatten(inputs)[0]
        return keras.KerasTensor(first.shape, first.dtype)


@dataclass(frozen=True)
class Pattern:
    """A pattern, traced."""

    graph: Graph
    """Its calls."""
    written: dict[int, list[str]]
    """The arguments that were written for its layers, by the layers' ids."""

    def differs(self, asked: Layer, found: Layer) -> str | None:
        """Tells why a layer is not what one of the pattern asks for, or `None`."""
        return _differs(asked, found, self.written.get(id(asked.origin), []))


def trace_pattern(function: Callable[..., Any], graph: Graph) -> Pattern:
    """Traces a pattern on inputs of such shapes as tensors of the graph have.

    Raises:
        OptionError: If it fits none.
    """
    names = parameters_of(function)
    failure: Exception | None = None
    specs = [*dict.fromkeys((spec.shape, spec.dtype) for spec in _specs(graph))]
    for shapes in itertools.islice(itertools.product(specs, repeat=len(names)), _TRIES):
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


def _specs(graph: Graph) -> Iterator[Spec]:
    for call in graph.calls.values():
        yield from (spec for spec in call.outputs if spec.known)
    for layer in graph.layers.values():
        if layer.graph is not None:
            yield from _specs(layer.graph)


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
        self._function = function
        self._wants_match = "match" in inspect.signature(function).parameters
        self._own = {id(layer.origin): layer for layer in _all_layers(graph)}
        self._copies: dict[tuple[int, int], Any] = {}
        self.records: dict[int, Layer] = {}

    def traced(self, specs: list[Spec], layers: dict[str, Layer]) -> Graph:
        """Traces the function on inputs of given specs.

        A parameter `match` gets copies of the layers that were matched, by their names
        in the pattern.
        """
        inputs = [keras.Input(batch_shape=spec.shape, dtype=spec.dtype) for spec in specs]
        extra = {}
        if self._wants_match:
            extra["match"] = {key: self._copy_of(layer) for key, layer in layers.items()}
        calls = {key: internals.count_calls(layer.origin) for key, layer in self._own.items()}
        try:
            outputs = self._function(*inputs, **extra)
            self._check_tensors(outputs)
            graph = trace_between(inputs, outputs)
            self._check_layers(graph)
        except Exception as error:
            for key, layer in self._own.items():
                internals.forget_calls(layer.origin, *calls[key])
            error.add_note(f"while tracing replacement '{self.name}'")
            raise
        return graph

    def _copy_of(self, layer: Layer) -> Any:
        """Returns the copy that stands for a layer, the same in every match."""
        if layer.identity not in self._copies:
            made = Builder("copy").copy(current(layer))
            self._copies[layer.identity] = made
            self.records[id(made)] = layer
        return self._copies[layer.identity]

    def kept_record(self, layer: Layer) -> Layer | None:
        """Returns the record of a matched layer whose copy was called as it is."""
        record = self.records.get(id(layer.origin))
        if record is None or not _is_unchanged(current(record), layer.origin):
            return None
        return record

    def _check_tensors(self, outputs: Any) -> None:
        for output in keras.tree.flatten(outputs):
            if not isinstance(output, keras.KerasTensor):
                message = (
                    f"replacement '{self.name}' gives a {type(output).__name__}; let it return "
                    "tensors, as the pattern does"
                )
                raise OptionError(message)

    def _check_layers(self, graph: Graph) -> None:
        for layer in graph.layers.values():
            if id(layer.origin) in self._own:
                message = (
                    f"replacement '{self.name}' calls layer '{layer.name}' of the model itself; "
                    "take it from a parameter `match`, or make a new one"
                )
                raise GraphError(message)


def _all_layers(graph: Graph) -> Iterator[Layer]:
    for layer in graph.layers.values():
        yield layer
        if layer.graph is not None:
            yield from _all_layers(layer.graph)


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
    names = [name for name in inspect.signature(function).parameters if name != "match"]
    if not names:
        message = f"pattern '{_name(function)}' has no parameters; let it take the tensors it reads"
        raise OptionError(message)
    return names


def _differs(asked: Layer, found: Layer, written: list[str]) -> str | None:
    want, have = asked.origin, current(found)
    if isinstance(want, AnyLayer):
        if not isinstance(have, want.kind):
            return f"is a {found.kind}, not a {want.kind.__name__}"
        return _config_differs(want.constraints, want.constraints, have)
    if type(have) is not type(want):
        return f"is a {found.kind}, not a {asked.kind}"
    if not isinstance(want, keras.Layer):
        options = [internals.operation_options(each) for each in (want, have)]
        same = internals.equal_constants(*(sorted(o.items(), key=str) for o in options))
        return None if same else "has other options"
    return _config_differs(written, want.get_config(), have)


def _config_differs(names: Any, config: dict[str, Any], have: Any) -> str | None:
    found = have.get_config()
    for name in names:
        if name != "name" and name in config and _plain(config[name]) != _plain(found.get(name)):
            return f"has {name}={found.get(name)!r}, not {config[name]!r}"
    return None


def _plain(value: Any) -> Any:
    """Returns a config value with tuples as lists, and a single size as itself."""
    return map_tree(lambda leaf: leaf, list(value)) if isinstance(value, tuple) else value


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", "pattern")
