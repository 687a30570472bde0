"""What became of the weights when a graph was built."""

from collections import Counter
from dataclasses import dataclass

STATUSES = ("kept", "fitted", "moved", "grown", "cut", "brought", "fresh", "dropped")
"""What can become of a variable."""

_WIDTH = 80


@dataclass(frozen=True, slots=True)
class Transfer:
    """What became of one variable."""

    path: str
    """Path of the variable in the new model; in the old one if it is `dropped`."""
    shape: tuple[int, ...]
    """Its shape."""
    status: str
    """`kept` as it was; `fitted` from the layer before it, or from there `moved` to other
    places, `grown` or `cut`; `brought` by a layer that has weights; `fresh`; or `dropped`."""
    source: str | None = None
    """Path of the variable that the value comes from, if it is another."""
    note: str | None = None
    """Why a fresh variable did not take over the one of its name, if there was one."""


@dataclass(frozen=True)
class TransferReport:
    """What became of every variable. `print` gives a table of all that are not kept."""

    name: str
    """Name of the model."""
    transfers: tuple[Transfer, ...]
    """One entry per variable, in the model's order, and then the old ones that are dropped."""
    optimizer: str = "none: the source is not compiled"
    """What became of the optimizer and its slots, in words."""

    def of(self, status: str) -> list[Transfer]:
        """Lists the variables of one status."""
        return [transfer for transfer in self.transfers if transfer.status == status]

    def __str__(self) -> str:
        """Returns the counts, and a line or two for every variable that is not kept."""
        counts = Counter(transfer.status for transfer in self.transfers)
        order = [status for status in STATUSES if counts[status]]
        shown = ", ".join(f"{counts[status]} {status}" for status in order) or "no variables"
        head = f"weights of '{self.name}': {shown}"
        lines = [head] if len(head) <= _WIDTH else [f"weights of '{self.name}':", f"  {shown}"]
        rows = [transfer for transfer in self.transfers if transfer.status != "kept"]
        width = max((len(row.path) for row in rows if len(row.path) <= _WIDTH // 2), default=0)
        for row in rows:
            lines += _row(row, width)
        return "\n".join([*lines, f"optimizer: {self.optimizer}"])


def _row(row: Transfer, width: int) -> list[str]:
    """Returns what became of one variable, on as few lines as fit."""
    tail = f"{row.status} {row.shape}"
    more = f"from {row.source}" if row.source is not None else row.note or ""
    whole = f"  {row.path:<{width}}  {tail} {more}".rstrip()
    if len(whole) <= _WIDTH:
        return [whole]
    first = f"  {row.path:<{width}}  {tail}"
    lines = [first] if len(first) <= _WIDTH else [f"  {_cut(row.path, 2)}", f"      {tail}"]
    return [*lines, f"      {_cut(more, 6)}"] if more else lines


def _cut(text: str, indent: int) -> str:
    """Shortens a text from its middle, where paths say least."""
    room = _WIDTH - indent
    if len(text) <= room:
        return text
    half = (room - 3) // 2
    return f"{text[:half]}...{text[-half:]}"
