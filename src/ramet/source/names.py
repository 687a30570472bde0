"""Names for what the source defines: valid in Python, and unique."""

import builtins
import keyword
import re
from dataclasses import dataclass, field
from typing import Any

from ramet.source.expr import OPEN, Leaf, bare_name

_RESERVED = frozenset({"keras", "np", "model", "name", "name_operations"})
_PYTHON = frozenset({*dir(builtins), *keyword.kwlist})


@dataclass
class Scope:
    """The names of one function of the source, or of the whole of it."""

    outer: "Scope | None" = None
    """The scope around it, whose names may not be shadowed."""
    taken: set[str] = field(default_factory=set[str])

    def has(self, text: str) -> bool:
        """Whether a name is taken."""
        return (
            text in self.taken
            or text in _RESERVED
            or text in _PYTHON
            or (self.outer is not None and self.outer.has(text))
        )

    def new(self, wanted: str, value: Any = OPEN) -> Leaf:
        """Reserve a name like the wanted one, and return it."""
        base = identifier(wanted)
        if base in _PYTHON:
            base = f"{base}_"
        text, number = base, 2
        while self.has(text):
            text, number = f"{base.rstrip('_')}_{number}", number + 1
        self.taken.add(text)
        return bare_name(text, value)


def identifier(text: str) -> str:
    """Return a text as a Python name."""
    plain = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "value"
    return f"_{plain}" if plain[0].isdigit() else plain
