"""Layers as calls of their constructors, each tried before it is written."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.copies import Builder
from ramet.bridge.functions import reached_state
from ramet.bridge.source.deserialize import (
    UnmadeError,
    is_harmless,
    is_harmless_class,
    is_serialized,
)
from ramet.bridge.source.expr import Expr, OpenError, bare_name, call, display, value_of
from ramet.bridge.source.values import Values, call_of, parameters_of
from ramet.errors import SourceError


class LayerWriter:
    """Writes how layers are made."""

    def __init__(
        self,
        values: Values,
        known: Callable[[Any], Expr | None],
        is_of_model: Callable[[Any], bool],
    ) -> None:
        """Takes what writes constants, what knows layers with names, and whose state is whose."""
        self.values = values
        self.known = known
        self.is_of_model = is_of_model

    def layer(self, layer: Any) -> Expr:
        """Writes the constructor of a layer.

        Raises:
            SourceError: If the layer cannot be made again.
        """
        found = self.known(layer)
        if found is not None:
            return found
        config = _config_of(layer)
        forms = [self._by_config, self._by_whole_config] if config is not None else []
        for form in (*forms, self._by_attributes):
            mark = dict(self.values.parameters)
            try:
                written = form(layer, config or {})
            except UnmadeError:
                written = None  # another form may have no need of what was not made
            if written is not None and self._gives(written, layer, config):
                return written
            self.values.forget_since(mark)
        return self._factory(layer)

    def vocabulary(self, layer: Any) -> Expr | None:
        """Writes the words that a layer looks up and its config does not tell.

        Raises:
            SourceError: If the words have weights too.
        """
        told = getattr(layer, "input_vocabulary", True)
        if told is not None or not internals.has_vocabulary(layer):
            return None
        if getattr(layer, "output_mode", None) == "tf_idf":
            message = (
                f"layer '{layer.name}' has weights of words that come from data, which no source "
                "tells; give them to its constructor, or copy the model with ramet.clone"
            )
            raise SourceError(message)
        words = layer.get_vocabulary(include_special_tokens=False)
        plain = [word if isinstance(word, str) else int(word) for word in words]
        return self.values.constant(plain, layer.name)

    def _by_config(self, layer: Any, config: Mapping[str, Any]) -> Expr | None:
        return self._made(layer, {k: v for k, v in config.items() if k != "trainable"})

    def _by_whole_config(self, layer: Any, config: Mapping[str, Any]) -> Expr | None:
        """Writes `from_config` with all that the config tells, if it is plain."""
        kind = type(layer)
        plain = _without_history({k: v for k, v in config.items() if k != "trainable"})
        try:
            json.dumps(plain)
        except TypeError:
            return None
        if not is_harmless(plain) or not is_harmless_class(kind):
            return None  # running the source would make what is not made here
        head = bare_name(f"{self.values.class_name(kind)}.from_config", kind.from_config)
        return call(head, self.values.constant(plain, layer.name))

    def _by_attributes(self, layer: Any, _: Mapping[str, Any]) -> Expr | None:
        """Writes the constructor with the attributes that are named like its arguments."""
        config: dict[str, Any] = {}
        for key, parameter in parameters_of(type(layer)).items():
            if key in ("trainable", "autocast"):
                continue
            if hasattr(layer, key):
                value = getattr(layer, key)
                config[key] = value.name if isinstance(value, keras.DTypePolicy) else value
            elif parameter.default is parameter.empty:
                return None
        return self._made(layer, config)

    def _made(self, layer: Any, config: Mapping[str, Any]) -> Expr:
        def write(key: str, value: Any) -> Expr:
            return self._entry(value, getattr(layer, key, None), layer.name)

        return call_of(type(layer), self.values.class_name(type(layer)), config, write)

    def _entry(self, value: Any, live: Any, where: str) -> Expr:
        """Writes an entry of a config: a layer by the live one, all else as it is."""
        if isinstance(value, (list, tuple)) and any(map(_is_layer_like, value)):
            fits = isinstance(live, (list, tuple)) and len(live) == len(value)
            parts = live if fits else [None] * len(value)
            pairs = zip(value, parts, strict=True)
            return display("[]", [self._entry(*pair, where) for pair in pairs])
        if isinstance(value, keras.Layer):
            return self.layer(value)
        self._check_state(value, live, where)
        if is_serialized(value):
            if isinstance(live, keras.Layer):
                return self.layer(live)
            made = self.values.described(value, live, where)
            if isinstance(made, keras.Layer):
                return self.layer(made)
            self._check_state(made, None, where)
        return self.values.configured(value, live, where)

    def _check_state(self, value: Any, live: Any, where: str) -> None:
        """Refuses what is bound to the model: its variables, functions that reach its layers."""
        for held in (value, live):
            if isinstance(held, (keras.Variable, keras.random.SeedGenerator)):
                self._refuse_state(where)
            is_function = callable(held) and not isinstance(held, keras.Layer)
            if is_function and any(map(self.is_of_model, reached_state(held))):
                self._refuse_state(where)

    def _refuse_state(self, where: str) -> None:
        message = (
            f"layer '{where}' holds a function or variable that belongs to the model, so no "
            "source can make it again on its own; write it as a layer that takes what it needs "
            "by its call, or copy the model with ramet.clone"
        )
        raise SourceError(message)

    def _gives(self, written: Expr, layer: Any, config: Mapping[str, Any] | None) -> bool:
        """Tells whether an expression makes a layer like the one it was written for."""
        try:
            with (
                internals.untouched_names(),
                internals.untouched_randomness(),
                internals.safe_deserialization(),
            ):
                made = value_of(written)
        except OpenError:
            return True  # it calls functions of the source: only the whole of it can be tried
        except Exception:  # noqa: BLE001 a constructor fails in as many ways as there are authors
            return False
        if type(made) is not type(layer):
            return False
        found = _config_of(made)
        if config is None:
            return found is None or _comparable(found) == _comparable(_config_of(layer))
        return found is not None and _comparable(found) == _comparable(config)

    def _factory(self, layer: Any) -> Expr:
        """Makes a function that copies the live layer a parameter, if it stands alone."""
        if internals.is_container(layer):
            message = (
                f"model '{layer.name}' ({type(layer).__name__}) makes its graph in its own "
                "constructor, and does not tell the arguments of it; write a get_config() for it"
            )
            raise SourceError(message)
        parts = [part for part in internals.all_layers(layer) if internals.calls_of(part)]
        if any(part is not layer for part in parts) or _borrows(layer):
            self._refuse_state(layer.name)

        def make() -> Any:
            with internals.untouched_names():
                return Builder("copy").copy(layer)

        make.__name__ = make.__qualname__ = f"make_{layer.name}"
        said = f"a function that makes the layer '{layer.name}' ({type(layer).__name__})"
        return call(self.values.parameter(make, f"make_{layer.name}", said, key=id(layer)))


def _borrows(layer: Any) -> bool:
    """Tells whether a layer holds variables of its attributes that it did not make."""
    own = {id(v) for v in internals.own_variables(layer)}
    return any(isinstance(v, keras.Variable) and id(v) not in own for v in vars(layer).values())


def _is_layer_like(value: Any) -> bool:
    return is_serialized(value) or isinstance(value, keras.Layer)


def _config_of(layer: Any) -> dict[str, Any] | None:
    try:
        config = layer.get_config()
        json.dumps(keras.saving.serialize_keras_object(config), default=str)
    except Exception:  # noqa: BLE001 a config fails in as many ways as there are authors
        return None
    return config


def _comparable(config: Mapping[str, Any] | None) -> str:
    plain = {key: value for key, value in (config or {}).items() if key != "trainable"}
    return json.dumps(
        _without_history(keras.saving.serialize_keras_object(plain)),
        sort_keys=True,
        default=lambda value: type(value).__name__,
    )


def _without_history(value: Any) -> Any:
    """Leaves out of a config what tells that a layer inside was built or compiled."""
    if isinstance(value, dict):
        told = ("build_config", "compile_config")
        return {k: _without_history(v) for k, v in value.items() if k not in told}
    if isinstance(value, (list, tuple)):
        return [_without_history(item) for item in value]
    return value
