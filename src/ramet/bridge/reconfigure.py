"""A layer made again with other constructor arguments."""

from collections.abc import Mapping
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.build import Builder
from ramet.bridge.transfer import take_over, take_over_adapted
from ramet.errors import OptionError
from ramet.graph import Layer
from ramet.graph.names import did_you_mean


def check_changes(layer: Layer, changes: Mapping[str, Any]) -> None:
    """Checks that a layer has the constructor arguments that are to change.

    Raises:
        OptionError: If it has not, or cannot be made from its config at all.
    """
    config = _config_of(layer)
    for name in changes:
        if name == "name":
            message = f"layer '{layer.name}' gets another name by rename, not by configure"
            raise OptionError(message)
        if name not in config:
            known = ", ".join(key for key in config if key != "name")
            message = (
                f"layer '{layer.name}' ({layer.kind}) has no argument '{name}'"
                f"{did_you_mean(name, [*config])} It has: {known}"
            )
            raise OptionError(message)


def _config_of(layer: Layer) -> dict[str, Any]:
    try:
        if isinstance(layer.origin, keras.Layer):
            return layer.origin.get_config()
    except NotImplementedError:
        pass
    message = (
        f"'{layer.name}' ({layer.kind}) has no config, so it cannot be made again with other "
        "arguments; replace it, or write a get_config() for it"
    )
    raise OptionError(message)


def reconfigured(layer: Layer) -> Any:
    """Makes a layer from its config with the changes that its record tells, not built.

    Raises:
        OptionError: If its class does not accept them.
    """
    changes = {key: _own(value) for key, value in (layer.changes or {}).items()}
    config = {**_config_of(layer), **changes}
    try:
        with internals.untouched_names():
            made = type(layer.origin).from_config(config)
    except Exception as error:  # noqa: BLE001 a config fails in as many ways as there are authors
        raised = internals.unwrapped(error)
        changed = ", ".join(f"{name}={value!r}" for name, value in changes.items())
        message = (
            f"layer '{layer.name}' ({layer.kind}) cannot be made with {changed}: "
            f"{internals.reason_of(raised)}"
        )
        raise OptionError(message) from raised
    take_over_adapted(layer.origin, made)
    return made


def current(layer: Layer) -> Any:
    """Returns a live layer as it will be: the origin, or one made with the changes, built."""
    if layer.changes is None:
        return layer.origin
    made = reconfigured(layer)
    shapes = internals.build_shapes(layer.origin)
    if layer.origin.built and shapes is not None:
        with internals.untouched_names():
            made.build(**shapes)
        take_over(layer.origin, made, layer.weights)
    return made


def _own(value: Any) -> Any:
    """Returns a layer that is given as an argument as a copy, and all else as it is."""
    return Builder("copy", None).copy(value) if isinstance(value, keras.Layer) else value
