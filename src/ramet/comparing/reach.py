"""Which differences between a model and an edited graph the edits explain."""

from dataclasses import dataclass, field

import keras

from ramet.comparing.alignment.align import Alignment
from ramet.comparing.alignment.nodes import Node
from ramet.comparing.running.outputs import OutputPath, RunDifference, leaves_by_path
from ramet.graph import Graph, Ref
from ramet.graph.reach import retrained_calls, unsettled_calls
from ramet.tracing.origin import live_of


@dataclass
class EditReach:
    """What the edits of a graph reach."""

    graph: Graph
    """The edited graph."""
    side: int
    """Which of the two models it builds: 0 or 1."""
    alignment: Alignment | None = None
    """Which calls of the two models belong together."""
    calls: frozenset[str] = field(init=False)
    """Names of the calls at or below an edit."""
    retrained: frozenset[str] = field(init=False)
    """Names of the calls that edits reach in training: freezing changes nothing else."""

    def __post_init__(self) -> None:
        """Find the calls."""
        self.calls = frozenset(unsettled_calls(self.graph))
        self.retrained = frozenset(retrained_calls(self.graph))

    def explains(self, difference: RunDifference, *, training: bool) -> bool:
        """Whether an edit reaches what the models compute otherwise."""
        reached = self.retrained if training else self.calls
        if difference.output is not None:
            return self._is_changed(difference.output, reached)
        if difference.owners is None:  # one of the models fails
            return bool(reached)
        key = difference.owners[self.side].partition("/")[0]
        calls = {call.name for call in self.graph.calls.values() if call.layer == key}
        if key not in self.graph.layers or calls & reached:
            return True
        return self._is_called_more_or_less(difference.owners)

    def _is_called_more_or_less(self, owners: tuple[str, str]) -> bool:
        """Whether a layer, which may be updated in each call, has more calls in one model."""
        if self.alignment is None:
            return False
        keys = (path.partition("/")[0] for path in owners)
        orders = (nodes.order for nodes in self.alignment.nodes)
        counts = {
            sum(node.key == key for node in order) for key, order in zip(keys, orders, strict=True)
        }
        return len(counts) > 1

    def _is_changed(self, path: OutputPath, reached: frozenset[str]) -> bool:
        """Whether an edit reaches an output, or made it another tensor."""
        ends = dict(leaves_by_path(self.graph.outputs))
        if path not in ends or ends[path].call in reached:
            return True
        read = live_of(self.graph).graph
        if read is None:  # A part: its outputs are what the cut asked for.
            return self._is_unpaired(path)
        olds = dict(leaves_by_path(read.outputs))
        if path not in olds:
            return True
        old, new = _origins(read, olds[path]), _origins(self.graph, ends[path])
        # A model that was inlined is no step on the way any more.
        shorter = min(len(old), len(new))
        return old[-shorter:] != new[-shorter:]

    def _is_unpaired(self, path: OutputPath) -> bool:
        """Whether two models return tensors of different calls at one place."""
        level = self.alignment
        if level is None:
            return False
        tensors: list[tuple[Node, int]] = []
        for graph, nodes in zip((level.first, level.second), level.nodes, strict=True):
            ends = dict(leaves_by_path(graph.outputs))
            if path not in ends:
                return True
            tensors.append(nodes.tensors[ends[path]])
        (old, index), (new, other) = tensors
        return index != other or all(a is not old or b is not new for a, b in level.pairing)


def _origins(graph: Graph, ref: Ref) -> list[tuple[int, int]]:
    """Return the live calls that return a tensor, each inside the one before."""
    origins: list[tuple[int, int]] = []
    while True:
        call = graph.calls[ref.call]
        origins.append((id(call.origin), ref.index))
        inner = None if call.layer is None else graph.layers[call.layer].graph
        if inner is None:
            return origins
        graph, ref = inner, keras.tree.flatten(inner.outputs)[ref.index]
