"""Which channels of which layers can only be removed together, and layers with other channels."""
