"""The places where a small graph, the pattern, occurs in a larger one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ramet.graph.data import Call, Layer, Ref
from ramet.graph.names import brief
from ramet.graph.reach import written_calls
from ramet.graph.tree import leaves, paired_leaves

if TYPE_CHECKING:
    from ramet.graph.core import Graph

_MOST_PLACES = 6
"""How many arguments of a commutative operation are tried in every order."""


class Likeness(Protocol):
    """Compares live layers with those of a pattern."""

    def differs(self, asked: Layer, layer: Layer) -> str | None:
        """Return why a layer does not match one of the pattern; `None` if it does."""
        ...

    def commutes(self, layer: Layer) -> bool:
        """Whether the order of a layer's arguments does not matter."""
        ...

    def arguments(self, layer: Layer, call: Call) -> dict[str, Any]:
        """Return the written arguments of a call by their names in the layer's signature."""
        ...

    def context(self, layer: Layer) -> frozenset[str]:
        """Return the arguments that a model passes on to a layer, such as `training`."""
        ...

    def same_constant(self, asked: Any, other: Any) -> bool:
        """Whether two constants in arguments are the same, arrays by their values."""
        ...


@dataclass(frozen=True)
class Match:
    """One place where the pattern matches."""

    calls: dict[str, str]
    """Calls of the graph, by those of the pattern."""
    layers: dict[str, str]
    """Layers of the graph, by those of the pattern."""
    tensors: dict[Ref, Ref]
    """Tensors of the graph, by the inputs of the pattern."""
    context: Mapping[str, Any]
    """Arguments such as `training` that all calls have and the pattern leaves open."""


@dataclass(frozen=True, repr=False)
class Miss:
    """One place where the pattern nearly matches.

    Examples:
        >>> explanation = ramet.rewrite(
        ...     model,
        ...     lambda x: layers.ReLU()(layers.LayerNormalization()(x)),
        ...     lambda x: x,
        ...     explain=True,
        ... )
        >>> explanation.ok
        False
    """

    place: str
    """The call that would have been the end of the match."""
    reason: str
    """The difference."""

    def __repr__(self) -> str:
        """Return place and reason, on one short line."""
        return brief("Miss", str(self))

    def __str__(self) -> str:
        """Return place and reason."""
        return f"{self.place}: {self.reason}"


@dataclass
class _Bindings:
    calls: dict[str, str] = field(default_factory=dict[str, str])
    layers: dict[str, str] = field(default_factory=dict[str, str])
    tensors: dict[Ref, Ref] = field(default_factory=dict[Ref, Ref])

    def copy(self) -> "_Bindings":
        return _Bindings(dict(self.calls), dict(self.layers), dict(self.tensors))


