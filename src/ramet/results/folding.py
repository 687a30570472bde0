"""What `ramet.compress.foldable` returns."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from ramet._words import Promise
from ramet.graph.names import brief, counted, listed
from ramet.results.base import Listing, Table


@dataclass(frozen=True, slots=True, repr=False)
class Fold:
    """What fold does to one layer that scales and shifts, or does nothing.

    Examples:
        >>> (fold,) = ramet.compress.foldable(model)
        >>> print(fold)
        fold 'norm' (BatchNormalization) into 'conv' (Conv2D)
    """

    place: str
    """Path of the layer, or of one of its calls."""
    kind: str
    """Name of its class."""
    into: tuple[str, ...]
    """The layers that absorb it; empty if it does nothing and is dropped, or stays."""
    reason: str = ""
    """Why it stays; empty if it is folded or dropped."""
    promise: Promise = "exact"
    """What folding it promises of the new model."""

    @property
    def is_folded(self) -> bool:
        """Whether the layer is gone afterwards."""
        return not self.reason

    def __str__(self) -> str:
        """Return what happens, in words."""
        what = f"'{self.place}' ({self.kind})"
        if self.reason:
            return f"keep {what}: {self.reason}"
        return f"fold {what} into {listed(self.into)}" if self.into else f"drop {what}"

    def __repr__(self) -> str:
        """Return what happens, on one line."""
        return brief("Fold", str(self))


@dataclass(frozen=True, repr=False)
class Folding(Listing[Fold]):
    """What fold does, layer by layer: a list.

    Examples:
        >>> listing = ramet.compress.foldable(model)
        >>> len(listing.folded), len(listing.kept)
        (1, 0)
    """

    name: str
    """Name of the model."""
    folds: tuple[Fold, ...]
    """One entry for each layer that is folded, dropped or kept."""

    @property
    def folded(self) -> list[Fold]:
        """The layers that are folded or dropped."""
        return [fold for fold in self.folds if fold.is_folded]

    @property
    def kept(self) -> list[Fold]:
        """The layers that scale and shift, and stay; each with the reason."""
        return [fold for fold in self.folds if not fold.is_folded]

    @property
    def ok(self) -> bool:
        """Whether no layer that scales and shifts is kept."""
        return not self.kept

    @property
    def title(self) -> str:
        """How many layers are folded and kept, in words."""
        return f"'{self.name}': {folds_text(self.folded)}; {counted(len(self.kept), 'layer')} kept"

    def table(self) -> Table:
        """Return one row per layer."""
        rows = [
            (
                fold.place,
                fold.kind,
                listed(fold.into) or ("" if fold.reason else "dropped"),
                fold.reason,
            )
            for fold in self.folds
        ]
        return Table(self.title, ("layer", "class", "into", "why not"), rows)

    def to_dict(self) -> dict[str, Any]:
        """Return what becomes of each layer as plain data, for JSON."""
        return {
            "name": self.name,
            "ok": self.ok,
            "folds": [{**asdict(fold), "into": [*fold.into]} for fold in self.folds],
        }

    def _items(self) -> tuple[Fold, ...]:
        return self.folds


def folds_text(folds: "list[Fold]") -> str:
    """Return how many layers are folded and dropped: `53 BatchNormalization folded`."""
    texts: list[str] = []
    for what, some in (
        ("folded", [fold for fold in folds if fold.into]),
        ("dropped", [fold for fold in folds if not fold.into]),
    ):
        counts = Counter(fold.kind for fold in some)
        kinds = [f"{number} {kind}" for kind, number in counts.most_common()]
        if kinds:
            texts.append(f"{listed(kinds)} {what}")
    return ", ".join(texts) or "nothing folded"
