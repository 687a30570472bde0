"""Where a small graph, the pattern, is found in a larger one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ramet.graph.parts import Call, Layer, Ref
from ramet.graph.reach import written_calls
from ramet.graph.tree import leaves, paired_leaves

if TYPE_CHECKING:
    from ramet.graph.core import Graph

_COMMUTES = ("Add", "Multiply", "Average", "Maximum", "Minimum")
"""Layers and operations whose two arguments can change places."""


@dataclass(frozen=True)
class Match:
    """One place where the pattern was found."""

    calls: dict[str, str]
    """Calls of the graph, by those of the pattern."""
    layers: dict[str, str]
    """Layers of the graph, by those of the pattern."""
    tensors: dict[Ref, Ref]
    """Tensors of the graph, by the inputs of the pattern."""


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

    def __init__(
        self, graph: "Graph", pattern: "Graph", differs: Callable[[Layer, Layer], str | None]
    ) -> None:
        """Prepares the search.

        Args:
            graph: Where to search.
            pattern: What to search for.
            differs: Tells why a layer is not what one of the pattern asks for.
        """
        self._graph = graph
        self._pattern = pattern
        self._differs = differs
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
                    match = Match(bindings.calls, bindings.layers, bindings.tensors)
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
        for pairs in self._pairings(asked, call):
            yield from self._unify_all(pairs, found, name)

    def _layer_differs(self, asked: str, key: str, bindings: _Bindings) -> str | None:
        bound = bindings.layers.get(asked)
        if bound is not None and bound != key:
            return f"should be another call of '{bound}'"
        if bound is None and key in bindings.layers.values():
            return "is another call of a layer that is matched already"
        return self._differs(self._pattern.layers[asked], self._graph.layers[key])

    def _pairings(self, asked: Call, call: Call) -> Iterator[list[tuple[Any, Any]]]:
        """Yields arguments side by side, in the other order too where that is the same."""
        trees = [(each.args, _written_kwargs(each)) for each in (asked, call)]
        pairs = paired_leaves(*trees)
        if pairs is None:
            self._reasons.append((1, f"'{call.name}' takes other arguments"))
            return
        yield pairs
        kind = self._graph.layers[call.layer or ""].kind
        if kind in _COMMUTES and len(pairs) == len(("first", "second")):
            (a, x), (b, y) = pairs
            yield [(a, y), (b, x)]

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
            if isinstance(given, Ref) or not _equal(asked, given):
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
        return None


def _written_kwargs(call: Call) -> dict[str, Any]:
    return {key: item for key, item in call.kwargs.items() if key not in call.derived}


def _equal(first: Any, second: Any) -> bool:
    if first is second:
        return True
    try:
        return type(first) is type(second) and bool(first == second)
    except (TypeError, ValueError):
        return False
