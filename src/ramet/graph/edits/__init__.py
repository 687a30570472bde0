"""The edits of a graph, one file per family; the methods of `Graph` call them.

They share `draft`, the graph during an edit; `resolve`, which reads what a user passes;
`nested`, which edits inside nested models; and `splice` with `apart`, which take in new layers.
`stale` leaves out what no longer holds before an edited graph is built.
"""
