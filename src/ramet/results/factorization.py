"""What `ramet.compress.factorizable` returns."""

from dataclasses import asdict, dataclass
from typing import Any

from ramet.graph.names import brief, counted
from ramet.results.base import Listing, Table


@dataclass(frozen=True, slots=True, repr=False)
class Factored:
    """What factorize does to one layer.

    Examples:
        >>> (conv,) = ramet.compress.factorizable(model, at="conv", rank=1)
        >>> conv.ranks, conv.before, conv.after
        ((1, 1), 108, 16)
    """

    place: str
    """Path of the layer."""
    kind: str
    """Name of its class."""
    ranks: tuple[int, ...]
    """The ranks that are kept: of a convolution, of the input and output channels that change;
    empty if it is left alone."""
    error: float
    """The norm of what the kernel loses, relative to its own."""
    before: int
    """How many parameters the kernel has."""
    after: int
    """How many the factors have."""
    reason: str = ""
    """Why it is left alone; empty if it is factorized."""

    @property
    def is_factorized(self) -> bool:
        """Whether the layer becomes several."""
        return not self.reason

    def __str__(self) -> str:
        """Return what happens, in words."""
        what = f"'{self.place}' ({self.kind})"
        if self.reason:
            return f"{what} is left alone: {self.reason}"
        ranks = " x ".join(map(str, self.ranks))
        sizes = f"{self.before:,} parameters → {self.after:,}"
        return f"{what} to rank {ranks}: {sizes}, error {self.error:.2g}"

    def __repr__(self) -> str:
        """Return what happens, on one line."""
        return brief("Factored", str(self))


@dataclass(frozen=True, repr=False)
class Factorization(Listing[Factored]):
    """What factorize does, layer by layer: a list.

    Examples:
        >>> listing = ramet.compress.factorizable(model, at="conv", rank=1)
        >>> listing.saved
        92
    """

    name: str
    """Name of the model."""
    layers: tuple[Factored, ...]
    """One entry for each layer that was chosen."""

    @property
    def factorized(self) -> list[Factored]:
        """The layers that become several."""
        return [each for each in self.layers if each.is_factorized]

    @property
    def kept(self) -> list[Factored]:
        """The layers that are left alone; each with the reason."""
        return [each for each in self.layers if not each.is_factorized]

    @property
    def saved(self) -> int:
        """How many parameters fewer there are."""
        return sum(each.before - each.after for each in self.layers)

    @property
    def ok(self) -> bool:
        """Whether no chosen layer is left alone."""
        return not self.kept

    @property
    def title(self) -> str:
        """How many layers are factorized, and what that saves, in words."""
        count = counted(len(self.factorized), "layer")
        return f"'{self.name}': {count} factorized, {self.saved:,} parameters fewer"

    def table(self) -> Table:
        """Return one row per layer."""
        rows = [
            (
                each.place,
                each.kind,
                " x ".join(map(str, each.ranks)),
                "" if each.reason else f"{each.error:.2g}",
                f"{each.before:,}",
                f"{each.after:,}",
                each.reason,
            )
            for each in self.layers
        ]
        columns = ("layer", "class", "rank", "error", "before", "after", "why not")
        return Table(self.title, columns, rows, numbers=frozenset({"error", "before", "after"}))

    def to_dict(self) -> dict[str, Any]:
        """Return what becomes of each layer as plain data, for JSON."""
        return {
            "name": self.name,
            "ok": self.ok,
            "saved": self.saved,
            "layers": [{**asdict(each), "ranks": [*each.ranks]} for each in self.layers],
        }

    def _items(self) -> tuple[Factored, ...]:
        return self.layers
