"""Two models side by side: which layer is which, and how they differ.

`alignment` pairs the layers of two graphs, and `counterparts` those of live models.

For `diff` and `show`: `differences` lists what changed, each where it begins, with
`layer_changes`, `sharing` and `flags`.

For `verify`: `structure`, `contents` and `state` compare what models are and hold, object by
object (`walk`), by what each is made of (`parts`, `attributes`, `held`), in words (`texts`).
`outputs` compares what they compute: on `samples` or `data` that users pass, by `run`, and with
`taps` at every call, from which `divergence` finds the first that differs. `reach` says what
edits explain, and `options` checks what is asked for.
"""
