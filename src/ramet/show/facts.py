"""What is told of a layer: by a live one, or by the file that describes it.

Keras is imported for live ones only, where it is there already.
"""

from typing import Any, cast

from ramet.files.described import FileLayer
from ramet.graph import Layer


def parameters_of(layer: Layer) -> dict[int, tuple[int, bool]] | None:
    """Returns size and trainability of a layer's weights; `None` if they are made on build."""
    if isinstance(layer.origin, FileLayer):
        return layer.origin.parameters
    from ramet.bridge import describe  # noqa: PLC0415 it imports Keras

    return describe.parameters_of(layer)


def config_of(layer: Layer) -> Any:
    """Returns what a layer was made with; `None` if it cannot be told."""
    if isinstance(layer.origin, FileLayer):
        return layer.origin.config
    from ramet.bridge import describe  # noqa: PLC0415 the same

    return describe.config_of(layer)


def weights_of(layer: Layer) -> list[Any] | None:
    """Returns the weights of a layer, live or as arrays; `None` if they are made on build."""
    if isinstance(layer.origin, FileLayer):
        return [*layer.origin.arrays()]
    from ramet.bridge import describe  # noqa: PLC0415 the same

    return describe.variables_of(layer)


def array_of(weight: Any) -> Any:
    """Returns the values of a weight."""
    import numpy as np  # noqa: PLC0415 a table of one model needs none

    if isinstance(weight, np.ndarray):
        return cast("Any", weight)
    from ramet.bridge import internals  # noqa: PLC0415 it imports Keras

    return np.asarray(internals.to_numpy(weight))
