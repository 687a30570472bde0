"""What edits need to know of live layers.

`patterns` and `likeness` match layers for `rewrite`; `tensor_functions` traces functions that
are put into a graph, on specs from `inferred`; `ties` says why two layers cannot become one,
and `remarks` what a build changes that no edit names.
"""
