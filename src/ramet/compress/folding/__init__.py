"""What fold is made of: what layers scale and shift, and how their neighbours absorb it.

`affine` says by what a layer scales and shifts its channels, `linear` how a layer with a kernel
absorbs that, and `passing` which layers between the two do not mind. `site` is one graph with what
reads its tensors, `rules` what keeps a layer from being folded, `search` finds what can be folded,
`branches` merges parallel convolutions, and `idle` finds layers that do nothing. `weights`
collects what becomes of one kernel, and `arrays` are the computations.
"""
