"""What `ramet.adapt.quantize` returns with `explain=True`."""

from dataclasses import asdict, dataclass
from typing import Any

from ramet.graph.names import brief, counted
from ramet.results.base import Listing, Table


@dataclass(frozen=True, slots=True, repr=False)
class QuantizedLayer:
    """What becomes of one layer.

    Examples:
        >>> report = ramet.adapt.quantize(model, {"head": "int8"}, explain=True)
        >>> report.layers[0].mode, report.layers[0].before, report.layers[0].after
        ('int8', 60, 36)
    """

    path: str
    """Its path."""
    kind: str
    """Its class."""
    mode: str | None
    """How it is quantized; `None` if it stays as it is."""
    before: int
    """Bytes of its weights."""
    after: int
    """Bytes of its weights when it is quantized."""
    error: float | None = None
    """How far its results are off, relative to their size: on the data that it was calibrated on,
    or else on normally distributed inputs."""
    reason: str | None = None
    """Why it stays as it is, though a pattern matches it."""

    def __repr__(self) -> str:
        """Return one line."""
        return brief("QuantizedLayer", f"'{self.path}' {self.mode or self.reason}")


@dataclass(frozen=True, repr=False)
class Quantization(Listing[QuantizedLayer]):
    """Which layers are quantized: sizes and errors. True if any are.

    Examples:
        >>> report = ramet.adapt.quantize(model, {"*": "int8"}, explain=True)
        >>> [layer.path for layer in report]
        ['conv', 'head']
    """

    name: str
    """Name of the model."""
    layers: tuple[QuantizedLayer, ...]
    """Those that are quantized, in the order of the model."""
    left: tuple[QuantizedLayer, ...]
    """Those that a pattern matches and that cannot be quantized, each with its reason."""
    before: int
    """Bytes of all weights of the model."""

    @property
    def after(self) -> int:
        """Bytes of all weights of the quantized model."""
        return self.before - sum(layer.before - layer.after for layer in self.layers)

    @property
    def ok(self) -> bool:
        """Whether every layer that a pattern matches is quantized."""
        return not self.left

    @property
    def title(self) -> str:
        """How many layers are quantized, and the bytes of all weights."""
        left = f", {len(self.left)} left as they are" if self.left else ""
        sizes = f"{self.before:,} → {self.after:,} bytes"
        return f"'{self.name}': {counted(len(self.layers), 'layer')} quantized{left}, {sizes}"

    def table(self) -> Table:
        """Return one row per layer."""
        rows = [
            (
                each.path,
                each.kind,
                each.mode or "no",
                f"{each.before:,}",
                f"{each.after:,}",
                "" if each.error is None else f"{each.error:.2g}",
            )
            for each in (*self.layers, *self.left)
        ]
        notes = [f"left as it is: '{each.path}' ({each.kind}): {each.reason}" for each in self.left]
        columns = ("layer", "class", "mode", "bytes", "then", "error")
        numbers = frozenset(columns[3:])
        return Table(self.title, columns, rows, notes, numbers)

    def to_dict(self) -> dict[str, Any]:
        """Return the layers and sizes as plain data, for JSON."""
        return {
            "name": self.name,
            "ok": self.ok,
            "before": self.before,
            "after": self.after,
            "layers": [asdict(layer) for layer in self.layers],
            "left": [asdict(layer) for layer in self.left],
        }

    def _items(self) -> tuple[QuantizedLayer, ...]:
        return self.layers
