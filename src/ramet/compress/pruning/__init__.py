"""Which channels are removed, and the removal itself."""
