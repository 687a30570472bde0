"""What the config of a saved model says, before a class in it is looked up."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ramet.errors import FileError
from ramet.files.words import one_line

MAX_DEPTH = 256
"""Levels of a config. A model in a model takes about five."""

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
    """The module that it is said to live in."""
    layer: str
    """The name of the layer, or of the model, that it belongs to."""
    registered: str | None = None
    """The name that it is registered under."""
    function: bool = False
    """Whether it is a function."""

    @property
    def foreign(self) -> bool:
        """Whether it is not one of Keras's own."""
        if self.name == _LAMBDA or ">" in (self.registered or ""):
            return True
        if self.module is None:  # in a file of Keras 3, only Keras's own classes have a module
            return self.registered is not None
        if self.function and self.module == "builtins":  # so Keras writes its own
            return False
        return self.module.partition(".")[0] != "keras"

    def __str__(self) -> str:
        """Returns it in words, for a message."""
        if self.name == _LAMBDA:
            return f"a pickled Python function in layer '{self.layer}'"
        home = self.registered if self.module is None else f"{self.module}.{self.name}"
        return f"'{home}' of layer '{self.layer}'"


def parse(path: Path, text: bytes | str) -> Any:
    """Reads a config.

    Raises:
        FileError: If it is not JSON, or nested beyond reason.
    """
    too_deep = f"'{path}' has a config of more than {MAX_DEPTH} levels"
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
    """Reads the config of a model.

    Raises:
        FileError: If it is not JSON, or describes no model.
    """
    config = parse(path, text)
    if not isinstance(config, dict) or "class_name" not in config:
        raise FileError(f"'{path}' has a config that describes no model")
    return cast("Any", config)


def foreign(config: Any) -> list[Named]:
    """Lists the classes and functions in a config that are not part of Keras."""
    return [named for named in _named(config) if named.foreign]


def check_backend(path: Path, config: Any, *, backend: str) -> None:
    """Checks that the backend in use has every layer of a config.

    Raises:
        FileError: If a layer needs another one.
    """
    for named in _named(config):
        wanted = _BACKENDS.get(named.name, (backend,))
        if backend not in wanted and not named.foreign:
            message = (
                f"'{path}' needs another backend: layer '{named.layer}' is a {named.name}, which "
                f"runs on {' or '.join(wanted)} and not on {backend} (--backend {wanted[0]})"
            )
            raise FileError(message)


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def _named(config: Any) -> Iterator[Named]:
    """Yields every class and function that a config names, with the layer it is in."""
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
    )
