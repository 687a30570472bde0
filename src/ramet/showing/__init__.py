"""A graph as a table, a page or a picture.

`read` turns a graph into views (`parts`), and `compared` overlays those of two models. `table`
prints a view. `layout` decides where everything is drawn, with `spread` inside each layer, and
`page` and `picture` write it to a file.
"""
