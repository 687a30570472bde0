"""What `rewrite` returns with `explain=True`."""

from dataclasses import asdict, dataclass
from typing import Any

from ramet.graph.match import Miss
from ramet.results.base import Listing, Table


@dataclass(frozen=True, repr=False)
class Explanation(Listing[str]):
    """Where a pattern matches, a list, and where it nearly does; true if there are matches.

    Examples:
        >>> found = ramet.rewrite(
        ...     model,
        ...     lambda x: layers.ReLU()(x),
        ...     lambda x: layers.PReLU()(x),
        ...     explain=True,
        ... )
        >>> found.ok
        True
    """

    matches: tuple[str, ...]
    """Where the pattern ends, by path."""
    misses: tuple[Miss, ...]
    """Where it would have ended, and why it does not match."""

    @property
    def ok(self) -> bool:
        """Whether the pattern matches anywhere."""
        return bool(self.matches)

    @property
    def title(self) -> str:
        """How many matches and near misses there are, in words."""
        counts = ((len(self.matches), "match"), (len(self.misses), "near miss"))
        return ", ".join(f"{count} {noun}{'' if count == 1 else 'es'}" for count, noun in counts)

    def table(self) -> Table:
        """Return one row per match and near miss."""
        rows = [
            *(("match", place, "") for place in self.matches),
            *(("near miss", miss.place, miss.reason) for miss in self.misses),
        ]
        return Table(self.title, ("found", "where", "why not"), rows)

    def to_dict(self) -> dict[str, Any]:
        """Return matches and near misses as plain data, for JSON."""
        misses = [asdict(miss) for miss in self.misses]
        return {"ok": self.ok, "matches": [*self.matches], "misses": misses}

    def _items(self) -> tuple[str, ...]:
        return self.matches
