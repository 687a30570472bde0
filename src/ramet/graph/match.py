"""Where a small graph, the pattern, is found in a larger one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ramet.graph.parts import Call, Layer, Ref
from ramet.graph.reach import written_calls
from ramet.graph.tree import leaves, paired_leaves

if TYPE_CHECKING:
    from ramet.graph.core import Graph

_MOST_PLACES = 6
"""How many arguments are tried in every order where the order says nothing."""


class Likeness(Protocol):
    """What has to be known of live layers to compare them with those of a pattern."""

    def differs(self, asked: Layer, found: Layer) -> str | None:
        """Tells why a layer is not what one of the pattern asks for."""
        ...

    def commutes(self, found: Layer) -> bool:
        """Whether the order of a layer's arguments says nothing."""
        ...

    def arguments(self, found: Layer, call: Call) -> dict[str, Any]:
        """Returns the written arguments of a call by their names in the layer's signature."""
        ...

    def context(self, found: Layer) -> frozenset[str]:
        """Names the arguments that a model hands on to a layer, such as `training`."""
        ...

    def same_constant(self, asked: Any, given: Any) -> bool:
        """Whether two constants in arguments are the same, arrays by their values."""
        ...


@dataclass(frozen=True)
class Match:
    """One place where the pattern was found."""

    calls: dict[str, str]
    """Calls of the graph, by those of the pattern."""
    layers: dict[str, str]
    """Layers of the graph, by those of the pattern."""
    tensors: dict[Ref, Ref]
    """Tensors of the graph, by the inputs of the pattern."""
    context: Mapping[str, Any]
    """What all calls are given that take it, and the pattern does not write: `training`."""


