"""From a Graph to a Keras model.

`build` is the entrance: a graph as it was traced is copied; an edited one goes through
`builder`, which copies the layers of the source by groups (`layer_group`) and makes the
calls of each edited graph (`calls`): as recorded (`replay`), or by calling layers (`invoke`,
whose errors get advice from `remedy`). Changed layers come from `reconfigure`, nested models
with other input shapes from `resize`. Then weights are settled (`weights`, `growth`), flags
(`trainable`), the class (`model_class`), names and compilation (`finish`).

`clone_model` is the other way to a new model: a user's functions make and call the layers.
"""
