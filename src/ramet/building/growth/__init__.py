"""What the axes of tensors and weights are made of, so that weights grow by meaning.

`axes` is plain arithmetic: parts of an axis, and which old index a new one comes from.
`makers`, `passing` and `recurrent` hold rules for Keras's layers: which axes they create,
pass on and have weights for. `site` is a layer with its inputs, and looks up its rule.
`reader` follows symbolic tensors back through the calls that made them.
"""
