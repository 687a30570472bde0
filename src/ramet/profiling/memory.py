"""How many bytes of tensors are alive while the calls of a model are made."""

from collections import Counter
from collections.abc import Iterable

from ramet.graph import Graph, Ref
from ramet.graph.reach import written_calls
from ramet.graph.tree import leaves


class Buffer:
    """The memory of one tensor, or of several that are views of it."""

    __slots__ = ("holders", "nbytes")

    def __init__(self, nbytes: int) -> None:
        """Take the number of bytes."""
        self.nbytes = nbytes
        self.holders = 0


class Memory:
    """The bytes that are alive, and the most that were."""

    def __init__(self) -> None:
        """Start without tensors."""
        self.alive = 0
        self.peak = 0

    def hold(self, buffer: Buffer) -> None:
        """Keep a buffer alive."""
        if not buffer.holders:
            self.alive += buffer.nbytes
            self.peak = max(self.peak, self.alive)
        buffer.holders += 1

    def release(self, buffer: Buffer) -> None:
        """Let go of a buffer; it is freed if nothing else holds it."""
        buffer.holders -= 1
        if not buffer.holders:
            self.alive -= buffer.nbytes


class Holders:
    """Which tensors of a graph are still needed, call by call."""

    def __init__(self, graph: Graph, memory: Memory) -> None:
        """Count how often each tensor is used."""
        calls = written_calls(graph)
        self._memory = memory
        self._uses = Counter(ref for call in calls for ref in call.written_refs)
        self._uses.update(leaf for leaf in leaves(graph.outputs) if isinstance(leaf, Ref))
        self._buffers: dict[Ref, Buffer] = {}

    def hold(self, ref: Ref, buffer: Buffer) -> None:
        """Keep the buffer of a tensor alive."""
        self._memory.hold(buffer)
        self._buffers[ref] = buffer

    def buffer(self, ref: Ref) -> Buffer:
        """Return the buffer of a tensor."""
        return self._buffers[ref]

    def used(self, refs: Iterable[Ref]) -> None:
        """Note that tensors were used once more; what is not needed any more is released."""
        refs = [*refs]
        self._uses.subtract(refs)
        self.drop_unused(refs)

    def drop_unused(self, refs: Iterable[Ref]) -> None:
        """Release those of some tensors that nothing uses any more."""
        for ref in dict.fromkeys(refs):
            if self._uses[ref] <= 0 and ref in self._buffers:
                self._memory.release(self._buffers.pop(ref))
