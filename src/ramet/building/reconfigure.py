"""Layers re-created from their configs with other constructor arguments."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, cast

import keras

from ramet import keras_internals as internals
from ramet.backends import is_of_keras
from ramet.building.weights.transfer import take_over, take_over_adapted
from ramet.copying.models import copy_layer
from ramet.errors import OptionError
from ramet.graph import Layer
from ramet.graph.names import did_you_mean, shown
from ramet.layers import Adapted
from ramet.tracing.configs import raw_config
from ramet.tracing.options import is_constructed, unconstructed


def check_changes(layer: Layer, changes: Mapping[str, Any]) -> None:
    """Check that a layer has the constructor arguments that are to change.

    Raises:
        OptionError: If it does not, or cannot be re-created from its config at all.
    """
    # A config need not hold every argument: Keras leaves `lora_rank` out until it is set.
    only_flag = {*changes} == {"trainable"}
    config = {} if only_flag else _config_to_change(layer)
    known = dict.fromkeys([*config, *internals.constructor_parameters(type(layer.origin))])
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
    """Check that a layer which is passed as an argument has no weights yet."""
    if isinstance(value, keras.Layer) and not is_constructed(value):
        raise OptionError(f"{name} of layer '{layer.name}': {unconstructed(value)}")
    if isinstance(value, keras.Layer) and value.built and value.weights:
        message = (
            f"'{value.name}', which is passed as {name} of layer '{layer.name}', has weights, and "
            f"would take over others; pass one that is not built, or replace '{layer.name}'"
        )
        raise OptionError(message)


def _check_flag(layer: Layer, trainable: Any) -> None:
    if not isinstance(trainable, bool):
        message = (
            f"trainable of layer '{layer.name}' must be True or False, got {shown(trainable)}; "
            "freeze and unfreeze set it"
        )
        raise OptionError(message)


def _config_to_change(layer: Layer) -> dict[str, Any]:
    try:
        if isinstance(layer.origin, keras.Layer):
            return raw_config(layer.origin)
    except Exception as error:
        raised = internals.unwrapped(error)
        if internals.raised_by_user(raised) and not isinstance(raised, NotImplementedError):
            raised.add_note(f"while asking layer '{layer.name}' for its config")
            raise
    message = (
        f"'{layer.name}' ({layer.kind}) has no config, so it cannot be re-created with other "
        "arguments; replace it, or write a get_config() for it"
    )
    raise OptionError(message)


def reconfigured(layer: Layer, *, sizes: bool = False) -> Any:
    """Re-create a layer from its config with the changes in its record, not built.

    Args:
        layer: The record of the layer.
        sizes: Whether layers inside of it are built for the input shapes that they had.

    Raises:
        OptionError: If its class does not accept the changes.
    """
    changes = {key: _own(value) for key, value in (layer.changes or {}).items()}
    if layer.is_operation:
        return _operation(layer.origin, changes)
    config = _config_to_change(layer) if sizes else _without_sizes(_config_to_change(layer))
    missing = _missing_from(config, layer)
    missing = {key: value for key, value in missing.items() if key not in changes}
    with internals.untouched_names():
        try:
            twin = _from_config(layer, config | missing | changes, changes)
        except OptionError:
            # The class itself passes some of them to its base.
            own = inspect.signature(type(layer.origin).__init__).parameters
            missing = {key: value for key, value in missing.items() if key in own}
            twin = _from_config(layer, config | missing | changes, changes)
    _check_understood(layer, twin, missing)
    if "lora_alpha" in changes:
        internals.keep_alpha(twin, changes["lora_alpha"])
    take_over_adapted(layer.origin, twin)
    return twin


def _operation(operation: Any, changes: Mapping[str, Any]) -> Any:
    """Return an operation like another, with other options."""
    with internals.untouched_names():
        twin = type(operation)(**{**internals.operation_options(operation), **changes})
    internals.rename_layer(twin, operation.name, variables=False)
    return twin


def _missing_from(config: dict[str, Any], layer: Layer) -> dict[str, Any]:
    """Return arguments that the config of a user's layer leaves out but an attribute holds."""
    cls = type(layer.origin)
    if isinstance(layer.origin, Adapted):
        cls, config = layer.origin.base_class, config["base"]["config"]
    if is_of_keras(cls):
        return {}
    return {
        name: _own(value)
        for name, parameter in internals.constructor_parameters(cls).items()
        if name not in config
        and name != "trainable"
        and (value := getattr(layer.origin, name, parameter.default)) is not parameter.default
    }


def _check_understood(layer: Layer, twin: Any, arguments: dict[str, Any]) -> None:
    """Check that a new layer keeps the arguments that were read from attributes.

    Raises:
        OptionError: If it keeps something else.
    """
    for name, value in arguments.items():
        kept = getattr(twin, name, None)
        if kept is not value and not internals.equal_constants(kept, value):
            message = (
                f"layer '{layer.name}' ({layer.kind}) cannot be re-created: its config does not "
                f"hold '{name}'; write it in get_config(), or replace the layer"
            )
            raise OptionError(message)


