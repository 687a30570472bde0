"""From a Keras model to a Graph, and from a Graph to the live objects behind it.

`trace` reads a model. For each layer it records `layer_facts`, for each tensor its spec
(`specs`), and for each call which arguments Keras filled in (`derived`, by the rules in
`mask_slots`). `record` does the same for a layer that a user passes to an edit. `configs`
reads configs, and `options` checks what `clone`, `trace` and `build` are called with.

`origin` is the way back: it calls the rooms above for a graph that is edited or built, and
`settled` does so for verbs that only look at the result.
"""
