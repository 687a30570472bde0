"""What is set after a model is built: trainable flags, and what configs lack."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.errors import SourceError
from ramet.graph.names import with_article
from ramet.source.expr import Leaf, display, is_name, literal, text_of
from ramet.source.lines import Line, Statement

_MOST = 2
"""Up to this many layers get a line each; more get a loop."""


def flag_lines(model: Any, known: Mapping[int, Leaf], pinned: set[int]) -> list[Line]:
    """Write the lines that freeze what is frozen, from the outside to the inside.

    Args:
        model: The model.
        known: The names of layers in the source, by identity.
        pinned: Identities of layers; those that are found by their names are added.
    """
    flags = _Flags(known, pinned)
    if not model.trainable:
        flags.lines.append("    model.trainable = False")
    flags.inside(model, "model", inherited=model.trainable)
    return flags.lines


@dataclass
class _Flags:
    known: Mapping[int, Leaf]
    pinned: set[int]
    lines: list[Line] = field(default_factory=list["Line"])

    def inside(self, model: Any, access: str, *, inherited: bool) -> None:
        """Write what differs inside of a model that is reached in some way."""
        parts = [p for p in model.layers if not isinstance(p, keras.layers.InputLayer)]
        differ = [part for part in parts if part.trainable != inherited]
        if len(differ) > _MOST:
            self.pinned.update(map(id, differ))
            names = display("()", [text_of(part.name) for part in differ])
            self.lines.append(Statement("for name in ", names, after=":"))
            self.lines.append(f"        {access}.get_layer(name).trainable = {not inherited}")
            differ = []
        for part in differ:
            self.lines.append(f"    {self.reached(part, access)}.trainable = {not inherited}")
        for part in parts:
            written, pinned = len(self.lines), set(self.pinned)
            inner = self.reached(part, access)
            if internals.is_container(part):
                self.inside(part, inner, inherited=part.trainable)
            else:
                self.lines += _own_lines(part, inner)
            if len(self.lines) == written:
                self.pinned &= pinned

    def reached(self, part: Any, access: str) -> str:
        """Write how a layer is reached: by its name in the source, or in its model."""
        if id(part) in self.known:
            return self.known[id(part)]
        self.pinned.add(id(part))
        return f"{access}.get_layer({text_of(part.name)})"


def _own_lines(layer: Any, access: str) -> list[str]:
    """Write what was set on a layer after it was created: its LoRA scale, frozen variables."""
    lines: list[str] = []
    alpha = getattr(layer, "lora_alpha", None)
    if getattr(layer, "lora_enabled", False) and alpha != layer.lora_rank:
        lines.append(f"    {access}.lora_alpha = {_number(alpha, layer)}")
    for variable in internals.own_trainable(layer):
        if variable.trainable != layer.trainable:
            held = _variable(layer, variable)
            lines.append(f"    {access}.{held}.trainable = {bool(variable.trainable)}")
    return lines


def _variable(layer: Any, variable: Any) -> str:
    """Write how a variable is reached: by a public attribute, or by its place."""
    name = (internals.attribute_name(layer, variable) or "").removeprefix("_")
    if is_name(name) and not name.startswith("_") and getattr(layer, name, None) is variable:
        return name
    places = [i for i, weight in enumerate(layer.weights) if weight is variable]
    return f"weights[{places[0]}]"


def _number(value: Any, layer: Any) -> str:
    written = literal(value)
    if written is None:
        message = (
            f"layer '{layer.name}' has a lora_alpha that is {with_article(type(value).__name__)}, "
            "which has no source; set it to a number"
        )
        raise SourceError(message)
    return written
