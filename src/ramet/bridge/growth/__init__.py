"""What the axes of tensors and weights are made of, so that weights grow by meaning.

`axes` is plain arithmetic: parts of an axis, and which old index a new one comes from.
`makers` and `passing` say of Keras's layers what axes they make, hand on and have weights
for. `reader` follows symbolic tensors back through the calls that made them.
"""
