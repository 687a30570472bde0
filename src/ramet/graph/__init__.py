"""A model as plain, frozen data, independent of Keras, and its edits.

`core` is the Graph. `data` holds its parts, whose arguments and outputs are trees (`tree`); it
is checked by `check`, compared and pickled by `content`, and layers are told apart by
`identity`. `walk` visits nested graphs, `interpret` runs calls in order, and `reach` follows
what depends on what. `locate` finds what a name stands for, `paths` lists those names, `select`
picks layers and `match` finds patterns. `text` and `rows` are what is printed, with `names`.

`editable` has the edits as methods, `edits` does them, `journal` records them, and `origin` is
the way to live layers.
"""

from ramet.graph.core import Graph
from ramet.graph.data import Call, Edit, Layer, Ref, Spec
from ramet.graph.journal import Journal
from ramet.graph.select import Selection

__all__ = ["Call", "Edit", "Graph", "Journal", "Layer", "Ref", "Selection", "Spec"]
