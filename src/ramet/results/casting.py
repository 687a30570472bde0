"""What `ramet.adapt.cast` returns with `explain=True`."""

from dataclasses import asdict, dataclass
from typing import Any

from ramet.graph.names import brief, counted
from ramet.results.base import Listing, Table


@dataclass(frozen=True, slots=True, repr=False)
class CastLayer:
    """What becomes of one layer.

    Examples:
        >>> costs = ramet.adapt.cast(model, "head", "bfloat16", explain=True)
        >>> costs.layers[0].policy, costs.layers[0].then, costs.layers[0].after
        ('float32', 'bfloat16', 30)
    """

    path: str
    """Its path."""
    kind: str
    """Its class."""
    policy: str
    """Its dtype policy before."""
    then: str
    """Its dtype policy afterwards."""
    before: int
    """Bytes of its weights."""
    after: int
    """Bytes of its weights afterwards."""
    reason: str | None = None
    """Why it stays as it is, if it does."""

    def __repr__(self) -> str:
        """Return one line."""
        return brief("CastLayer", f"'{self.path}' {self.policy} → {self.then}")


@dataclass(frozen=True, repr=False)
class Casting(Listing[CastLayer]):
    """Which layers get another dtype policy, and what that changes. True if any do.

    Examples:
        >>> costs = ramet.adapt.cast(model, "head", "mixed_bfloat16", explain=True)
        >>> [layer.path for layer in costs], costs.difference < 0.05
        (['head'], True)
    """

    name: str
    """Name of the model."""
    layers: tuple[CastLayer, ...]
    """Those that change, in the order of the model."""
    left: tuple[CastLayer, ...]
    """Those that stay as they are though they were named, each with its reason."""
    difference: float
    """How far the outputs are off, relative to their size, on the data or on generated inputs."""

    @property
    def ok(self) -> bool:
        """Whether all outputs are finite where they were."""
        return self.difference < float("inf")

    @property
    def title(self) -> str:
        """How many layers change, the bytes of their weights, and the difference."""
        sizes = sum(each.before for each in self.layers), sum(each.after for each in self.layers)
        return (
            f"'{self.name}': {counted(len(self.layers), 'layer')} cast, {sizes[0]:,} → "
            f"{sizes[1]:,} bytes, outputs differ by {self.difference:.2g} of their size"
        )

    def table(self) -> Table:
        """Return one row per layer."""
        rows = [
            (each.path, each.kind, each.policy, each.then, f"{each.before:,}", f"{each.after:,}")
            for each in self.layers
        ]
        notes = [f"left as it is: '{each.path}' ({each.kind}): {each.reason}" for each in self.left]
        columns = ("layer", "class", "policy", "then", "bytes", "bytes then")
        return Table(self.title, columns, rows, notes, frozenset(columns[4:]))

    def to_dict(self) -> dict[str, Any]:
        """Return the layers and the difference as plain data, for JSON."""
        return {
            "name": self.name,
            "ok": self.ok,
            "difference": self.difference,
            "layers": [asdict(layer) for layer in self.layers],
            "left": [asdict(layer) for layer in self.left],
        }

    def _items(self) -> tuple[CastLayer, ...]:
        return self.layers
