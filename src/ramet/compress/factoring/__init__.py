"""What factorize is made of: kernels as matrices, their ranks, and the layers that they become.

`kernels` says how a kernel is a stack of matrices, and computes its factors. `ranks` chooses how
much of it is kept. `pieces` says which layers compute the factors, `plan` puts this together for
a model, and `apply` edits the graph.
"""
