"""Two models side by side: which layer is which, and how they differ.

`alignment` pairs the layers of two graphs, and `counterparts` those of live models.

For `diff` and `show`: `differences` lists what changed, each where it begins, with
`layer_changes`, `sharing` and `flags`.

For `verify`: `structure`, `contents` and `state` compare what models are and hold, object by
object (`objects`), and `running` what they compute. `reach` says what edits explain, and
`options` checks what is asked for.
"""
