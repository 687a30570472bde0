"""How far kernels of low precision are off once adapters are merged into them."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from ramet.adapt.adapting.taken import adapted_layers
from ramet.graph import Graph
from ramet.graph.names import counted
from ramet.layers import Adapted, kernel_at

_LOW = ("bfloat16", "float16")


def rounding(graph: Graph, weights: Mapping[str, float] | None) -> str:
    """Return how much merging rounds the kernels of a graph, in words that follow others.

    Args:
        graph: The graph.
        weights: The adapters that are merged, with weights; `None` for those in use.
    """
    errors: dict[str, float] = {}
    unknown = 0
    dtypes: dict[str, None] = {}
    for path, record, entries in adapted_layers(graph).values():
        built = isinstance(record.origin, Adapted) and not record.steps
        for target in {each.path: each for entry in entries for each in entry.targets}.values():
            found = kernel_at(record.origin, target.held, target.variable)
            dtype = "" if found is None else keras.backend.standardize_dtype(found[1].dtype)
            if found is not None and dtype in _LOW:
                dtypes[dtype] = None
                if built:
                    layer: Any = record.origin
                    adapters = layer.adapters.by_kernel()[target.held, target.variable]
                    exact = layer.adapters.adapted(found[1], adapters, weights)
                    errors[f"{path}/{target.path}"] = _lost(exact, dtype)
                else:
                    unknown += 1
    if not dtypes:
        return ""
    text = f"; {counted(len(errors) + unknown, 'kernel')} rounded to {' and '.join(dtypes)}"
    if errors:
        worst = max(errors, key=errors.__getitem__)
        text += f", by up to {errors[worst]:.1e} of its norm ('{worst}')"
    return text


def _lost(exact: Any, dtype: str) -> float:
    """Return what rounding a kernel takes away, relative to its norm."""
    rounded = keras.ops.cast(keras.ops.cast(exact, dtype), "float32")
    want, have = (keras.ops.convert_to_numpy(each).astype("float64") for each in (exact, rounded))
    return float(np.linalg.norm(have - want) / max(np.linalg.norm(want), 1e-300))
