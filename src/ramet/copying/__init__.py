"""Deep copies of Keras objects, and of everything that they hold.

`models` copies whole models and layers, by `deep_copy`, the copier: it lists the handlers, and
works off the queues. `core` copies containers and attributes (`_core.c` does the same, faster)
and asks `handlers`, the table, for everything else. The handlers are in files by subject:
`keras_layers` makes shells and fills them, `keras_calls` copies nodes and symbolic tensors,
`keras_graphs` the graphs of models, `keras_state` variables, optimizers and metrics. The
remaining ones are of Python and of the backends.

`fresh_weights` initializes copies, with layers from `from_config`.
"""
