"""What becomes of the weights when a graph is built."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from ramet._arguments import check_word
from ramet.graph.names import brief
from ramet.results.base import Listing, Table

STATUSES = (
    "kept",
    "fitted",
    "moved",
    "grown",
    "cut",
    "computed",
    "brought",
    "fresh",
    "dropped",
)
"""What can become of a variable."""


@dataclass(frozen=True, slots=True, repr=False)
class Transfer:
    """What becomes of one variable.

    Examples:
        >>> report = ramet.trace(model).configure("head", units=5).transfer_report()
        >>> report.of("fresh")[0].path
        'head/kernel'
    """

    path: str
    """Path of the variable in the new model; in the old one if it is `dropped`."""
    shape: tuple[int, ...]
    """Its shape."""
    status: str
    """`kept` as it was; `fitted` from the layer before it, or from there `moved` to other
    places, `grown` or `cut`; `computed` by an edit from old ones; `brought` by a layer that
    has weights; `fresh`; or `dropped`."""
    source: str | None = None
    """Path of the variable that the value comes from, if it is another."""
    note: str | None = None
    """Why a fresh variable was not copied from the one of its name, if there was one."""

    def __repr__(self) -> str:
        """Return one line."""
        return brief("Transfer", f"'{self.path}' {self.shape}: {self.status}")


@dataclass(frozen=True, repr=False)
class TransferReport(Listing[Transfer]):
    """What becomes of every variable: a list. It prints a table of those that are not kept.

    Examples:
        >>> report = ramet.trace(model).configure("head", units=5).transfer_report()
        >>> len(report.of("fresh"))
        2
    """

    name: str
    """Name of the model."""
    transfers: tuple[Transfer, ...]
    """One entry per variable, in the model's order, and then the old ones that are dropped."""
    optimizer: str = "none: the source is not compiled"
    """What becomes of the optimizer and its slots, in words."""

    def of(self, status: str) -> list[Transfer]:
        """List the variables of one status.

        Raises:
            OptionError: If there is no such status.
        """
        check_word(status, "status", STATUSES)
        return [transfer for transfer in self.transfers if transfer.status == status]

    @property
    def ok(self) -> bool:
        """Whether no variable is fresh and none is dropped."""
        return not self.of("fresh") and not self.of("dropped")

    @property
    def title(self) -> str:
        """How many variables have each status, in words."""
        counts = Counter(transfer.status for transfer in self.transfers)
        order = [status for status in STATUSES if counts[status]]
        shown = ", ".join(f"{counts[status]} {status}" for status in order)
        return f"weights of '{self.name}': {shown or 'no variables'}"

    def table(self) -> Table:
        """Return one row per variable that is not kept."""
        rows = [
            (transfer.path, str(transfer.shape), transfer.status, _more(transfer))
            for transfer in self.transfers
            if transfer.status != "kept"
        ]
        columns = ("variable", "shape", "status", "note")
        return Table(self.title, columns, rows, [f"optimizer: {self.optimizer}"])

    def to_dict(self) -> dict[str, Any]:
        """Return what becomes of every variable as plain data, for JSON."""
        return {
            "name": self.name,
            "ok": self.ok,
            "transfers": [asdict(transfer) for transfer in self.transfers],
            "optimizer": self.optimizer,
        }

    def _items(self) -> tuple[Transfer, ...]:
        return self.transfers


def _more(transfer: Transfer) -> str:
    return transfer.note or "" if transfer.source is None else f"from {transfer.source}"
