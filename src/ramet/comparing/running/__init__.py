"""Models run on data, call by call: what they return, and where two of them diverge.

`outputs` compares what two models return: on `samples` or `data` that users pass, by `run`, and
with `taps` at every call, from which `divergence` finds the first that differs. `spans`, `befores`
and `trials` are what `prove` measures, edit by edit.
"""
