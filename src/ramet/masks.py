"""`masks`: where masks come from, who uses them, and where they are lost."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ramet.bridge import internals
from ramet.bridge.live import is_edited, live_of
from ramet.bridge.masking.flow import Flow
from ramet.bridge.masking.lint import Finding, findings
from ramet.bridge.masking.numbering import Place
from ramet.bridge.masking.training import unmasked_outputs
from ramet.bridge.trace import trace
from ramet.graph import Graph, Spec
from ramet.graph.html import html_table
from ramet.graph.names import counted
from ramet.graph.tree import leaves

__all__ = ["Finding", "MaskFlow", "TensorMask", "masks"]

_COLUMNS = ("tensor", "shape", "mask from", "used by", "dropped at")


@dataclass(frozen=True, slots=True)
class TensorMask:
    """One tensor, and what becomes of the mask that it carries."""

    path: str
    """Path of the call that makes the tensor: `encoder/lstm` in a nested model."""
    index: int
    """Which of the call's outputs it is."""
    spec: Spec = field(compare=False)
    """What is known of the tensor."""
    sources: tuple[str, ...] = ()
    """Paths of the calls that first made its mask; empty if it carries none."""
    users: tuple[str, ...] = ()
    """Paths of the calls that get its mask as an argument, and use it."""
    dropped_at: tuple[str, ...] = ()
    """Paths of the calls that read the tensor and lose its mask."""
    passed_to: tuple[str, ...] = ()
    """Paths of the calls that the author passed the tensor to as a mask."""
    is_output: bool = False
    """Whether it leaves the model, so that losses and metrics see its mask."""

    @property
    def masked(self) -> bool:
        """Whether the tensor carries a mask."""
        return bool(self.sources)


@dataclass(frozen=True, slots=True)
class MaskFlow:
    """What `masks` found. Printed, it is a table."""

    name: str
    """Name of the model."""
    tensors: tuple[TensorMask, ...]
    """Every tensor that the author's calls make, those of nested models included."""
    findings: tuple[Finding, ...]
    """What is wrong, or may be."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        """Returns the tensors that have to do with masks, and the findings, as text."""
        return self.text()

    def text(self, *, every: bool = False) -> str:
        """Returns the flow as a table of plain text.

        Args:
            every: Whether to show the tensors that have nothing to do with masks too.
        """
        rows = self._rows(every=every)
        if not rows and self.ok:
            return self._nothing()
        lines = [self._title(), *(f"  {line}" for line in _table(rows)), *self._notes()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Returns the tensors that have to do with masks as a table, for notebooks."""
        rows = self._rows(every=False)
        if not rows and self.ok:
            return html_table(self._nothing(), (), ())
        return html_table(self._title(), _COLUMNS, rows, self._notes())

    def _nothing(self) -> str:
        return f"no masks in '{self.name}'"

    def _title(self) -> str:
        carrying = sum(tensor.masked for tensor in self.tensors)
        return f"masks in '{self.name}': {carrying} of {counted(len(self.tensors), 'tensor')}"

    def _rows(self, *, every: bool) -> list[tuple[str, ...]]:
        several = {tensor.path for tensor in self.tensors if tensor.index}
        shown = [t for t in self.tensors if every or t.masked or t.passed_to]
        return [_row(tensor, numbered=tensor.path in several) for tensor in shown]

    def _notes(self) -> list[str]:
        notes: list[str] = []
        for number, finding in enumerate(self.findings, 1):
            notes.append(f"{number}. {finding.kind}: {finding.message}")
            notes.append(f"   remedy: {finding.remedy}")
        return notes or ["no findings"]


def masks(model: Any) -> MaskFlow:
    """Follows the masks through a model, and finds where they go wrong.

    For a compiled model, also where losses and metrics see outputs without their masks.
    The model is read, not called and not changed. Costs O(calls), those of a nested
    model counted once per use of it. The masks of a Graph that was edited are not known
    before it is built, so it is, on the weights that it shares with its model.

    Args:
        model: A model that can be traced, or a Graph.

    Returns:
        The flow: `flow.ok`, `flow.findings`, `flow.tensors`, `print(flow)`.

    Raises:
        ModelError: If it is not a model, or one that has no graph.
    """
    graph = trace(model)
    if is_edited(graph):
        graph = trace(graph.build(weights="share"))
    flow = Flow()
    with internals.room_for(graph):
        flow.follow(graph)
        unmasked = unmasked_outputs(flow, graph, live_of(graph).model)
    found = tuple(findings(flow, unmasked))
    return MaskFlow(graph.name, tuple(_tensors(flow, graph)), found)


def _tensors(flow: Flow, graph: Graph) -> Iterator[TensorMask]:
    outputs: set[Place] = {("", ref) for ref in leaves(graph.outputs)}
    for place, spec in flow.specs.items():
        prefix, ref = place
        mask = flow.carries[place].mask
        yield TensorMask(
            path=f"{prefix}{ref.call}",
            index=ref.index,
            spec=spec,
            sources=() if mask is None else mask.sources,
            users=tuple(flow.users.get(place, ())),
            dropped_at=tuple(flow.droppers.get(place, ())),
            passed_to=tuple(flow.takers.get(place, ())),
            is_output=place in outputs,
        )


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    rows = [_COLUMNS, *rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _row(tensor: TensorMask, *, numbered: bool) -> tuple[str, ...]:
    used = [*tensor.users, *(f"{path} (passed)" for path in tensor.passed_to)]
    if tensor.is_output and tensor.masked:
        used.append("(output)")
    return (
        f"{tensor.path}.{tensor.index}" if numbered else tensor.path,
        f"[{', '.join(map(str, tensor.spec.shape))}]",
        ", ".join(tensor.sources) or "-",
        ", ".join(used) or "-",
        ", ".join(tensor.dropped_at) or "-",
    )
