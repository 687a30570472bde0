"""Which channels of which layers stand or fall together, and layers with other channels."""
