"""Smaller and faster models, and larger ones: edits of channels, with a promise each."""

from ramet.compress._fold import fold, foldable

__all__ = ["fold", "foldable"]