class Matcher:
    """Finds a pattern in a graph, each call in at most one match."""

    def __init__(self, graph: "Graph", pattern: "Graph", likeness: Likeness) -> None:
        """Prepare a search.

        Args:
            graph: Where to search.
            pattern: What to search for.
            likeness: Compares layers.
        """
        self._graph = graph
        self._pattern = pattern
        self._likeness = likeness
        self._written = {call.name: call for call in written_calls(graph)}
        self._inputs = set(leaves(pattern.inputs))
        self._outputs: list[Ref] = list(leaves(pattern.outputs))
        self._reasons: list[tuple[int, str]] = []
        self.misses: list[Miss] = []

    def matches(self) -> list[Match]:
        """List the matches, starting from the inputs, and collect near misses in `misses`."""
        matches: list[Match] = []
        taken: set[str] = set()
        for call in self._written.values():
            self._reasons = []
            for bindings in self._ending_at(call):
                reason = self._why_not(bindings, taken)
                if reason is None:
                    context = {key: item[0] for key, item in self._context(bindings).items()}
                    match = Match(bindings.calls, bindings.layers, bindings.tensors, context)
                    matches.append(match)
                    taken.update(match.calls.values())
                    break
                self._reasons.append((len(bindings.calls) + 1, reason))
            else:
                deepest = max(self._reasons, default=(0, ""), key=lambda item: item[0])
                if deepest[0] > 0:
                    self.misses.append(Miss(call.name, deepest[1]))
        return matches

    def _ending_at(self, call: Call) -> Iterator[_Bindings]:
        """Yield the bindings in which a call computes the pattern's first output."""
        first, *others = self._outputs
        for bindings in self._unify(first.call, call.name, _Bindings()):
            yield from self._complete(others, bindings)

    def _complete(self, outputs: list[Ref], bindings: _Bindings) -> Iterator[_Bindings]:
        """Yield the bindings extended to the pattern's other outputs."""
        missing = [ref for ref in outputs if ref.call not in bindings.calls]
        if not missing:
            yield bindings
            return
        for name in self._written:
            for extended in self._unify(missing[0].call, name, bindings):
                yield from self._complete(missing[1:], extended)

    def _unify(self, wanted: str, name: str, bindings: _Bindings) -> Iterator[_Bindings]:
        """Yield the bindings extended by a call of the pattern that is a call of the graph."""
        bound = bindings.calls.get(wanted)
        if bound is not None or name in bindings.calls.values():
            if bound == name:
                yield bindings
            return
        asked, call = self._pattern.calls[wanted], self._graph.calls[name]
        if asked.layer is None or call.layer is None:
            return
        reason = self._layer_differs(asked.layer, call.layer, bindings)
        if reason is not None:
            depth = len(bindings.calls) + (not reason.startswith(("is a ", "is an ")))
            self._reasons.append((depth, f"'{name}' {reason}"))
            return
        extended = bindings.copy()
        extended.calls[wanted], extended.layers[asked.layer] = name, call.layer
        layer = self._graph.layers[call.layer]
        pairs = self._pairs(layer, asked, call)
        if pairs is None:
            self._reasons.append((1, f"'{name}' takes other arguments"))
        elif self._likeness.commutes(layer) and 1 < len(pairs) <= _MOST_PLACES:
            yield from self._unify_in_any_order(pairs, extended, name)
        else:
            yield from self._unify_all(pairs, extended, name)

    def _layer_differs(self, asked: str, key: str, bindings: _Bindings) -> str | None:
        bound = bindings.layers.get(asked)
        if bound is not None and bound != key:
            return f"should be another call of '{bound}'"
        if bound is None and key in bindings.layers.values():
            return "is another call of a layer that is matched already"
        return self._likeness.differs(self._pattern.layers[asked], self._graph.layers[key])

    def _pairs(self, layer: Layer, asked: Call, call: Call) -> list[tuple[Any, Any]] | None:
        """Pair the arguments of two calls, except those that a model passes on to its calls."""
        wanted, actual = (self._likeness.arguments(layer, each) for each in (asked, call))
        passed_on = self._likeness.context(layer) - wanted.keys()
        return paired_leaves(wanted, {k: v for k, v in actual.items() if k not in passed_on})

    def _unify_in_any_order(
        self, pairs: list[tuple[Any, Any]], bindings: _Bindings, name: str
    ) -> Iterator[_Bindings]:
        """Yield the bindings extended by arguments, in every order."""
        if not pairs:
            yield bindings
            return
        (asked, _), *rest = pairs
        for place, (_, actual) in enumerate(pairs):
            others = [value for at, (_, value) in enumerate(pairs) if at != place]
            left = [(want, value) for (want, _), value in zip(rest, others, strict=True)]
            for extended in self._unify_leaf(asked, actual, bindings, name):
                yield from self._unify_in_any_order(left, extended, name)

    def _unify_all(
        self, pairs: list[tuple[Any, Any]], bindings: _Bindings, name: str
    ) -> Iterator[_Bindings]:
        if not pairs:
            yield bindings
            return
        (asked, actual), *rest = pairs
        for extended in self._unify_leaf(asked, actual, bindings, name):
            yield from self._unify_all(rest, extended, name)

    def _unify_leaf(
        self, asked: Any, actual: Any, bindings: _Bindings, name: str
    ) -> Iterator[_Bindings]:
        if not isinstance(asked, Ref):
            if isinstance(actual, Ref) or not self._likeness.same_constant(asked, actual):
                self._reasons.append((len(bindings.calls), f"'{name}' takes another constant"))
            else:
                yield bindings
        elif not isinstance(actual, Ref):
            self._reasons.append((len(bindings.calls), f"'{name}' takes a constant"))
        elif asked in self._inputs:
            bound = bindings.tensors.get(asked, actual)
            if bound == actual:
                extended = bindings.copy()
                extended.tensors[asked] = actual
                yield extended
            else:
                reason = f"'{name}' reads '{actual.call}', not '{bound.call}'"
                self._reasons.append((len(bindings.calls), reason))
        elif asked.index == actual.index:
            yield from self._unify(asked.call, actual.call, bindings)

    def _why_not(self, bindings: _Bindings, taken: set[str]) -> str | None:
        """Return why a match cannot be replaced; `None` if it can."""
        inside = set(bindings.calls.values())
        overlap = inside & taken
        if overlap:
            return f"'{min(overlap)}' is part of another match"
        visible = {
            Ref(bindings.calls[ref.call], ref.index)
            for ref in self._outputs
            if ref.call in bindings.calls
        }
        for call in self._written.values():
            if call.name not in inside:
                for ref in call.written_refs:
                    if ref.call in inside and ref not in visible:
                        return f"'{ref.call}' is also read by '{call.name}', outside of the pattern"
        for ref in leaves(self._graph.outputs):
            if ref.call in inside and ref not in visible:
                return f"'{ref.call}' is also an output of the model"
        for key, (value, name, odd) in self._context(bindings).items():
            if odd is not None:
                return f"'{name}' is called with {key}={value!r}, and '{odd}' is not"
        return None

    def _context(self, bindings: _Bindings) -> dict[str, tuple[Any, str, str | None]]:
        """Return the context arguments of a match that the pattern leaves open.

        By name: the value, a call that has it, and one that has another value, if any.
        """
        passed: dict[str, dict[str, Any]] = {}
        for wanted, name in bindings.calls.items():
            asked, call = self._pattern.calls[wanted], self._graph.calls[name]
            layer = self._graph.layers[call.layer or ""]
            written = [self._likeness.arguments(layer, each) for each in (asked, call)]
            for key in self._likeness.context(layer) - written[0].keys():
                passed.setdefault(key, {})[name] = written[1].get(key)
        context: dict[str, tuple[Any, str, str | None]] = {}
        for key, values in passed.items():
            names = [name for name, value in values.items() if value is not None]
            if names:
                value = values[names[0]]
                odd = (name for name, other in values.items() if other != value)
                context[key] = value, names[0], next(odd, None)
        return context
