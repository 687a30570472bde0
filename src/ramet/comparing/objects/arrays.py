"""How two arrays differ, bit by bit or by more than a tolerance."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ramet.backends.values import same_bits, to_numpy


def array_of(value: Any) -> np.ndarray:
    """Return the values of a tensor or variable."""
    return np.asarray(to_numpy(value))


def array_difference(old: np.ndarray, new: np.ndarray, *, nan_is_nan: bool = False) -> str:
    """Say how two arrays differ, or nothing if they have the same bits.

    With `nan_is_nan`, which bits a NaN has does not matter.
    """
    if same_bits(old, new):
        return ""
    if old.shape != new.shape or old.dtype != new.dtype:
        return f"is {_form(old)} and {_form(new)}"
    if old.dtype.kind not in "fiubcV":
        return "" if np.array_equal(old, new) else "differs"
    old, new = np.atleast_1d(old), np.atleast_1d(new)
    unequal = _bits(old) != _bits(new)
    if nan_is_nan and old.dtype.kind in "fcV":
        unequal &= ~(np.isnan(old) & np.isnan(new))
    if not unequal.any():
        return ""
    return f"differs in {int(unequal.sum())} of {old.size} values{_by(old[unequal], new[unequal])}"


def _by(old: np.ndarray, new: np.ndarray) -> str:
    """Say by how much values differ that have other bits."""
    wide = "complex128" if old.dtype.kind == "c" else "float64"
    a, b = old.astype(wide), new.astype(wide)
    if np.all(np.isnan(a) & np.isnan(b)):
        return ", in the bits of NaN"
    with np.errstate(invalid="ignore"):  # of infinities
        size = np.abs(a - b)
    if not np.any(np.isfinite(size)):
        return ""
    most = np.nanmax(size)
    return f", by {most:.3g}" if most else ", in the sign of zero"


def _form(array: np.ndarray) -> str:
    """Return dtype and shape, or `None` for anything but an array."""
    if array.dtype == object and array.shape == ():
        return str(array.item()) if array.item() is None else type(array.item()).__name__
    return f"{array.dtype}{list(array.shape)}"


def _bits(array: np.ndarray) -> np.ndarray:
    """Return what can be compared bit by bit, one number for each value."""
    sizes = {1: "u1", 2: "u2", 4: "u4", 8: "u8"}
    kind = sizes.get(array.dtype.itemsize)
    return array if kind is None else np.ascontiguousarray(array).view(kind)


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How much numbers may differ; with neither number, not by a bit."""

    rtol: float
    """Relative to the larger of two."""
    atol: float
    """At all."""

    def difference(self, old: np.ndarray, new: np.ndarray) -> str:
        """Say how two arrays differ by more than is allowed, or nothing."""
        description = array_difference(old, new, nan_is_nan=True)
        exact = not (self.rtol or self.atol)
        if not description or exact or old.shape != new.shape or old.dtype.kind not in "fiubV":
            return description
        a, b = old.astype("float64"), new.astype("float64")
        allowed = self.atol + self.rtol * np.maximum(np.abs(a), np.abs(b))
        with np.errstate(invalid="ignore"):  # of infinities
            near = (np.abs(a - b) <= allowed) | (a == b) | (np.isnan(a) & np.isnan(b))
        near &= np.isfinite(a) & np.isfinite(b) | (a == b) | (np.isnan(a) & np.isnan(b))
        return "" if near.all() else description
