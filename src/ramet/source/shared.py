"""Facts about a model that decide how it is written: shared layers, nested models, blocks."""

import inspect
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.graph import Graph


def is_container(model: Any) -> bool:
    """Whether a model is built from its graph or its layers, not by its own constructor."""
    if not internals.is_container(model):
        return False
    kind = type(model)
    if kind.__module__.startswith("keras."):
        return True
    own = next(base for base in kind.__mro__ if "__init__" in vars(base))
    if own.__module__.startswith("keras."):
        return True
    kinds = {p.kind for p in inspect.signature(kind.__init__).parameters.values()}
    return inspect.Parameter.VAR_POSITIONAL in kinds and inspect.Parameter.VAR_KEYWORD in kinds


def is_operation(layer: Any) -> bool:
    """Whether something is an operation of `keras.ops`, not a layer or a `keras.Function`."""
    return not isinstance(layer, keras.Layer) and not is_container(layer)


def block_of(name: str) -> str | None:
    """Return the block of a layer by its name: `conv2_block1` for `conv2_block1_bn`."""
    parts = name.split("_")
    heads = [i for i, part in enumerate(parts[:-1]) if part.startswith(("block", "stage", "stem"))]
    return "_".join(parts[: heads[0] + 1]) if heads else None


def shared_layers(graph: Graph) -> tuple[dict[int, Any], set[int]]:
    """Return the layers that several functions call, and those that other layers hold."""
    where: dict[int, set[int]] = {}
    live: dict[int, Any] = {}
    waiting, done = [graph], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in done:
            continue
        done.add(id(one))
        for layer in one.layers.values():
            if layer.is_input:
                continue
            live[id(layer.origin)] = layer.origin
            where.setdefault(id(layer.origin), set()).add(id(one))
            if layer.graph is not None and is_container(layer.origin):
                waiting.append(layer.graph)
    spread = {key: live[key] for key, graphs in where.items() if len(graphs) > 1}
    held = {
        id(part)
        for layer in live.values()
        if isinstance(layer, keras.Layer) and not is_container(layer)
        for part in internals.all_layers(layer)[1:]
    }
    return spread, held & live.keys() - spread.keys()
