"""Names for the tensors of a function: `x` along a chain, a name of its own where it stays."""

from collections import Counter
from dataclasses import dataclass, field

from ramet.bridge.source.expr import Leaf, bare_name
from ramet.bridge.source.names import Scope
from ramet.graph import Call, Ref
from ramet.graph.tree import Tree, leaves

_SHORT = ("x", "y", "z")
"""Names of tensors that are read once, the next one where the one before is still in use."""


@dataclass
class Tensors:
    """Which name each tensor has, while a function is written call by call."""

    scope: Scope
    calls: list[Call]
    """The calls in the order in which they are written."""
    outputs: Tree
    names: dict[Ref, Leaf] = field(default_factory=dict[Ref, Leaf])
    """What a tensor is written as."""
    _last: dict[Ref, int] = field(default_factory=dict[Ref, int])
    _readers: Counter[Ref] = field(default_factory=Counter[Ref])
    _holders: dict[str, Ref] = field(default_factory=dict[str, Ref])

    def __post_init__(self) -> None:
        """Counts who reads what, and when it is read last."""
        for position, call in enumerate(self.calls):
            for ref in dict.fromkeys(call.written_refs):
                self._readers[ref] += 1
                self._last[ref] = position
        for ref in leaves(self.outputs):
            self._readers[ref] += 1
            self._last[ref] = len(self.calls)
        self.scope.taken.update(_SHORT)

    def is_read(self, ref: Ref) -> bool:
        """Tells whether a tensor is used at all."""
        return self._readers[ref] > 0

    def name(self, ref: Ref, position: int, wanted: str) -> Leaf:
        """Names a tensor that the call at a position makes."""
        self.names[ref] = found = self._choose(ref, position, wanted)
        return found

    def _choose(self, ref: Ref, position: int, wanted: str) -> Leaf:
        if self.outputs == ref and self._readers[ref] == 1:
            return self.scope.new("outputs")
        if self._readers[ref] == 1 and self._last[ref] < len(self.calls):
            for short in _SHORT:
                holder = self._holders.get(short)
                if holder is None or self._last[holder] <= position:
                    self._holders[short] = ref
                    return bare_name(short)
        return self.scope.new(wanted)
