"""What prevents two layers from being tied: becoming one layer."""

from typing import Any

import keras

from ramet.graph import Layer
from ramet.graph.edits.sharing import Tie
from ramet.tracing.configs import config_of

_OWN = frozenset({"name", "trainable", "build_config"})
"""Config entries that two layers may differ in and still be tied."""


def tie(first: Layer, second: Layer) -> Tie:
    """Return the differences between two layers that are to become one."""
    shapes = _weight_shapes(first), _weight_shapes(second)
    trained = _is_trainable(first), _is_trainable(second)
    return Tie(
        config=tuple(config_differences(first, second)),
        shapes=None if None in shapes or shapes[0] == shapes[1] else shapes,
        trainable=None if trained[0] == trained[1] else trained,
    )


def config_differences(first: Layer, second: Layer) -> list[str]:
    """List the constructor arguments in which two layers differ, in words.

    For nested models, those of the layers inside.
    """
    if first.graph is not None and second.graph is not None:
        pairs = [[*each.graph.layers.items()] for each in (first, second) if each.graph is not None]
        if [layer.kind for _, layer in pairs[0]] != [layer.kind for _, layer in pairs[1]]:
            return ["their layers"]
        return [
            f"{key}/{difference}"
            for (key, one), (_, other) in zip(*pairs, strict=True)
            for difference in config_differences(one, other)
        ]
    old, new = (config_of(each) or {} for each in (first, second))
    return [
        f"{name} ({_short(old.get(name))} and {_short(new.get(name))})"
        for name in dict.fromkeys([*old, *new])
        if name not in _OWN and _nameless(old.get(name)) != _nameless(new.get(name))
    ]


def _nameless(value: Any) -> Any:
    """Return a config without the names of the layers in it."""
    if isinstance(value, dict):
        if "DTypePolicy" in str(value.get("class_name")):
            return value  # The name of a policy is its meaning.
        return {k: _nameless(v) for k, v in value.items() if k not in _OWN}
    return [_nameless(item) for item in value] if isinstance(value, list) else value


def _short(value: Any) -> str:
    if isinstance(value, dict) and "class_name" in value:
        policy = "DTypePolicy" in str(value["class_name"]) and value.get("config", {}).get("name")
        return str(policy or value["class_name"])
    return repr(value)


def _weight_shapes(layer: Layer) -> list[tuple[int, ...]] | None:
    """List the shapes of a layer's weights; `None` if they are not known before it is built."""
    origin = layer.origin
    known = layer.changes is None and isinstance(origin, keras.Layer) and origin.built
    return [tuple(weight.shape) for weight in origin.weights] if known else None


def _is_trainable(layer: Layer) -> bool:
    """Whether a layer is trained, changes by edits included."""
    if layer.trainable is not None:
        return layer.trainable
    return bool(getattr(layer.origin, "trainable", True))
