"""The config of a saved model, checked before a class in it is looked up."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ramet._words import ADAPTED
from ramet.errors import FileError
from ramet.files.words import brief, one_line
from ramet.graph.names import with_article

MAX_DEPTH = 256
"""Levels of a config. A model in a model takes about five."""
MAX_PARSED = 1 << 29
"""Bytes of memory that a config may take when it is read: 512 MiB."""

_COSTS = {b"{": 256, b"[": 64, b",": 72}
"""Bytes that an object, a list and an item take at most."""

_LAMBDA = "__lambda__"
_BACKENDS = {
    "FlaxLayer": ("jax", "tensorflow"),
    "JaxLayer": ("jax", "tensorflow"),
    "TFSMLayer": ("tensorflow",),
    "TorchModuleWrapper": ("torch",),
}
"""Layers of Keras that not every backend can run."""


@dataclass(frozen=True, slots=True)
class Named:
    """A class or function that a config names."""

    name: str
    """Its name."""
    module: str | None
    """The module that the config says it is in."""
    layer: str
    """The name of the layer, or of the model, that it belongs to."""
    registered: str | None = None
    """The name that it is registered under."""
    function: bool = False
    """Whether it is a function."""
    described: dict[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)
    """The part of the config that names it."""

    @property
    def own(self) -> bool:
        """Whether it says that it is a layer of ramet's own, such as `Int8Conv2D`."""
        room = (self.module or "").partition(".")[0]
        return room == "ramet" and self.registered == f"ramet>{self.name}"

    @property
    def foreign(self) -> bool:
        """Whether it is neither one of Keras's own nor of ramet's."""
        if self.own or self.is_adapted:
            return False
        if self.name == _LAMBDA or ">" in self.name + (self.registered or ""):
            return True
        if self.module is None:  # in a file of Keras 3, only Keras's own classes have a module
            return self.registered is not None
        if self.function and self.module == "builtins":  # how Keras writes its own
            return False
        return self.module.partition(".")[0] != "keras"

    @property
    def is_adapted(self) -> bool:
        """Whether it is a layer with adapters, by the name under which Keras looks it up."""
        return self.registered == ADAPTED and not self.function

    def __str__(self) -> str:
        """Return a description for messages."""
        place = "in" if self.name == _LAMBDA else "of"
        return f"{self.title} {place} layer '{brief(self.layer)}'"

    @property
    def title(self) -> str:
        """What it is, without the layer."""
        if self.name == _LAMBDA:
            return "a pickled Python function"
        if self.module is not None:
            return f"'{brief(f'{self.module}.{self.name}')}'"
        return f"'{brief(self.registered or self.name)}'"


def parse(path: Path, text: bytes | str) -> Any:
    """Read a config.

    Raises:
        FileError: If it is not JSON, or nested too deeply.
    """
    too_deep = f"'{path}' has a config of more than {MAX_DEPTH} levels"
    size = _parsed_size(text)
    if size > MAX_PARSED:
        message = f"'{path}' has a config that may take {size} bytes; {MAX_PARSED} is the limit"
        raise FileError(message)
    try:
        config = json.loads(text)
    except RecursionError as error:
        raise FileError(too_deep) from error
    except ValueError as error:
        raise FileError(
            f"'{path}' has a config that is not JSON: {one_line(str(error))}"
        ) from error
    level = [config]
    for _ in range(MAX_DEPTH):
        level = [inner for value in level for inner in _inside(value)]
    if level:
        raise FileError(too_deep)
    return config


def parse_model(path: Path, text: bytes | str) -> Any:
    """Read the config of a model.

    Raises:
        FileError: If it is not JSON, or does not describe a model.
    """
    config = parse(path, text)
    if not isinstance(config, dict) or "class_name" not in config:
        raise FileError(f"'{path}' has a config that does not describe a model")
    return cast("Any", config)


def named_in(config: Any) -> list[Named]:
    """List the classes and functions that a config names."""
    return [*_named(config)]


def check_calls(path: Path, config: Any) -> None:
    """Check that every call of a layer has a symbolic tensor: Keras runs all others at once.

    Raises:
        FileError: If one has none.
    """
    waiting = [config]
    while waiting:
        value = waiting.pop()
        calls = cast("dict[str, Any]", value).get("inbound_nodes") if _is_dict(value) else None
        for call in cast("list[Any]", calls) if isinstance(calls, list) else []:
            if _is_dict(call) and not _has_tensor(call):
                layer = brief(_layer_name(value) or "the model")
                raise FileError(f"'{path}' has a call of layer '{layer}' without a tensor")
        waiting += _inside(value)


_ADAPTED_HAS = frozenset({"name", "base", "adapters", "trains_base"})
"""What the config of a layer with adapters has. Anything else would become an argument of the
layer without them, unseen by the checks of its config."""


def check_adapted(path: Path, config: Any) -> None:
    """Check that layers with adapters are described by what ramet writes, and nothing else.

    Raises:
        FileError: If one is not.
    """
    for named in _named(config):
        own: Any = named.described.get("config")
        if named.is_adapted and not (
            _is_dict(own)
            and {*own} <= _ADAPTED_HAS
            and _is_dict(own.get("base"))
            and _is_dict(own["base"].get("config"))
        ):
            message = (
                f"'{path}' has a layer '{brief(named.layer)}' with adapters of an unknown form"
            )
            raise FileError(message)


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def _has_tensor(call: Any) -> bool:
    if _is_dict(call) and call.get("class_name") == "__keras_tensor__":
        return True
    return any(map(_has_tensor, _inside(call)))


def check_backend(path: Path, config: Any, *, backend: str) -> None:
    """Check that the backend in use has every layer of a config.

    Raises:
        FileError: If a layer needs another backend.
    """
    for named in _named(config):
        wanted = _BACKENDS.get(named.name, (backend,))
        if backend not in wanted and not named.foreign:
            message = (
                f"'{path}' needs another backend: layer '{brief(named.layer)}' is "
                f"{with_article(named.name)}, which runs on {' or '.join(wanted)} and not on "
                f"{backend}; set KERAS_BACKEND={wanted[0]} before Keras is imported"
            )
            raise FileError(message)


def _parsed_size(text: bytes | str) -> int:
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    return 2 * len(data) + sum(data.count(sign) * cost for sign, cost in _COSTS.items())


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def _named(config: Any) -> Iterator[Named]:
    """Yield every class and function that a config names, with the layer it is in."""
    waiting: list[tuple[Any, str]] = [(config, "the model")]
    while waiting:
        value, layer = waiting.pop()
        if isinstance(value, dict):
            described = cast("dict[str, Any]", value)
            layer = _layer_name(described) or layer
            if "class_name" in described:
                yield _read(described, layer)
        waiting += [(inner, layer) for inner in reversed(_inside(value))]


def _layer_name(described: dict[str, Any]) -> str | None:
    config = described.get("config")
    inner = cast("dict[str, Any]", config) if isinstance(config, dict) else {}
    name = inner.get("name", described.get("name"))
    return name if isinstance(name, str) and "class_name" in described else None


def _read(described: dict[str, Any], layer: str) -> Named:
    name, config = described["class_name"], described.get("config")
    function = name == "function" and isinstance(config, str)
    module, registered = described.get("module"), described.get("registered_name")
    return Named(
        str(config if function else name),
        None if module is None else str(module),
        layer,
        None if registered is None else str(registered),
        function,
        described,
    )
