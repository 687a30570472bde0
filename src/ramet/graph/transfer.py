"""What became of the weights when a graph was built."""

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transfer:
    """What became of one variable."""

    path: str
    """Path of the variable in the new model."""
    shape: tuple[int, ...]
    """Its shape."""
    status: str
    """`kept` as it was, `fitted` from the layer before it, `grown` or `cut`, or `fresh`."""
    source: str | None = None
    """Path of the variable that the value comes from, if it is another."""


@dataclass(frozen=True)
class TransferReport:
    """What became of every variable. `print` gives a table of all that are not kept."""

    name: str
    """Name of the model."""
    transfers: tuple[Transfer, ...]
    """One entry per variable, in the model's order."""

    def of(self, status: str) -> list[Transfer]:
        """Lists the variables of one status."""
        return [transfer for transfer in self.transfers if transfer.status == status]

    def __str__(self) -> str:
        """Returns the counts, and a line for every variable that is not kept."""
        counts = Counter(transfer.status for transfer in self.transfers)
        order = [s for s in ("kept", "fitted", "grown", "cut", "fresh") if counts[s]]
        shown = ", ".join(f"{counts[status]} {status}" for status in order) or "no variables"
        lines = [f"weights of '{self.name}': {shown}"]
        rows = [transfer for transfer in self.transfers if transfer.status != "kept"]
        width = max((len(transfer.path) for transfer in rows), default=0)
        for row in rows:
            source = "" if row.source is None else f" from {row.source}"
            lines.append(f"  {row.path:<{width}}  {row.status} {row.shape}{source}")
        return "\n".join(lines)
