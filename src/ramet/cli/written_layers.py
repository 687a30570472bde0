"""Layers written as text, such as `keras.layers.Dropout(0.1)`.

The text is parsed, never evaluated: it can only call public Keras classes with literal
arguments.
"""

import ast
from dataclasses import dataclass
from typing import Any, NoReturn

import keras

from ramet import keras_internals as internals
from ramet.errors import OptionError
from ramet.files.words import one_line
from ramet.graph.names import did_you_mean

_ROOMS: dict[str, type] = {
    "layers": keras.Layer,
    "regularizers": keras.regularizers.Regularizer,
    "initializers": keras.initializers.Initializer,
    "constraints": keras.constraints.Constraint,
}
"""The modules of Keras whose classes may be used, and the base classes of these."""

_QUOTED = 60
"""How many characters of a text a message quotes."""

_WORDS = {"true": True, "false": False, "none": None}
"""Constants, in any case."""


@dataclass(frozen=True, slots=True)
class LayerText:
    """A layer written as text, created each time it is needed."""

    text: str
    """The text."""
    node: ast.Call
    """The same, parsed."""

    @property
    def named(self) -> bool:
        """Whether the text sets a name, so that the layer can be used only once."""
        return any(keyword.arg == "name" for keyword in self.node.keywords)

    def make(self) -> Any:
        """Create the layer. Its automatic name does not depend on earlier layers.

        Raises:
            OptionError: If Keras refuses the arguments.
        """
        with internals.fresh_names():
            return _created(self.node)


def read_layer(text: str) -> LayerText:
    """Parse a layer, and create it once to check it.

    Raises:
        OptionError: If it is anything but a call of a Keras layer with literal arguments.
    """
    node = _parsed(text)
    if not isinstance(node, ast.Call):
        _refuse(node, "it is not a call of a layer")
    layer = LayerText(text, node)
    if not isinstance(layer.make(), keras.Layer):
        _refuse(node, "it is not a layer")
    return layer


def read_arguments(text: str) -> dict[str, Any]:
    """Parse arguments, such as `units=20,activation=relu`. Bare words are strings.

    Raises:
        OptionError: If they cannot be parsed.
    """
    node = _parsed(f"f({text})")
    if not isinstance(node, ast.Call) or node.args or not node.keywords:
        raise OptionError(f"'{text}' does not have the form key=value,key=value")
    arguments: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise OptionError(f"'{text}' does not have the form key=value,key=value")
        arguments[keyword.arg] = _value(keyword.value, bare=True)
    return arguments


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise OptionError(
            f"'{one_line(text, _QUOTED)}' cannot be read: {one_line(str(error))}"
        ) from error


def _value(node: ast.expr, *, bare: bool = False) -> Any:
    """Return a literal or a Keras object; with `bare`, also words."""
    if isinstance(node, ast.Call):
        return _created(node)
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    if isinstance(node, ast.Name) and (bare or node.id in _WORDS):
        return _WORDS.get(node.id.lower(), node.id)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError, SyntaxError):
        _refuse(node, "it is not a literal")


def _created(node: ast.Call) -> Any:
    """Create an object of a public Keras class."""
    cls = _class(node.func)
    args = [_value(arg) for arg in node.args]
    options: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            _refuse(node, "write the arguments one by one")
        options[keyword.arg] = _value(keyword.value)
    try:
        return cls(*args, **options)
    except Exception as error:  # a constructor may raise anything
        message = f"'{_shown(node)}' cannot be created: {one_line(str(error))}"
        raise OptionError(message) from error


def _class(node: ast.expr) -> Any:
    """Return the public Keras class of a dotted name."""
    path = _dotted(node)
    if path[:1] == ["keras"]:
        path = path[1:]
    elif len(path) == 1:
        path = ["layers", *path]
    room, name = path if len(path) == 2 else ("", "")  # noqa: PLR2004 a module and a class
    if room not in _ROOMS:
        _refuse(node, f"it is none of keras.{', keras.'.join(_ROOMS)}")
    module = getattr(keras, room)
    cls = None if name.startswith("_") else getattr(module, name, None)
    if not isinstance(cls, type) or not issubclass(cls, _ROOMS[room]):
        known = [known for known in dir(module) if not known.startswith("_")]
        message = f"there is no class '{name}' in keras.{room}{did_you_mean(name, known)}"
        raise OptionError(message)
    if not internals.is_part(cls):
        _refuse(node, "it runs what is not part of Keras")
    return cls


def _dotted(node: ast.expr) -> list[str]:
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.insert(0, node.attr)
        node = node.value
    return [node.id, *path] if isinstance(node, ast.Name) else []


def _refuse(node: ast.expr, why: str) -> NoReturn:
    message = (
        f"'{_shown(node)}' is refused: {why}; write a layer of Keras with literal arguments, "
        "such as keras.layers.Dropout(0.1)"
    )
    raise OptionError(message)


def _shown(node: ast.expr) -> str:
    try:
        return one_line(ast.unparse(node), _QUOTED)
    except RecursionError:
        return "..."