@dataclass(frozen=True)
class Miss:
    """One place where the pattern was nearly found."""

    place: str
    """The call where it would have ended."""
    reason: str
    """What is different."""

    def __str__(self) -> str:
        """Returns place and reason."""
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
        """Prepares the search.

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
        """Lists the matches from the inputs on, and collects near misses."""
        found: list[Match] = []
        taken: set[str] = set()
        for call in self._written.values():
            self._reasons = []
            for bindings in self._ending_at(call):
                reason = self._why_not(bindings, taken)
                if reason is None:
                    context = {key: given[0] for key, given in self._context(bindings).items()}
                    match = Match(bindings.calls, bindings.layers, bindings.tensors, context)
                    found.append(match)
                    taken.update(match.calls.values())
                    break
                self._reasons.append((len(bindings.calls) + 1, reason))
            else:
                deepest = max(self._reasons, default=(0, ""), key=lambda item: item[0])
                if deepest[0] > 0:
                    self.misses.append(Miss(call.name, deepest[1]))
        return found

    def _ending_at(self, call: Call) -> Iterator[_Bindings]:
        """Yields ways in which the pattern's first output can be made by a call."""
        first, *others = self._outputs
        for bindings in self._unify(first.call, call.name, _Bindings()):
            yield from self._complete(others, bindings)

    def _complete(self, outputs: list[Ref], bindings: _Bindings) -> Iterator[_Bindings]:
        """Yields ways in which the pattern's other outputs are found too."""
        missing = [ref for ref in outputs if ref.call not in bindings.calls]
        if not missing:
            yield bindings
            return
        for name in self._written:
            for found in self._unify(missing[0].call, name, bindings):
                yield from self._complete(missing[1:], found)

    def _unify(self, wanted: str, name: str, bindings: _Bindings) -> Iterator[_Bindings]:
        """Yields ways in which a call of the pattern can be a call of the graph."""
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
            depth = len(bindings.calls) + (not reason.startswith("is a "))
            self._reasons.append((depth, f"'{name}' {reason}"))
            return
        found = bindings.copy()
        found.calls[wanted], found.layers[asked.layer] = name, call.layer
        layer = self._graph.layers[call.layer]
        pairs = self._pairs(layer, asked, call)
        if pairs is None:
            self._reasons.append((1, f"'{name}' takes other arguments"))
        elif self._likeness.commutes(layer) and 1 < len(pairs) <= _MOST_PLACES:
            yield from self._unify_in_any_order(pairs, found, name)
        else:
            yield from self._unify_all(pairs, found, name)

    def _layer_differs(self, asked: str, key: str, bindings: _Bindings) -> str | None:
        bound = bindings.layers.get(asked)
        if bound is not None and bound != key:
            return f"should be another call of '{bound}'"
        if bound is None and key in bindings.layers.values():
            return "is another call of a layer that is matched already"
        return self._likeness.differs(self._pattern.layers[asked], self._graph.layers[key])

    def _pairs(self, layer: Layer, asked: Call, call: Call) -> list[tuple[Any, Any]] | None:
        """Lists arguments side by side, but for what a model hands on to its calls."""
        wanted, given = (self._likeness.arguments(layer, each) for each in (asked, call))
        handed_on = self._likeness.context(layer) - wanted.keys()
        return paired_leaves(wanted, {k: v for k, v in given.items() if k not in handed_on})

    def _unify_in_any_order(
        self, pairs: list[tuple[Any, Any]], bindings: _Bindings, name: str
    ) -> Iterator[_Bindings]:
        """Yields ways in which arguments are found, whatever their order."""
        if not pairs:
            yield bindings
            return
        (asked, _), *rest = pairs
        for place, (_, given) in enumerate(pairs):
            others = [value for at, (_, value) in enumerate(pairs) if at != place]
            left = [(want, value) for (want, _), value in zip(rest, others, strict=True)]
            for found in self._unify_leaf(asked, given, bindings, name):
                yield from self._unify_in_any_order(left, found, name)

    def _unify_all(
        self, pairs: list[tuple[Any, Any]], bindings: _Bindings, name: str
    ) -> Iterator[_Bindings]:
        if not pairs:
            yield bindings
            return
        (asked, given), *rest = pairs
        for found in self._unify_leaf(asked, given, bindings, name):
            yield from self._unify_all(rest, found, name)

    def _unify_leaf(
        self, asked: Any, given: Any, bindings: _Bindings, name: str
    ) -> Iterator[_Bindings]:
        if not isinstance(asked, Ref):
            if isinstance(given, Ref) or not self._likeness.same_constant(asked, given):
                self._reasons.append((len(bindings.calls), f"'{name}' takes another constant"))
            else:
                yield bindings
        elif not isinstance(given, Ref):
            self._reasons.append((len(bindings.calls), f"'{name}' takes a constant"))
        elif asked in self._inputs:
            bound = bindings.tensors.get(asked, given)
            if bound == given:
                found = bindings.copy()
                found.tensors[asked] = given
                yield found
            else:
                reason = f"'{name}' reads '{given.call}', not '{bound.call}'"
                self._reasons.append((len(bindings.calls), reason))
        elif asked.index == given.index:
            yield from self._unify(asked.call, given.call, bindings)

    def _why_not(self, bindings: _Bindings, taken: set[str]) -> str | None:
        """Tells why what was found cannot be replaced."""
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
        """Returns what calls are given that the pattern leaves open, and who is not."""
        given: dict[str, dict[str, Any]] = {}
        for wanted, name in bindings.calls.items():
            asked, call = self._pattern.calls[wanted], self._graph.calls[name]
            layer = self._graph.layers[call.layer or ""]
            written = [self._likeness.arguments(layer, each) for each in (asked, call)]
            for key in self._likeness.context(layer) - written[0].keys():
                given.setdefault(key, {})[name] = written[1].get(key)
        found: dict[str, tuple[Any, str, str | None]] = {}
        for key, values in given.items():
            told = [name for name, value in values.items() if value is not None]
            if told:
                value = values[told[0]]
                odd = (name for name, other in values.items() if other != value)
                found[key] = value, told[0], next(odd, None)
        return found
