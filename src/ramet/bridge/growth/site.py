"""One layer in its place: what it reads, and what it makes of that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ramet.bridge import internals
from ramet.bridge.growth.axes import Axes, Part, Run

Reads: TypeAlias = Mapping[str, Any]
"""The axes of the tensors that a layer is called on, by argument; lists for several."""

Slots: TypeAlias = tuple[tuple[str, Part], ...]
"""The axes of a weight: what each stands for, and what it is made of."""


@dataclass(frozen=True)
class Weight:
    """What a weight means."""

    family: str
    """The kind of layer; weights of two kinds never mean the same."""
    slots: tuple[str, ...]
    """What each axis stands for."""
    axes: Axes
    """What each axis is made of."""


@dataclass
class Made:
    """What a layer makes of what it reads."""

    outputs: list[Axes] = field(default_factory=list[Axes])
    """The axes of its outputs."""
    weights: dict[str, Slots] = field(default_factory=dict[str, Slots])
    """Its own weights, by name."""
    parts: "dict[str, Site]" = field(default_factory=dict[str, "Site"])
    """Its sublayers in their places, by attribute."""
    family: str = ""
    """What its weights are compared with: those of layers of the same family."""


Rule: TypeAlias = "Callable[[Site], Made]"


@dataclass(frozen=True)
class Site:
    """One layer in its place."""

    layer: Any
    """The live layer or operation."""
    key: tuple[Any, ...]
    """What the layer has in common with the one that it was or will be."""
    reads: Reads | None = None
    """What it is called on; `None` if that is not known."""
    shapes: tuple[tuple[int | None, ...], ...] = ()
    """The shapes of its outputs, if they are known."""
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What else it is called with, by argument."""
    owns: Mapping[str, Part] = field(default_factory=dict[str, Part])
    """Axes of its making that are known better by the layer around it."""

    def tensor(self, argument: str | None = None) -> Axes | None:
        """Returns the axes of a tensor that it reads; of the first one by default."""
        reads = self.reads or {}
        found = reads.get(argument) if argument else next(iter(reads.values()), None)
        while isinstance(found, list):
            found = found[0] if found else None
        return found

    def tensors(self) -> list[Axes]:
        """Lists the axes of all tensors that it reads."""
        found: list[Axes] = []
        waiting = [*(self.reads or {}).values()]
        while waiting:
            item = waiting.pop(0)
            if isinstance(item, list):
                waiting[:0] = item
            else:
                found.append(item)
        return found

    def input(self, axis: int, size: int | None = None, argument: str | None = None) -> Part:
        """Returns what one axis of a tensor that it reads is made of."""
        axes = self.tensor(argument)
        if axes is not None and -len(axes) <= axis < len(axes):
            return axes[axis]
        reason = f"what '{self.layer.name}' reads is not known"
        return Run((*self.key, "in", axis), size, unclear=reason)

    def own(self, slot: str, size: int | None) -> Part:
        """Returns an axis that the layer makes, which grows at its end."""
        return self.owns.get(slot) or Run((*self.key, slot), size)

    def fixed(self, slot: str, size: int | None, reason: str = "") -> Part:
        """Returns an axis whose size has a meaning of its own."""
        unclear = reason or f"the {slot} of '{self.layer.name}' changed"
        return Run((*self.key, slot), size, unclear=unclear)

    def places(self, axis: int) -> Part:
        """Returns an axis of its output that counts places: rows, columns, steps."""
        size = self.shapes[0][axis] if self.shapes else None
        return Run((*self.key, "place", axis), size)

    def size_of(self, weight: str, axis: int) -> int | None:
        """Returns a size of one of the layer's own weights, if it has that."""
        for variable in internals.own_variables(self.layer):
            if variable.name == weight and -len(variable.shape) <= axis < len(variable.shape):
                return int(variable.shape[axis])
        return None

    def inside(
        self, part: str, reads: Reads | None, owns: Mapping[str, Part] | None = None
    ) -> "Site":
        """Returns a sublayer in its place."""
        layer: Any = self.layer
        for step in part.split("."):
            layer = layer[int(step)] if step.isdigit() else getattr(layer, step)
        return Site(layer, (*self.key, part), reads, owns=owns or {})


RULES: dict[str, Rule] = {}
"""What layers of Keras's make of what they read, by class."""


def made_of(site: Site) -> Made:
    """Returns what a layer makes of what it reads; nothing that is sure of a user's own."""
    for kind in type(site.layer).__mro__:
        own = kind.__module__.partition(".")[0] == "keras"
        if own and kind.__name__ in RULES:
            made = RULES[kind.__name__](site)
            if getattr(site.layer, "quantization_mode", None) is not None:
                made.weights = {}  # Packed in ways of their own.
            if site.shapes and (len(made.outputs) != len(site.shapes) or _is_overridden(site)):
                made.outputs = _unknown(site)
            return made
        if own and kind.__name__ in ("Layer", "Operation"):
            break
    return Made(_unknown(site))


def _is_overridden(site: Site) -> bool:
    """Return True if a user's class has a `call` of its own, whatever it does to channels."""
    kinds = type(site.layer).__mro__
    known = next(kind for kind in kinds if kind.__module__.partition(".")[0] == "keras")
    return type(site.layer).call is not known.call


def _unknown(site: Site) -> list[Axes]:
    """Returns outputs of which only the sizes are known."""
    kind, name = type(site.layer).__name__, site.layer.name
    reason = f"how '{name}' ({kind}) arranges what it gives is not known"
    numbers = {value for value in vars(site.layer).values() if type(value) is int}
    found: list[Axes] = []
    for index, shape in enumerate(site.shapes):
        key = (*site.key, "output", index)
        axes = [Run((*key, axis), size, reason) for axis, size in enumerate(shape)]
        if axes and axes[-1].size in numbers and getattr(site.layer, "weights", None):
            # The number of channels is one that its author chose, and weights make them.
            axes[-1] = Run(axes[-1].key, axes[-1].size)
        found.append(tuple(axes))
    return found
