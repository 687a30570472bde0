"""Models in files: looked at before Keras sees them, and never left half written."""

from ramet.files.load import load
from ramet.files.save import check_target, save, save_text

__all__ = ["check_target", "load", "save", "save_text"]
