"""A teacher beside its student: tapped tensors, projections between them, and losses."""
