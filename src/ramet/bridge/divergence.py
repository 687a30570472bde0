"""Two models run call by call, to find the first that gives something else."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import keras
import numpy as np

from ramet.bridge import internals
from ramet.bridge.align import align, config_of, constant
from ramet.bridge.interpret import Interpreter
from ramet.bridge.roles import roles_of
from ramet.bridge.samples import Sample
from ramet.bridge.trace import trace
from ramet.bridge.values import copy_value, same_bits
from ramet.graph import Call, Graph, Layer, Ref
from ramet.graph.inline import flat
from ramet.graph.tree import leaves

Difference = Callable[[np.ndarray, np.ndarray], str]
"""Says how two arrays differ, or nothing if they do not."""


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first call whose inputs agree and whose outputs do not."""

    call: str
    """Path of the call in the first model."""
    difference: str
    """How the outputs differ."""
    cause: str
    """What explains it: `structure`, `weights`, `state`, `mask`, `arguments` or `unknown`."""
    detail: str
    """What exactly is different, in words."""

    def __str__(self) -> str:
        """Returns all of it in one line."""
        return f"'{self.call}' {self.difference}; {self.cause}: {self.detail}"


def first_divergence(
    first: Any,
    second: Any,
    sample: Sample,
    differs: Difference,
    *,
    expected: frozenset[str] = frozenset(),
) -> Divergence | None:
    """Runs two models side by side, and stops at the first call that gives something else.

    Values are kept only as long as a call needs them. Neither model is changed.

    Args:
        first: A model that has a graph.
        second: Another one.
        sample: What to call them with.
        differs: How outputs are compared.
        expected: Calls of the second model that may give something else.
    """
    graphs = trace(first), trace(second)
    variables = {id(v): v for model in (first, second) for v in model.variables}.values()
    held = [(variable, variable.value) for variable in variables]
    with contextlib.ExitStack() as stack:
        for model in (first, second):
            stack.enter_context(internals.untouched_layers(model))
        stack.enter_context(internals.fixed_randomness(0))
        stack.enter_context(keras.StatelessScope(state_mapping=held))
        inputs = (
            _flat_inputs(graph, keras.tree.map_structure(copy_value, sample.args[0]))
            for graph in graphs
        )
        return _Walk(*graphs, differs, "", expected).divergence(*inputs)


def _flat_inputs(graph: Graph, inputs: Any) -> list[Any]:
    specs = [graph.calls[ref.call].outputs[0] for ref in flat(graph.inputs)]
    values = flat(inputs)
    return [
        None if value is None else keras.ops.convert_to_tensor(value, spec.dtype)
        for value, spec in zip(values, specs, strict=True)
    ]


