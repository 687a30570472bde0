"""What a model is: plain, frozen data that knows nothing of Keras."""

from ramet.graph.core import Graph
from ramet.graph.parts import Call, Layer, Ref, Spec

__all__ = ["Call", "Graph", "Layer", "Ref", "Spec"]
