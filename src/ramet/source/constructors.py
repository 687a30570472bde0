"""Layers as calls of their constructors, each checked before it is written."""

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.copying.functions import reached_state
from ramet.copying.models import copy_layer
from ramet.errors import SourceError
from ramet.graph.names import is_automatic
from ramet.source.counting import Use, base_of
from ramet.source.deserialize import UnmadeError, is_harmless, is_harmless_class, is_serialized
from ramet.source.expr import (
    Expr,
    Group,
    Leaf,
    OpenError,
    bare_name,
    call,
    display,
    named,
    value_of,
)
from ramet.source.shortening import before_build, shortened
from ramet.source.values import Values, call_of


class LayerWriter:
    """Writes how layers are created, and records which."""

    def __init__(
        self,
        values: Values,
        known: Callable[[Any], Expr | None],
        is_of_model: Callable[[Any], bool],
    ) -> None:
        """Prepare to write layers.

        Args:
            values: Writes constants.
            known: Writes a layer that the source has a name or a function for, if it has.
            is_of_model: Whether a layer or variable belongs to the model.
        """
        self.values = values
        self.known = known
        self.is_of_model = is_of_model
        self.uses: list[Use] = []
        """What the source creates, in order."""
        self._kept: list[Any] = []  # layers are found by identity, so they have to stay alive
        self._owner = 0

    @contextmanager
    def owned_by(self, owner: int) -> Generator[None]:
        """Record what is created as the work of another function of the source."""
        outer, self._owner = self._owner, owner
        yield
        self._owner = outer

    def layer(self, layer: Any) -> Expr:
        """Write the constructor of a layer.

        Raises:
            SourceError: If no source can re-create the layer.
        """
        known = self.known(layer)
        if known is not None:
            return known
        config = _config_of(layer)
        forms = [self._by_short_config, self._by_config, self._by_whole_config]
        for form in (*(forms if config is not None else []), self._by_attributes):
            mark, count = dict(self.values.parameters), len(self.uses)
            try:
                written = form(layer, config or {})
            except UnmadeError:
                written = None  # another form may do without what cannot be created
            if written is not None and self._creates(written, layer, config):
                self._note(layer, written, count)
                return written
            self.values.forget_since(mark)
            del self.uses[count:]
        written = self._factory(layer)
        self._note(layer, written, len(self.uses))
        return written

    def input(self, layer: Any) -> Expr:
        """Write `keras.Input` for an input layer."""
        self.use(layer)
        config = internals.live_config(layer)
        shape = tuple(config["batch_shape"])
        options: dict[str, Any] = {}
        if not shape or shape[0] is not None:
            options["batch_shape"] = shape
        if config["dtype"] != "float32":
            options["dtype"] = config["dtype"]
        options |= {key: True for key in ("sparse", "ragged", "optional") if config.get(key, False)}
        kwargs = {key: self.values.constant(value, layer.name) for key, value in options.items()}
        args = [] if "batch_shape" in options else [self.values.constant(shape[1:], layer.name)]
        return with_name_of(layer, call(bare_name("keras.Input"), *args, **kwargs))

    def use(self, layer: Any, *, fixed: bool = False, inside: bool = False) -> None:
        """Record that the source creates a layer, a model or an operation."""
        key = id(layer) if isinstance(layer, (keras.Layer, keras.Function)) and not inside else 0
        self.uses.append(Use(layer.name, type(layer).__name__, self._owner, key, inside, fixed))

    def _note(self, layer: Any, written: Expr, since: int) -> None:
        """Record a layer, and the layers inside that it creates itself."""
        head = written.head if isinstance(written, Group) else None
        self.use(layer, fixed=not isinstance(head, Leaf) or not _is_constructor(head))
        known = {use.key for use in self.uses[since:]}
        for part in internals.all_layers(layer)[1:]:
            if id(part) not in known and is_automatic(part.name, type(part).__name__):
                self.use(part, inside=True)

    def vocabulary(self, layer: Any) -> Expr | None:
        """Write the vocabulary of a layer if it is not in its config.

        Raises:
            SourceError: If the words have weights, or cannot be read.
        """
        configured = getattr(layer, "input_vocabulary", True)
        if configured is not None or not internals.has_vocabulary(layer):
            return None
        if getattr(layer, "output_mode", None) == "tf_idf":
            message = (
                f"layer '{layer.name}' has weights of words that come from data, which its config "
                "lacks; pass them to its constructor, or copy the model with ramet.clone"
            )
            raise SourceError(message)
        try:
            words = layer.get_vocabulary(include_special_tokens=False)
        except Exception as error:  # a file can give a layer arguments that it cannot work with
            reason = internals.reason_of(error)
            message = f"the words of layer '{layer.name}' cannot be read: {reason}"
            raise SourceError(f"{message}; copy the model with ramet.clone") from error
        plain = [word if isinstance(word, str) else int(word) for word in words]
        return self.values.constant(plain, layer.name)

    def _by_short_config(self, layer: Any, config: Mapping[str, Any]) -> Expr | None:
        """Write the constructor as briefly as a user would have."""
        short = shortened(layer, config)
        self._kept.append(short)
        return self._by_config(layer, short)

    def _by_config(self, layer: Any, config: Mapping[str, Any]) -> Expr | None:
        return self._constructed(layer, {k: v for k, v in config.items() if k != "trainable"})

    def _by_whole_config(self, layer: Any, config: Mapping[str, Any]) -> Expr | None:
        """Write `from_config` with the whole config, if it is plain data."""
        kind = type(layer)
        plain = _without_history({k: v for k, v in config.items() if k != "trainable"})
        try:
            json.dumps(plain)
        except TypeError:
            return None
        if not is_harmless(plain) or not is_harmless_class(kind):
            return None  # running the source would create what must not be created here
        head = bare_name(f"{self.values.class_name(kind)}.from_config", kind.from_config)
        return call(head, self.values.constant(plain, layer.name))

    def _by_attributes(self, layer: Any, _: Mapping[str, Any]) -> Expr | None:
        """Write the constructor with the attributes that have the names of its arguments."""
        config: dict[str, Any] = {}
        for key, parameter in internals.constructor_parameters(type(layer)).items():
            if key in ("trainable", "autocast"):
                continue
            if hasattr(layer, key):
                value = getattr(layer, key)
                config[key] = value.name if isinstance(value, keras.DTypePolicy) else value
            elif parameter.default is parameter.empty:
                return None
        return self._constructed(layer, config)

    def _constructed(self, layer: Any, config: Mapping[str, Any]) -> Expr:
        def write(key: str, value: Any) -> Expr:
            return self._entry(value, getattr(layer, key, None), layer.name)

        return call_of(type(layer), self.values.class_name(type(layer)), config, write)

    def _entry(self, value: Any, live: Any, where: str) -> Expr:
        """Write an entry of a config: a layer by the live one, everything else as it is."""
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
            described = self.values.described(value, live, where)
            if isinstance(described, keras.Layer):
                return self.layer(described)
            self._check_state(described, None, where)
        return self.values.configured(value, live, where)

    def _check_state(self, value: Any, live: Any, where: str) -> None:
        """Refuse variables of the model, and functions that reach its layers."""
        for held in (value, live):
            if isinstance(held, (keras.Variable, keras.random.SeedGenerator)):
                self._refuse_state(where)
            is_function = callable(held) and not isinstance(held, keras.Layer)
            if is_function and any(map(self.is_of_model, reached_state(held))):
                self._refuse_state(where)

    def _refuse_state(self, where: str) -> None:
        message = (
            f"layer '{where}' holds a function or variable that belongs to the model, so no "
            "source can create it on its own; write it as a layer that is called with what it "
            "needs, or copy the model with ramet.clone"
        )
        raise SourceError(message)

    def _creates(self, written: Expr, layer: Any, config: Mapping[str, Any] | None) -> bool:
        """Whether an expression creates a layer like the one that it was written for."""
        try:
            with (
                internals.untouched_names(),
                internals.untouched_randomness(),
                internals.safe_deserialization(),
            ):
                twin = value_of(written)
        except OpenError:
            return True  # it calls functions of the source, which can only be run as a whole
        except Exception:  # noqa: BLE001 user constructors may raise anything
            return False
        if type(twin) is not type(layer):
            return False
        other = _config_of(twin)
        if config is None:
            return other is None or _comparable(other) == _comparable(_config_of(layer))
        same = (config, before_build(layer, config))
        return other is not None and _comparable(other) in map(_comparable, same)

    def _factory(self, layer: Any) -> Expr:
        """Write a parameter for a function that copies the live layer, if that stands alone."""
        if internals.is_container(layer):
            message = (
                f"model '{layer.name}' ({type(layer).__name__}) builds its graph in its own "
                "constructor, whose arguments are unknown; write a get_config() for it"
            )
            raise SourceError(message)
        parts = [part for part in internals.all_layers(layer) if internals.calls_of(part)]
        if any(part is not layer for part in parts) or _borrows(layer):
            self._refuse_state(layer.name)

        def make() -> Any:
            with internals.untouched_names():
                return copy_layer(layer)

        make.__name__ = make.__qualname__ = f"make_{layer.name}"
        what = f"a function that creates the layer '{layer.name}' ({type(layer).__name__})"
        return call(self.values.parameter(make, f"make_{layer.name}", what, key=id(layer)))


