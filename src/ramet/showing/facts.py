"""The parameters of a layer, live or described by a file.

Only live layers need Keras, which is imported already where there are any.
"""

from ramet.files.description import FileLayer
from ramet.graph import Layer


def parameters_of(layer: Layer) -> dict[int, tuple[int, bool]] | None:
    """Return size and trainability of a layer's weights; `None` before it is built."""
    if isinstance(layer.origin, FileLayer):
        return layer.origin.parameters
    from ramet.tracing import layer_facts  # noqa: PLC0415 it imports Keras

    return layer_facts.parameters_of(layer)
