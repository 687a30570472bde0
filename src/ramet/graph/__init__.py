"""What a model is: plain, frozen data that knows nothing of Keras."""

from ramet.graph.core import Graph
from ramet.graph.journal import Journal
from ramet.graph.parts import Call, Edit, Layer, Ref, Spec
from ramet.graph.select import Selection

__all__ = ["Call", "Edit", "Graph", "Journal", "Layer", "Ref", "Selection", "Spec"]
