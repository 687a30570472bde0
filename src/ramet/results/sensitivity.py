"""What `ramet.adapt.sensitivity` returns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ramet._arguments import check_word, shown
from ramet.errors import OptionError
from ramet.graph.names import brief, counted
from ramet.results.base import Listing, Table


def cost_text(cost: float | None) -> str:
    """Return a cost in words; nothing if there is none."""
    return "" if cost is None else f"{cost:.2g}"


@dataclass(frozen=True, slots=True, repr=False)
class LayerSensitivity:
    """How far the outputs are off if one layer alone is changed.

    Examples:
        >>> (head,) = ramet.adapt.sensitivity(model, how=["int8"], at="head")
        >>> head.path, head.weights, head.differences["int8"] < 0.05
        ('head', 15, True)
    """

    path: str
    """Its path."""
    kind: str
    """Its class."""
    weights: int
    """The number of its weights."""
    differences: Mapping[str, float | None]
    """By each way to change it: the difference of the outputs, relative to their size; `None`
    if the layer cannot be changed so."""

    def __repr__(self) -> str:
        """Return one line."""
        worst = max((each for each in self.differences.values() if each is not None), default=0.0)
        return brief("LayerSensitivity", f"'{self.path}' up to {worst:.2g}")


@dataclass(frozen=True, repr=False)
class Sensitivity(Listing[LayerSensitivity]):
    """What each layer's quantization, pruning or lower precision costs in the outputs.

    Examples:
        >>> costs = ramet.adapt.sensitivity(model, how=["int8", "bfloat16"])
        >>> [layer.path for layer in costs], costs.above(0.9, "int8")
        (['conv', 'head'], [])
    """

    name: str
    """Name of the model."""
    how: tuple[str, ...]
    """The ways to change a layer that were tried."""
    layers: tuple[LayerSensitivity, ...]
    """The layers that were tried, in the order of the model."""

    def above(self, limit: float, how: str) -> list[str]:
        """List the layers that cost more than a limit, to be skipped: paths, the worst first.

        Args:
            limit: The difference, relative to the size of the outputs.
            how: One of the ways that were tried.

        Raises:
            OptionError: If it was not tried, or the limit is not a number.
        """
        check_word(how, "how", self.how)
        if type(limit) not in (int, float):
            raise OptionError(f"limit must be a number, got {shown(limit)}")
        costs = {each.path: each.differences[how] for each in self.layers}
        found = {path: cost for path, cost in costs.items() if cost is not None and cost > limit}
        return sorted(found, key=lambda path: -found[path])

    def only(self, how: str) -> "Sensitivity":
        """Return the costs of one way alone.

        Args:
            how: One of the ways that were tried.

        Raises:
            OptionError: If it was not tried.

        Examples:
            >>> costs = ramet.adapt.sensitivity(model, how=["int8", "prune"])
            >>> ramet.show(model, to="pruned.svg", cost=costs.only("prune"))
        """
        check_word(how, "how", self.how)
        layers = [replace(each, differences={how: each.differences[how]}) for each in self.layers]
        return replace(self, how=(how,), layers=tuple(layers))

    @property
    def ok(self) -> bool:
        """Whether all outputs stay finite."""
        costs = (cost for each in self.layers for cost in each.differences.values())
        return all(cost is None or cost < float("inf") for cost in costs)

    @property
    def title(self) -> str:
        """How many layers were tried, and how."""
        count = counted(len(self.layers), "layer")
        return f"'{self.name}': how far the outputs are off with {count} changed, one at a time"

    def table(self) -> Table:
        """Return one row per layer."""
        rows = [
            (
                each.path,
                each.kind,
                f"{each.weights:,}",
                *map(cost_text, each.differences.values()),
            )
            for each in self.layers
        ]
        columns = ("layer", "class", "weights", *self.how)
        return Table(self.title, columns, rows, (), frozenset(columns[2:]))

    def to_dict(self) -> dict[str, Any]:
        """Return the differences as plain data, for JSON."""
        layers = [
            {
                "path": each.path,
                "kind": each.kind,
                "weights": each.weights,
                "differences": dict(each.differences),
            }
            for each in self.layers
        ]
        return {"name": self.name, "ok": self.ok, "how": [*self.how], "layers": layers}

    def _items(self) -> tuple[LayerSensitivity, ...]:
        return self.layers