class _Walk:
    """Runs two graphs side by side."""

    def __init__(
        self,
        first: Graph,
        second: Graph,
        differs: Difference,
        prefix: str,
        expected: frozenset[str] = frozenset(),
    ) -> None:
        self._graphs = first, second
        self._differs = differs
        self._expected = expected
        self._prefix = prefix
        self._found = align(first, second)
        self._runs = Interpreter(first), Interpreter(second)
        self._values = tuple(run.values for run in self._runs)
        self._needed = [_uses(graph) for graph in self._graphs]
        self._live = [{name for name, count in uses.items() if count} for uses in self._needed]

    def divergence(self, *inputs: list[Any]) -> Divergence | None:
        """Returns the first call that gives something else, if there is one."""
        for run, values in zip(self._runs, inputs, strict=True):
            run.start(values)
        done: set[str] = set()
        for call in self._graphs[0].calls.values():
            if call.name not in self._live[0] or Ref(call.name) in self._values[0]:
                continue
            name = self._found.calls.get(call.name)
            alone = name is None and not _is_derived(self._graphs[0], call)
            if alone and not self._expected:
                kind = self._graphs[0].layers[cast("str", call.layer)].kind
                path = self._prefix + call.name
                return Divergence(path, "is in one model only", "structure", f"a {kind}")
            arguments = self._runs[0].step(call)
            if name is None:
                continue
            new = self._graphs[1].calls[name]
            try:
                other = self._catch_up(name, done)
            except Exception as error:  # noqa: BLE001 the first model took the same data
                told = f"fails in the second model: {internals.reason_of(error)}"
                return self._explained(call, new, told, arguments, arguments)
            found = None
            if name not in self._expected:
                found = self._compared(call, new, arguments, other)
            if found is not None:
                return found
            self._release(call)
        return None

    def _catch_up(self, name: str, done: set[str]) -> tuple[Any, Any]:
        """Runs the second graph up to a call, and returns that one's arguments."""
        arguments: tuple[Any, Any] = (), {}
        for call in self._graphs[1].calls.values():
            if call.name in done or call.name not in self._live[1]:
                continue
            if Ref(call.name) not in self._values[1]:
                arguments = self._runs[1].step(call)
            done.add(call.name)
            if call.name == name:
                break
        return arguments

    def _compared(
        self, old: Call, new: Call, given: tuple[Any, Any], taken: tuple[Any, Any]
    ) -> Divergence | None:
        """Compares what two paired calls gave."""
        count = max(len(old.outputs), len(new.outputs))
        for index in range(count):
            pair = [
                values.get(Ref(call.name, index))
                for values, call in zip(self._values, (old, new), strict=True)
            ]
            told = self._difference(*pair)
            if told:
                inner = self._inside(old, new, given, taken)
                return inner or self._explained(old, new, told, given, taken)
        return None

    def _difference(self, a: Any, b: Any) -> str:
        if a is None or b is None:
            return "" if a is b else "is missing in one model"
        return self._differs(*(np.asarray(internals.to_numpy(value)) for value in (a, b)))

    def _inside(
        self, old: Call, new: Call, given: tuple[Any, Any], taken: tuple[Any, Any]
    ) -> Divergence | None:
        """Looks for the first divergence inside two nested models."""
        a = self._graphs[0].layers[cast("str", old.layer)].graph
        b = self._graphs[1].layers[cast("str", new.layer)].graph
        if a is None or b is None or not (given[0] and taken[0]):
            return None
        walk = _Walk(a, b, self._differs, f"{self._prefix}{old.name}/")
        return walk.divergence(_flat_inputs(a, given[0][0]), _flat_inputs(b, taken[0][0]))

    def _explained(
        self, old: Call, new: Call, told: str, given: tuple[Any, Any], taken: tuple[Any, Any]
    ) -> Divergence:
        layers = [
            graph.layers[cast("str", call.layer)]
            for graph, call in zip(self._graphs, (old, new), strict=True)
        ]
        reasons = (*_layer_reasons(*layers), *self._argument_reasons(given, taken))
        cause, detail = next(iter(reasons), ("unknown", "layers and arguments are the same"))
        return Divergence(self._prefix + old.name, told, cause, detail)

    def _argument_reasons(
        self, given: tuple[Any, Any], taken: tuple[Any, Any]
    ) -> Iterator[tuple[str, str]]:
        both = [keras.tree.flatten(arguments) for arguments in (given, taken)]
        if len(both[0]) != len(both[1]):
            yield "arguments", f"{len(both[0])} and {len(both[1])} arguments"
            return
        for a, b in zip(*both, strict=True):
            masks = [internals.get_keras_mask(value) for value in (a, b)]
            if (masks[0] is None) != (masks[1] is None) or self._are_other(*masks):
                yield "mask", "another mask is on the tensor that it reads"
            if self._are_other(a, b):
                yield "arguments", "it is called on other arguments"

    def _are_other(self, a: Any, b: Any) -> bool:
        if keras.ops.is_tensor(a) and keras.ops.is_tensor(b):
            return bool(self._difference(a, b))
        return not (a is b or constant(a) == constant(b))

    def _release(self, call: Call) -> None:
        """Forgets values that no call needs any more."""
        paired = self._found.calls.get(call.name)
        for side, name in ((0, call.name), (1, paired)):
            uses, graph = self._needed[side], self._graphs[side]
            for ref in graph.calls[name].refs if name is not None else ():
                uses[ref.call] -= 1
                if uses[ref.call] <= 0:
                    for index in range(len(graph.calls[ref.call].outputs)):
                        self._values[side].pop(Ref(ref.call, index), None)


def _layer_reasons(a: Layer, b: Layer) -> Iterator[tuple[str, str]]:
    """Yields how two layers differ by themselves."""
    if a.kind != b.kind:
        yield "structure", f"{a.kind} and {b.kind}"
        return
    if config_of(a) != config_of(b):
        yield "structure", "its config is another"
    if not (isinstance(a.origin, keras.Layer) and isinstance(b.origin, keras.Layer)):
        return
    olds, news = roles_of(a.origin), roles_of(b.origin)
    for role in dict.fromkeys([*olds, *news]):
        old, new = olds.get(role), news.get(role)
        same = (
            old is not None
            and new is not None
            and same_bits(*(np.asarray(internals.to_numpy(v)) for v in (old, new)))
        )
        if not same:
            found: Any = old if old is not None else new
            yield "weights" if found.trainable else "state", f"{'.'.join(role)} differs"


def _uses(graph: Graph) -> Counter[str]:
    """Counts how often each call is read, by calls that the outputs need, or as an output."""
    uses = Counter(ref.call for ref in leaves(graph.outputs))
    for call in reversed([*graph.calls.values()]):
        if uses[call.name]:
            uses.update(ref.call for ref in call.refs)
    return uses


def _is_derived(graph: Graph, call: Call) -> bool:
    """Tells whether a call only serves masks, which are not paired."""
    return not isinstance(graph.layers[cast("str", call.layer)].origin, keras.Layer)