def made_with(layer: Any, changes: Mapping[str, Any]) -> Any:
    """Re-create a live layer with other arguments, not built; return `None` if that fails."""
    record = Layer(layer.name, type(layer).__name__, layer)
    with internals.untouched_names(), internals.untouched_randomness():
        try:
            return _from_config(record, _config_to_change(record) | dict(changes), dict(changes))
        except OptionError:
            return None


def _without_sizes(config: Any) -> Any:
    """Return a config without the sizes that the layers in it were built for."""
    return _copied(config, without="build_config")


def _copied(config: Any, *, without: str | None = None) -> Any:
    """Copy the containers of a config; what they hold stays itself.

    Args:
        config: The config.
        without: A key that is left out everywhere.
    """
    if type(config) is dict:
        items = cast("dict[Any, Any]", config).items()
        return {key: _copied(item, without=without) for key, item in items if key != without}
    if type(config) in (list, tuple):
        return type(config)(_copied(item, without=without) for item in config)
    return config


def _from_config(layer: Layer, config: dict[str, Any], changes: dict[str, Any]) -> Any:
    """Create a layer from a config, or from the old one's attributes if that fails.

    A function that the config holds as pickled code would have other globals: it is taken from
    the attributes too. Keras refuses such code by itself only since 3.15.
    """
    config = _without_mirror(layer.origin, config, changes)
    if "dtype" in changes:
        config = {**config, "dtype": _name_of_policy(changes["dtype"])}
    try:
        with internals.safe_deserialization():
            # Wrappers pop entries from a config, and stacked cells from one inside it.
            return type(layer.origin).from_config(_copied(config))
    except Exception as error:  # noqa: BLE001 a user class may raise anything
        raised = internals.unwrapped(error)
    live = {
        name: _own(getattr(layer.origin, name))
        for name, value in config.items()
        if isinstance(value, (dict, tuple)) and hasattr(layer.origin, name) and name not in changes
    }
    if "dtype" in live:  # The attribute of that name is the dtype of variables alone.
        live["dtype"] = _name_of_policy(layer.origin.dtype_policy)
    try:
        # Attributes hold functions and classes that are not registered, unlike the config.
        return type(layer.origin)(**{**config, **live})
    except Exception:  # noqa: BLE001 the same
        changed = ", ".join(f"{name}={value!r}" for name, value in changes.items())
        how, reason = f" with {changed}" if changed else "", internals.reason_of(raised)
        message = f"layer '{layer.name}' ({layer.kind}) cannot be re-created{how}: {reason}"
        raise OptionError(message) from raised


def _name_of_policy(policy: Any) -> Any:
    """Return the name of a plain dtype policy, and anything else as it is.

    Keras derives the config of a class without `get_config` from its arguments, if they are plain.
    """
    return policy.name if type(policy) is keras.DTypePolicy else policy


def _without_mirror(layer: Any, config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a config from which Bidirectional derives its backward layer, if it did before."""
    mirrored = isinstance(layer, keras.layers.Bidirectional) and "layer" in changes
    if not mirrored or "backward_layer" in changes:
        return config
    parts = layer.forward_layer, layer.backward_layer
    forward, backward = map(internals.live_config, parts)
    own = {"name", "go_backwards", "zero_output_for_mask"}
    if any(forward.get(key) != backward.get(key) for key in {*forward, *backward} - own):
        return config
    return {key: value for key, value in config.items() if key != "backward_layer"}


def current(layer: Layer) -> Any:
    """Return a live layer as it will be: the origin, or one re-created with the changes, built."""
    if layer.trainable not in (None, getattr(layer.origin, "trainable", None)):
        twin = current(dataclasses.replace(layer, trainable=None))
        twin = copy_layer(twin) if twin is layer.origin else twin
        twin.trainable = layer.trainable
        return twin
    if layer.changes is None:
        return layer.origin
    twin = reconfigured(layer, sizes=True)
    shapes = internals.build_shapes(layer.origin)
    if layer.origin.built and shapes is not None:
        with internals.untouched_names():
            twin.build(**shapes)
        take_over(layer.origin, twin, layer.weights)
    return twin


def _own(value: Any) -> Any:
    """Return a copy of a layer or of plain containers, and anything else as it is.

    A `from_config`, such as that of `StackedRNNCells`, may change the config that it is passed.
    """
    return copy_layer(value) if isinstance(value, keras.Layer) else _own_containers(value)


def _own_containers(value: Any) -> Any:
    if type(value) is dict:
        items = cast("dict[Any, Any]", value).items()
        return {key: _own_containers(item) for key, item in items}
    if type(value) in (list, tuple):
        return type(value)(_own_containers(item) for item in value)
    return value
