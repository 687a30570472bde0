"""What `masks` returns."""

from dataclasses import asdict, dataclass, field
from typing import Any

from ramet._arguments import check_flag
from ramet.graph.data import Spec
from ramet.graph.names import brief, counted, listed
from ramet.results.base import Listing, Table
from ramet.text.console import as_text


@dataclass(frozen=True, slots=True, repr=False)
class Finding:
    """Something about masks that is wrong, or may be.

    Examples:
        >>> tokens = keras.Input((5,), dtype="int32", name="tokens")
        >>> words = layers.Embedding(100, 8, mask_zero=True, name="words")(tokens)
        >>> flat = keras.ops.reshape(words, (-1, 5, 8))  # operations drop masks
        >>> tagger = keras.Model(tokens, layers.LSTM(4, name="lstm")(flat), name="tagger")
        >>> [finding.kind for finding in ramet.masks(tagger)]
        ['dropped']
    """

    kind: str
    """`dropped`, `unused`, `mismatched`, `overridden` or `frozen`."""
    layers: tuple[str, ...]
    """Paths of the calls concerned; the origin of the mask comes first."""
    message: str
    """What happens, and where."""
    remedy: str
    """What can be done about it."""

    def __repr__(self) -> str:
        """Return one line."""
        return brief("Finding", f"{self.kind}: {self.message}")


@dataclass(frozen=True, slots=True, repr=False)
class TensorMask:
    """One tensor, and what happens to its mask.

    Examples:
        >>> ramet.masks(model).tensors[0].masked
        False
    """

    path: str
    """Path of the call that computes the tensor: `encoder/lstm` in a nested model."""
    index: int
    """Which of the call's outputs it is."""
    spec: Spec = field(compare=False)
    """What is known of the tensor."""
    sources: tuple[str, ...] = ()
    """Paths of the calls that created its mask; empty if it carries none."""
    users: tuple[str, ...] = ()
    """Paths of the calls that receive its mask as an argument, and use it."""
    dropped_at: tuple[str, ...] = ()
    """Paths of the calls that read the tensor and lose its mask."""
    passed_to: tuple[str, ...] = ()
    """Paths of the calls to which the user passed the tensor as a mask."""
    is_output: bool = False
    """Whether it leaves the model, so that losses and metrics see its mask."""

    def __repr__(self) -> str:
        """Return the tensor and where its mask comes from, on one line."""
        mask = f"mask from {listed(self.sources)}" if self.sources else "no mask"
        return brief("TensorMask", f"'{self.path}.{self.index}': {mask}")

    @property
    def masked(self) -> bool:
        """Whether the tensor carries a mask."""
        return bool(self.sources)


@dataclass(frozen=True, slots=True, repr=False)
class MaskFlow(Listing[Finding]):
    """What `masks` found: a list of findings, true in a condition if there are any.

    Examples:
        >>> flow = ramet.masks(model)
        >>> flow.ok, len(flow)
        (True, 0)
    """

    name: str
    """Name of the model."""
    tensors: tuple[TensorMask, ...]
    """Every tensor computed by a call that the user wrote, also in nested models."""
    findings: tuple[Finding, ...]
    """What is wrong, or may be."""

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def title(self) -> str:
        """How many tensors carry masks, in words."""
        if not any(map(_is_of_masks, self.tensors)) and self.ok:
            return f"no masks in '{self.name}'"
        carrying = sum(tensor.masked for tensor in self.tensors)
        return f"masks in '{self.name}': {carrying} of {counted(len(self.tensors), 'tensor')}"

    def text(self, *, every: bool = False) -> str:
        """Return the flow as a table of plain text.

        Args:
            every: Whether to show also tensors without masks.
        """
        return as_text(self.table(every=every))

    def table(self, *, every: bool = False) -> Table:
        """Return one row per tensor that has to do with masks, and the findings below.

        Args:
            every: Whether to return rows for all other tensors.
        """
        check_flag(every, "every")
        several = {tensor.path for tensor in self.tensors if tensor.index}
        shown = [tensor for tensor in self.tensors if every or _is_of_masks(tensor)]
        rows = [_row(tensor, numbered=tensor.path in several) for tensor in shown]
        columns = ("tensor", "shape", "mask from", "used by", "dropped at")
        return Table(self.title, columns, rows, self._notes() if rows or not self.ok else ())

    def to_dict(self) -> dict[str, Any]:
        """Return tensors and findings as plain data, for JSON."""
        return {
            "name": self.name,
            "ok": self.ok,
            "findings": [asdict(finding) for finding in self.findings],
            "tensors": [_data(tensor) for tensor in self.tensors],
        }

    def _items(self) -> tuple[Finding, ...]:
        return self.findings

    def _notes(self) -> list[str]:
        notes: list[str] = []
        for number, finding in enumerate(self.findings, 1):
            notes.append(f"{number}. {finding.kind}: {finding.message}")
            notes.append(f"   remedy: {finding.remedy}")
        return notes or ["no findings"]


def _is_of_masks(tensor: TensorMask) -> bool:
    return tensor.masked or bool(tensor.passed_to)


def _data(tensor: TensorMask) -> dict[str, Any]:
    return {
        "path": tensor.path,
        "index": tensor.index,
        "shape": [*tensor.spec.shape],
        "sources": [*tensor.sources],
        "users": [*tensor.users],
        "dropped_at": [*tensor.dropped_at],
        "passed_to": [*tensor.passed_to],
        "is_output": tensor.is_output,
    }


def _row(tensor: TensorMask, *, numbered: bool) -> tuple[str, ...]:
    used = [*tensor.users, *(f"{path} (passed)" for path in tensor.passed_to)]
    if tensor.is_output and tensor.masked:
        used.append("(output)")
    return (
        f"{tensor.path}.{tensor.index}" if numbered else tensor.path,
        f"[{', '.join(map(str, tensor.spec.shape))}]",
        ", ".join(tensor.sources),
        ", ".join(used),
        ", ".join(tensor.dropped_at),
    )
