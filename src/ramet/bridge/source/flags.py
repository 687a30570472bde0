"""What is set after a model is made: flags of what is trainable, and what configs forget."""

from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.source.expr import display, is_name, literal, text_of
from ramet.bridge.source.layout import statement
from ramet.errors import SourceError

_MOST = 2
"""How many layers get a line each; more of them get a loop."""


def flag_lines(model: Any) -> list[str]:
    """Writes the lines that freeze what is frozen, from the outside to the inside."""
    lines: list[str] = []
    inherited = True
    if not model.trainable:
        lines.append("    model.trainable = False")
        inherited = False
    _inside(model, "model", lines, inherited=inherited)
    return lines


def _inside(model: Any, access: str, lines: list[str], *, inherited: bool) -> None:
    parts = [p for p in model.layers if not isinstance(p, keras.layers.InputLayer)]
    differ = [part for part in parts if part.trainable != inherited]
    if len(differ) > _MOST:
        names = display("()", [text_of(part.name) for part in differ])
        lines += statement("for name in ", names, after=":")
        lines.append(f"        {access}.get_layer(name).trainable = {not inherited}")
    else:
        lines += [
            f"    {access}.get_layer({text_of(part.name)}).trainable = {not inherited}"
            for part in differ
        ]
    for part in parts:
        inner = f"{access}.get_layer({text_of(part.name)})"
        if internals.is_container(part):
            _inside(part, inner, lines, inherited=part.trainable)
            continue
        alpha = getattr(part, "lora_alpha", None)
        if getattr(part, "lora_enabled", False) and alpha != part.lora_rank:
            lines.append(f"    {inner}.lora_alpha = {_number(alpha, part)}")
        for variable in internals.own_trainable(part):
            name = internals.attribute_name(part, variable)
            if variable.trainable != part.trainable and name is not None:
                held = _attribute(inner, name.removeprefix("_"))
                lines.append(f"    {held}.trainable = {bool(variable.trainable)}")


def _attribute(access: str, name: str) -> str:
    return f"{access}.{name}" if is_name(name) else f"getattr({access}, {text_of(name)})"


def _number(value: Any, layer: Any) -> str:
    written = literal(value)
    if written is None:
        message = (
            f"layer '{layer.name}' has a lora_alpha that is a {type(value).__name__}, which has no "
            "source; set it to a number"
        )
        raise SourceError(message)
    return written
