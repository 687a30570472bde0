"""Names for what the source defines: Python's rules kept, none used twice."""

import builtins
import keyword
import re
from dataclasses import dataclass, field
from typing import Any

from ramet.bridge.source.expr import OPEN, Leaf, bare_name

_RESERVED = frozenset({"keras", "np", "model", "name", "name_operations", *dir(builtins)})


@dataclass
class Scope:
    """The names of one function of the source, or of the whole of it."""

    outer: "Scope | None" = None
    """The scope around it, whose names may not be shadowed."""
    taken: set[str] = field(default_factory=set[str])

    def has(self, text: str) -> bool:
        """Tells whether a name means something already."""
        return (
            text in self.taken
            or text in _RESERVED
            or keyword.iskeyword(text)
            or (self.outer is not None and self.outer.has(text))
        )

    def new(self, wanted: str, value: Any = OPEN) -> Leaf:
        """Returns a name like the wanted one that is free, and takes it."""
        base = identifier(wanted)
        text, number = base, 2
        while self.has(text):
            text, number = f"{base}_{number}", number + 1
        self.taken.add(text)
        return bare_name(text, value)


def identifier(text: str) -> str:
    """Returns a text as a Python name."""
    plain = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "value"
    return f"_{plain}" if plain[0].isdigit() else plain
