"""Smaller and faster models, and larger ones: edits of channels, with a promise each."""