def with_name_of(layer: Any, constructor: Group) -> Group:
    """Return a call with the name of a layer or model as its last argument."""
    return named(constructor, layer.name, base_of(layer.name, type(layer).__name__))


def _is_constructor(head: Leaf) -> bool:
    """Whether a call is one of a class, which has an argument for the name."""
    return isinstance(head.value, type)


def _borrows(layer: Any) -> bool:
    """Whether attributes of a layer are variables that it did not create."""
    own = {id(v) for v in internals.own_variables(layer)}
    return any(isinstance(v, keras.Variable) and id(v) not in own for v in vars(layer).values())


def _is_layer_like(value: Any) -> bool:
    return is_serialized(value) or isinstance(value, keras.Layer)


def _config_of(layer: Any) -> dict[str, Any] | None:
    try:
        config = internals.live_config(layer)
        json.dumps(internals.serialized(config), default=str)
    except Exception:  # noqa: BLE001 user configs may raise anything
        return None
    return config


def _comparable(config: Mapping[str, Any] | None) -> str:
    plain = {key: value for key, value in (config or {}).items() if key != "trainable"}
    return json.dumps(
        _without_history(internals.serialized(plain)),
        sort_keys=True,
        default=lambda value: type(value).__name__,
    )


def _without_history(value: Any) -> Any:
    """Return a config without the entries that say how layers were built or compiled."""
    if isinstance(value, dict):
        history = ("build_config", "compile_config")
        return {k: _without_history(v) for k, v in value.items() if k not in history}
    if isinstance(value, (list, tuple)):
        return [_without_history(item) for item in value]
    return value
