"""How layers are quantized: which can be, what becomes of their weights, and at which cost."""
