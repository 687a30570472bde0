"""What is known of a file with a model whose class nobody has, and whose graph only it knows."""

import math
from dataclasses import dataclass
from typing import Any

from ramet.graph.names import counted
from ramet.results.base import Result, Table


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """An array in a file."""

    path: str
    """Where it is in the file, such as `encoder/dense/0`."""
    shape: tuple[int, ...]
    """Its shape."""
    dtype: str
    """Its dtype."""

    @property
    def size(self) -> int:
        """How many values it has."""
        return math.prod(self.shape)


@dataclass(frozen=True, repr=False)
class Inventory(Result):
    """The weights in a file."""

    name: str
    """Name of the model."""
    kind: str
    """Name of its class."""
    weights: tuple[StoredWeight, ...]
    """The weights, in the order of their paths."""
    note: str
    """Why more is not known."""

    @property
    def ok(self) -> bool:
        """Return False: the file does not say how the layers of the model are connected."""
        return False

    @property
    def title(self) -> str:
        """How many weights there are, in words."""
        total = sum(weight.size for weight in self.weights)
        return (
            f"{self.name} ({self.kind}): {counted(len(self.weights), 'weight')}, {total:,} values"
        )

    def table(self) -> Table:
        """Return one row per weight."""
        rows = [(w.path, str(w.shape), w.dtype, f"{w.size:,}") for w in self.weights]
        columns = ("weight", "shape", "dtype", "values")
        return Table(self.title, columns, rows, (self.note,), frozenset({"values"}))

    def to_dict(self) -> dict[str, Any]:
        """Return the weights as plain data, for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "weights": [
                {"path": w.path, "shape": [*w.shape], "dtype": w.dtype} for w in self.weights
            ],
            "note": self.note,
        }
