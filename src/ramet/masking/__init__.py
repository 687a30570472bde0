"""How masks flow through a graph, and where they get lost. No layer is called.

`flow` follows the masks call by call, by what layers do with them (`behavior`), and records
events (`data`); `numbering` decides whether two masks are computed alike. `lint` turns events
into findings, with `losses` for outputs that are trained on without their masks, and `baked`
for masks that no layer makes any more.
"""
