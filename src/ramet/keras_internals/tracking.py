"""Which layers a layer or model tracks, and under which attributes it holds them."""

from typing import Any

import keras
from keras.src.utils.python_utils import remove_by_id

from ramet import backends
from ramet.backends.tensorflow import is_record
from ramet.keras_internals.fields import GRAPH_FIELDS, TRACKING_FIELDS
from ramet.keras_internals.function_graphs import chain_of


def adopt_layers(model: Any, removed: list[Any], *, attributes: bool = True) -> Any:
    """Have a model track the layers of its graph, and none that was removed.

    The layers of the graph come first, in the graph's order, as in a new model.

    Args:
        model: The model.
        removed: Layers that may not be in its graph any more.
        attributes: Whether a removed layer stays tracked if an attribute holds it.

    Returns:
        The model; for a Sequential model whose graph is no longer a chain of layers, a
        Functional one.
    """
    if isinstance(model, keras.Sequential):
        function = model._functional
        adopt_layers(function, removed, attributes=attributes)
        chain = chain_of(function)
        if chain is None:
            vars(function)["name"] = model.name
            return function
        model._layers = chain
        return model
    locked = model._tracker.locked
    model._tracker.unlock()
    inside = {id(operation) for operation in model._operations}
    for layer in removed:
        if id(layer) not in inside and not (attributes and _is_attribute(model, layer)):
            untrack(model, [layer])
    _track_in_order(model)
    if locked:
        model._tracker.lock()
    return model


def _track_in_order(model: Any) -> None:
    """Have a Functional model track the layers of its graph, before all others."""
    for layer in model.layers:
        model._tracker.track(layer)
    known = {id(layer) for layer in model._layers}  # In Keras 3.12, a list of its own.
    missing = [layer for layer in model.layers if id(layer) not in known]
    list.extend(getattr(model._layers, "_storage", model._layers), missing)
    rank = {id(layer): position for position, layer in enumerate(model.layers)}
    for tracked in (model._tracker.config["layers"][1], model._layers):
        ordered = sorted(tracked, key=lambda layer: rank.get(id(layer), len(rank)))
        if list(map(id, ordered)) != list(map(id, tracked)):
            getattr(tracked, "_storage", tracked)[:] = ordered  # where TensorFlow wraps a list


def list_parameters(model: Any) -> None:
    """Update PyTorch's lists of parameters to the variables of a model and its layers."""
    if not backends.current().has_modules:
        return
    functions = [
        layer._functional
        for layer in all_layers(model)
        if isinstance(layer, keras.Sequential) and layer._functional is not None
    ]
    for part in [*all_layers(model), *functions]:
        if "_torch_params" in vars(part)["_modules"]:
            wanted = {variable.path: variable.value for variable in part.variables}
            listed = dict(part._torch_params.items())
            if {k: id(v) for k, v in listed.items()} != {k: id(v) for k, v in wanted.items()}:
                part._track_variables()


def untrack(model: Any, layers: list[Any]) -> None:
    """Have a model stop tracking layers."""
    for layer in layers:
        model._tracker.untrack(layer)
        remove_by_id(model._layers, layer)


def attribute_name(layer: Any, part: Any) -> str | None:
    """Return the name of the attribute that holds a sublayer or variable, or `None`."""
    return next((name for name, value in _attributes(layer).items() if value is part), None)


def _attributes(layer: Any) -> dict[str, Any]:
    """Return the attributes of a layer; PyTorch keeps modules in a dict of their own."""
    return {**vars(layer), **vars(layer).get("_modules", {})}


def attribute_parts(layer: Any) -> dict[str, Any]:
    """Return the layers that another tracks and that its attributes hold, by `attribute_paths`."""
    parts = sublayers_of(layer)
    paths = attribute_paths(layer) if parts else {}
    return {paths[id(part)]: part for part in parts if id(part) in paths}


def attribute_of(layer: Any, path: str) -> Any:
    """Return what a layer holds at a path of `attribute_paths`, or `None`; no property is run."""
    first, *rest = path.split(".")
    value = _attributes(layer).get(first)
    for step in rest:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, (list, tuple)) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


_RECORDS = TRACKING_FIELDS | GRAPH_FIELDS | {"_modules", "_metrics", "_functional"}
"""Attributes in which Keras or a backend records layers."""


def attribute_paths(layer: Any) -> dict[int, str]:
    """Return the paths of layers in the attributes of another: `dense`, `blocks.0`, `heads.left`.

    By the ids of the layers.
    """
    paths: dict[int, str] = {}
    met: set[int] = set()  # A container may hold itself.
    waiting = [
        (name, value)
        for name, value in _attributes(layer).items()
        if name not in _RECORDS and not is_record(name)
    ]
    while waiting:
        inside: list[tuple[str, Any]] = []
        for path, value in waiting:
            if isinstance(value, keras.Layer):
                paths.setdefault(id(value), path)
            elif id(value) in met:
                continue
            elif isinstance(value, dict):
                met.add(id(value))
                inside += [(f"{path}.{key}", item) for key, item in value.items()]
            elif isinstance(value, (list, tuple)):
                met.add(id(value))
                inside += [(f"{path}.{number}", item) for number, item in enumerate(value)]
        waiting = inside
    return paths


def _is_attribute(model: Any, layer: Any) -> bool:
    return any(value is layer for value in vars(model).values())


def sublayers_of(layer: Any) -> list[Any]:
    """Return the layers that a layer tracks directly, each once.

    Up to Keras 3.14, a Functional model keeps the layers of its graph and those in its
    attributes in two lists. A Sequential model also tracks the Functional model that it
    builds from its layers, which is left out.
    """
    if isinstance(layer, keras.Sequential):
        return list(layer._layers)
    _, attributes = layer._tracker.config["layers"]
    return list({id(part): part for part in (*layer._layers, *attributes)}.values())


def all_layers(layer: Any) -> list[Any]:
    """Return a layer and every layer below it, each once."""
    return layer._flatten_layers()
