"""Where the weights of a built model come from.

`inheritance` decides for each new layer of a build, `transfer` assigns the values of one layer
to another, by the `roles` of variables. `stages` are layers between two edits, `slots` the
state of optimizers, and `report` says what became of every variable.
"""
