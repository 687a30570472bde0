"""A layer made again with other constructor arguments."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, cast

import keras

from ramet.bridge import internals
from ramet.bridge.copies import Builder
from ramet.bridge.source.values import parameters_of
from ramet.bridge.transfer import take_over, take_over_adapted
from ramet.errors import OptionError
from ramet.graph import Layer
from ramet.graph.names import did_you_mean


def check_changes(layer: Layer, changes: Mapping[str, Any]) -> None:
    """Checks that a layer has the constructor arguments that are to change.

    Raises:
        OptionError: If it has not, or cannot be made from its config at all.
    """
    # A config need not tell every argument: Keras leaves `lora_rank` out until it is set.
    only_flag = {*changes} == {"trainable"}
    config = {} if only_flag else _config_of(layer)
    known = dict.fromkeys([*config, *parameters_of(type(layer.origin))])
    for name in changes:
        if name == "name":
            message = f"layer '{layer.name}' gets another name by rename, not by configure"
            raise OptionError(message)
        _check_unbuilt(layer, name, changes[name])
        if name == "trainable":
            _check_flag(layer, changes[name])
        elif name not in known:
            shown = ", ".join(key for key in known if key != "name")
            message = (
                f"layer '{layer.name}' ({layer.kind}) has no argument '{name}'"
                f"{did_you_mean(name, [*known]) or '.'} It has: {shown}"
            )
            raise OptionError(message)


def _check_unbuilt(layer: Layer, name: str, value: Any) -> None:
    """Check that a layer which is given as an argument brings no weights of its own."""
    if isinstance(value, keras.Layer) and value.built and value.weights:
        message = (
            f"'{value.name}', which is given as {name} of layer '{layer.name}', has weights, and "
            f"would take over others; give one that is not built, or replace '{layer.name}'"
        )
        raise OptionError(message)


def _check_flag(layer: Layer, trainable: Any) -> None:
    if not isinstance(trainable, bool):
        message = (
            f"trainable of layer '{layer.name}' must be True or False, got {trainable!r}; "
            "freeze and unfreeze set it"
        )
        raise OptionError(message)


def _config_of(layer: Layer) -> dict[str, Any]:
    try:
        if isinstance(layer.origin, keras.Layer):
            return layer.origin.get_config()
    except Exception as error:
        raised = internals.unwrapped(error)
        if internals.raised_by_user(raised) and not isinstance(raised, NotImplementedError):
            raised.add_note(f"while asking layer '{layer.name}' for its config")
            raise
    message = (
        f"'{layer.name}' ({layer.kind}) has no config, so it cannot be made again with other "
        "arguments; replace it, or write a get_config() for it"
    )
    raise OptionError(message)


def reconfigured(layer: Layer, *, sizes: bool = False) -> Any:
    """Makes a layer from its config with the changes that its record tells, not built.

    Args:
        layer: What is known of the layer.
        sizes: Whether layers inside of it are built for what they read before.

    Raises:
        OptionError: If its class does not accept them.
    """
    changes = {key: _own(value) for key, value in (layer.changes or {}).items()}
    config = _config_of(layer) if sizes else _without_sizes(_config_of(layer))
    untold = {key: value for key, value in _untold(layer, config).items() if key not in changes}
    with internals.untouched_names():
        try:
            made = _made_of(layer, config | untold | changes, changes)
        except OptionError:
            # The class gives its base some of them itself.
            own = inspect.signature(type(layer.origin).__init__).parameters
            untold = {key: value for key, value in untold.items() if key in own}
            made = _made_of(layer, config | untold | changes, changes)
    _check_told(layer, made, untold)
    if "lora_alpha" in changes:
        internals.keep_alpha(made, changes["lora_alpha"])
    take_over_adapted(layer.origin, made)
    return made


def _untold(layer: Layer, config: dict[str, Any]) -> dict[str, Any]:
    """Returns arguments that the config of a user's layer leaves out and an attribute has."""
    kind = type(layer.origin)
    if kind.__module__.partition(".")[0] == "keras":
        return {}
    return {
        name: _own(value)
        for name, parameter in parameters_of(kind).items()
        if name not in config
        and name != "trainable"
        and (value := getattr(layer.origin, name, parameter.default)) is not parameter.default
    }


