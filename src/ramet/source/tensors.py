"""Names for the tensors of a function: `x` along a chain, or a name of their own."""

from collections import Counter
from dataclasses import dataclass, field

from ramet.graph import Call, Ref
from ramet.graph.tree import Tree, leaves
from ramet.source.expr import Leaf, bare_name
from ramet.source.names import Scope

_SHORT = ("x", "y", "z")
"""Names of tensors that are used once: the next where the one before is still in use."""


@dataclass
class Tensors:
    """The name of each tensor, while a function is written call by call."""

    scope: Scope
    calls: list[Call]
    """The calls in the order in which they are written."""
    outputs: Tree
    names: dict[Ref, Leaf] = field(default_factory=dict[Ref, Leaf])
    """What a tensor is written as."""
    _last: dict[Ref, int] = field(default_factory=dict[Ref, int])
    _readers: Counter[Ref] = field(default_factory=Counter[Ref])
    _holders: dict[str, Ref] = field(default_factory=dict[str, Ref])
    _short: tuple[str, ...] = _SHORT

    def __post_init__(self) -> None:
        """Count the consumers of each tensor, and find the last."""
        for position, call in enumerate(self.calls):
            for ref in dict.fromkeys(call.written_refs):
                self._readers[ref] += 1
                self._last[ref] = position
        for ref in leaves(self.outputs):
            self._readers[ref] += 1
            self._last[ref] = len(self.calls)
        inputs = {call.name for call in self.calls if not call.refs}
        self._short = tuple(short for short in _SHORT if short not in inputs)
        self.scope.taken.update(self._short)

    def is_read(self, ref: Ref) -> bool:
        """Whether a tensor is used at all."""
        return self._readers[ref] > 0

    def is_used_once(self, ref: Ref) -> bool:
        """Whether exactly one call uses a tensor, and it is not an output of the model."""
        return self._readers[ref] == 1 and self._last[ref] < len(self.calls)

    def name(self, ref: Ref, position: int, wanted: str) -> Leaf:
        """Name an output of the call at a position."""
        self.names[ref] = name = self._choose(ref, position, wanted)
        return name

    def _choose(self, ref: Ref, position: int, wanted: str) -> Leaf:
        if self.outputs == ref and self._readers[ref] == 1:
            return self.scope.new("outputs")
        if self._readers[ref] == 1 and self._last[ref] < len(self.calls):
            for short in self._short:
                holder = self._holders.get(short)
                if holder is None or self._last[holder] <= position:
                    self._holders[short] = ref
                    return bare_name(short)
        return self.scope.new(wanted)
