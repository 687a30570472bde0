"""Models in files: checked before Keras loads them, and written atomically."""

from ramet.files.load import load
from ramet.files.save import check_target, save, save_text

__all__ = ["check_target", "load", "save", "save_text"]