def _check_told(layer: Layer, made: Any, untold: dict[str, Any]) -> None:
    """Checks that arguments which are known from attributes were understood.

    Raises:
        OptionError: If the layer keeps something else than what it was given.
    """
    for name, value in untold.items():
        found = getattr(made, name, None)
        if found is not value and not internals.equal_constants(found, value):
            message = (
                f"layer '{layer.name}' ({layer.kind}) cannot be made again: its config does not "
                f"tell '{name}'; write it in get_config(), or replace the layer"
            )
            raise OptionError(message)


def made_with(layer: Any, changes: Mapping[str, Any]) -> Any:
    """Makes a live layer from its config with other arguments, not built; `None` if that fails."""
    record = Layer(layer.name, type(layer).__name__, layer)
    with internals.untouched_names(), internals.untouched_randomness():
        try:
            return _made_of(record, _config_of(record) | dict(changes), dict(changes))
        except OptionError:
            return None


def _without_sizes(config: Any) -> Any:
    """Leaves out of a config for which sizes the layers in it were built."""
    if isinstance(config, dict):
        items = cast("dict[Any, Any]", config).items()
        return {key: _without_sizes(item) for key, item in items if key != "build_config"}
    if type(config) in (list, tuple):
        return type(config)(_without_sizes(item) for item in config)
    return config


def _made_of(layer: Layer, config: dict[str, Any], changes: dict[str, Any]) -> Any:
    """Makes a layer from a config, or from what the old one holds where that cannot be read."""
    config = _without_mirror(layer.origin, config, changes)
    try:
        return type(layer.origin).from_config({**config})  # Wrappers take entries out of it.
    except Exception as error:  # noqa: BLE001 a config fails in as many ways as there are authors
        raised = internals.unwrapped(error)
    live = {
        name: _own(getattr(layer.origin, name))
        for name, value in config.items()
        if isinstance(value, (dict, tuple)) and hasattr(layer.origin, name) and name not in changes
    }
    try:
        # Functions and classes that nobody registered are there, if not in the config.
        return type(layer.origin)(**{**config, **live})
    except Exception:  # noqa: BLE001 the same
        changed = ", ".join(f"{name}={value!r}" for name, value in changes.items())
        how, reason = f"with {changed}" if changed else "again", internals.reason_of(raised)
        message = f"layer '{layer.name}' ({layer.kind}) cannot be made {how}: {reason}"
        raise OptionError(message) from raised


def _without_mirror(layer: Any, config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Leaves the backward layer to a Bidirectional that made it of the one that changes."""
    mirrored = isinstance(layer, keras.layers.Bidirectional) and "layer" in changes
    if not mirrored or "backward_layer" in changes:
        return config
    forward, backward = layer.forward_layer.get_config(), layer.backward_layer.get_config()
    own = {"name", "go_backwards", "zero_output_for_mask"}
    if any(forward.get(key) != backward.get(key) for key in {*forward, *backward} - own):
        return config
    return {key: value for key, value in config.items() if key != "backward_layer"}


def current(layer: Layer) -> Any:
    """Returns a live layer as it will be: the origin, or one made with the changes, built."""
    if layer.trainable not in (None, getattr(layer.origin, "trainable", None)):
        made = current(dataclasses.replace(layer, trainable=None))
        made = Builder("copy").copy(made) if made is layer.origin else made
        made.trainable = layer.trainable
        return made
    if layer.changes is None:
        return layer.origin
    made = reconfigured(layer, sizes=True)
    shapes = internals.build_shapes(layer.origin)
    if layer.origin.built and shapes is not None:
        with internals.untouched_names():
            made.build(**shapes)
        take_over(layer.origin, made, layer.weights)
    return made


def _own(value: Any) -> Any:
    """Returns a layer that is given as an argument as a copy, and all else as it is."""
    return Builder("copy").copy(value) if isinstance(value, keras.Layer) else value
