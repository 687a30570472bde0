"""What two layers of one class are, side by side: attributes, then constructor arguments."""

from collections.abc import Iterator
from typing import Any

import keras

from ramet import backends
from ramet import keras_internals as internals
from ramet.comparing.objects.texts import ABSENT, shown
from ramet.comparing.objects.walk import ValueDifference, Walk
from ramet.graph import Layer
from ramet.tracing.configs import comparable_config
from ramet.tracing.trace import has_graph


def serialized(value: Any) -> Any:
    """Return what Keras would save of an object; `None` if it cannot."""
    try:
        return internals.serialized(value)
    except Exception:  # noqa: BLE001 what cannot be serialized has no config to compare
        return None


def layer_differences(old: Any, new: Any, walk: Walk, path: str) -> Iterator[ValueDifference]:
    """Yield in what two layers of one class differ by themselves, sublayers and weights aside.

    Attributes come first, also those that were set after construction; then constructor
    arguments that no attribute shows. Private attributes of Keras's own classes, which follow
    from the others, are reported only where nothing else is.

    Args:
        old: A layer.
        new: The one that it is compared with.
        walk: What has been compared so far.
        path: Where the first layer is.
    """
    walk.layer(old, new, path)
    fields = [internals.layer_fields(layer) for layer in (old, new)]
    names = sorted({*fields[0], *fields[1]}, key=lambda name: (_is_private(name), str(name)))
    reported: set[str] = set()
    is_of_keras = backends.is_of_keras(type(old))
    for name in names:
        values = [each.get(name, ABSENT) for each in fields]
        walk.loose = is_of_keras and _is_private(name)
        if walk.loose:
            values = [None if value is ABSENT else value for value in values]  # not noted yet
        found = walk.differences(str(name), *values)
        for difference in found:
            if is_of_keras and _is_private(name) and reported:
                continue
            reported.add(difference.attribute)
            yield difference
    walk.loose = False
    shown_by = {str(name).lstrip("_") for name in names}
    for difference in _config_differences(old, new, shown_by):
        if difference.attribute not in reported:
            reported.add(difference.attribute)
            yield difference


def _is_private(name: Any) -> bool:
    return str(name).startswith("_")


def _config_differences(old: Any, new: Any, names: set[str]) -> Iterator[ValueDifference]:
    """Yield in what the configs of two layers differ, but for what attributes show."""
    if not isinstance(old, keras.Layer):
        return  # The attributes of an operation are its arguments.
    first, second = _comparable_config(old), _comparable_config(new)
    if first is None or second is None:
        return
    parts = {type(part).__name__ for part in internals.sublayers_of(old)}
    for name in dict.fromkeys([*first, *second]):
        values = first.get(name, ABSENT), second.get(name, ABSENT)
        kinds = {value.get("class_name") for value in values if isinstance(value, dict)}
        # Sublayers are compared by themselves.
        if name not in names and not kinds & parts:
            yield from config_differences(name, *values)


def config_differences(name: str, old: Any, new: Any) -> Iterator[ValueDifference]:
    """Yield in what two descriptions by Keras differ. In them, a list is like a tuple."""
    kinds = [each.get("class_name") if _is_description(each) else None for each in (old, new)]
    if kinds[0] is None or kinds[1] is None:
        if isinstance(old, dict) and isinstance(new, dict):
            for key in dict.fromkeys([*old, *new]):
                values = old.get(key, ABSENT), new.get(key, ABSENT)
                yield from config_differences(f"{name}.{key}" if name else str(key), *values)
        else:
            yield from Walk(loose=True).differences(name, old, new)
    elif kinds[0] != kinds[1]:
        yield ValueDifference(name, shown(old), shown(new))
    else:
        yield from config_differences(name, old["config"], new["config"])


def _is_description(value: Any) -> bool:
    return isinstance(value, dict) and "config" in value and "class_name" in value


def _comparable_config(layer: Any) -> dict[str, Any] | None:
    """Return the config of a live layer, without its name and what a model is made of."""
    is_model = isinstance(layer, keras.Layer) and has_graph(layer)
    # Any graph will do: what matters is that the model has one.
    graph: Any = layer if is_model else None
    return comparable_config(Layer(layer.name, type(layer).__name__, layer, graph))
