"""Edits and layers that are written as text: read, never evaluated."""

from ramet.written.edits import HOWS, Written, apply

__all__ = ["HOWS", "Written", "apply"]
