"""The versions that ramet is tested with."""

KERAS = ("3.12", "3.15")
"""The oldest minor version of Keras that is supported, and the newest that was tested."""
