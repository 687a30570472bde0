"""Names for what the source defines: Python's rules kept, none used twice."""

import builtins
import keyword
import re
from dataclasses import dataclass, field

_RESERVED = frozenset({"keras", "np", "model", "name", "name_operations", *dir(builtins)})


@dataclass
class Scope:
    """The names of one function of the source, or of the whole of it."""

    outer: "Scope | None" = None
    """The scope around it, whose names may not be shadowed."""
    taken: set[str] = field(default_factory=set[str])

    def has(self, name: str) -> bool:
        """Tells whether a name means something already."""
        return (
            name in self.taken
            or name in _RESERVED
            or keyword.iskeyword(name)
            or (self.outer is not None and self.outer.has(name))
        )

    def new(self, wanted: str) -> str:
        """Returns a name like the wanted one that is free, and takes it."""
        base = identifier(wanted)
        name, number = base, 2
        while self.has(name):
            name, number = f"{base}_{number}", number + 1
        self.taken.add(name)
        return name


def identifier(text: str) -> str:
    """Returns a text as a Python name."""
    plain = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "value"
    return f"_{plain}" if plain[0].isdigit() else plain
