"""How far two arrays are apart, and how far they may be."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import keras
import numpy as np

from ramet.comparing.objects.arrays import array_difference
from ramet.graph import Graph

TOLERANCES = {"float64": 1e-10, "float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}
"""The relative difference that counts as rounding, by the coarsest dtype that is computed in."""

_WIDE, _COMPLEX = "float64", "complex128"


@dataclass(frozen=True, slots=True)
class Measure:
    """How far arrays are apart."""

    absolute: float = 0.0
    """The largest absolute difference; infinite if they cannot be subtracted."""
    relative: float = 0.0
    """The same relative to the largest value in that array."""
    same: bool = True
    """Whether they have the same bits; which bits a NaN has does not matter."""
    text: str = ""
    """How they differ, in words."""

    def worse(self, other: "Measure") -> "Measure":
        """Return the larger of two differences, in each respect."""
        return Measure(
            max(self.absolute, other.absolute),
            max(self.relative, other.relative),
            self.same and other.same,
            (self if self.relative >= other.relative and self.text else other).text or self.text,
        )


def measure(old: np.ndarray, new: np.ndarray) -> Measure:
    """Measure how far two arrays are apart."""
    text = array_difference(old, new, nan_is_nan=True)
    if not text:
        return Measure()
    if old.shape != new.shape or old.dtype != new.dtype or old.dtype.kind not in "fiubcV":
        return Measure(inf, inf, same=False, text=text)
    wide = _COMPLEX if old.dtype.kind == "c" else _WIDE
    a, b = old.astype(wide), new.astype(wide)
    alike = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    if not (finite | alike).all():
        return Measure(inf, inf, same=False, text=text)
    a, b = np.where(finite, a, 0), np.where(finite, b, 0)
    absolute = float(np.abs(a - b).max(initial=0.0))
    largest = max(float(np.abs(a).max(initial=0.0)), float(np.abs(b).max(initial=0.0)))
    return Measure(absolute, absolute / largest if absolute else 0.0, same=False, text=text)


def tolerance_of(graphs: Iterable[Graph]) -> float:
    """Return the relative difference that counts as rounding in some graphs."""
    dtypes = {dtype for graph in graphs for dtype in _dtypes(graph)}
    return max((TOLERANCES[dtype] for dtype in dtypes if dtype in TOLERANCES), default=1e-5)


def _dtypes(graph: Graph) -> set[str]:
    found: set[str] = set()
    for visit in graph.walk():
        for call in visit.graph.calls.values():
            found.update(spec.dtype for spec in call.outputs)
        for layer in visit.graph.layers.values():
            if isinstance(layer.origin, keras.Layer):
                found.add(str(layer.origin.compute_dtype))
    return found
