"""One layer in its place: its inputs, and what the axes of its outputs and weights mean."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ramet import keras_internals as internals
from ramet.backends import is_of_keras
from ramet.building.growth.axes import Axes, Part, Run

Reads: TypeAlias = Mapping[str, Any]
"""The axes of the tensors that a layer is called on, by argument; lists for several."""

Slots: TypeAlias = tuple[tuple[str, Part], ...]
"""The axes of a weight: what each stands for, and what it is made of."""


@dataclass
class Meaning:
    """What the axes of a layer's outputs and weights mean, given its inputs."""

    outputs: list[Axes] = field(default_factory=list[Axes])
    """The axes of its outputs."""
    weights: dict[str, Slots] = field(default_factory=dict[str, Slots])
    """Its own weights, by name."""
    parts: "dict[str, Site]" = field(default_factory=dict[str, "Site"])
    """Its sublayers in their places, by attribute."""
    family: str = ""
    """Weights mean the same only in layers of one family; empty for one that is not known."""


Rule: TypeAlias = "Callable[[Site], Meaning]"
"""Says what the axes of layers of one class mean."""


@dataclass(frozen=True)
class Site:
    """One layer in its place."""

    layer: Any
    """The live layer or operation."""
    key: tuple[Any, ...]
    """Identifies the layer: the same before and after the edits."""
    reads: Reads | None = None
    """The axes of its inputs; `None` if they are not known."""
    shapes: tuple[tuple[int | None, ...], ...] = ()
    """The shapes of its outputs, if they are known."""
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Its other arguments, by name."""
    owns: Mapping[str, Part] = field(default_factory=dict[str, Part])
    """Output axes, by slot, that the layer around it knows better."""

    def tensor(self, argument: str | None = None) -> Axes | None:
        """Return the axes of one of its inputs, by default of the first."""
        reads = self.reads or {}
        axes = reads.get(argument) if argument else next(iter(reads.values()), None)
        while isinstance(axes, list):
            axes = axes[0] if axes else None
        return axes

    def tensors(self) -> list[Axes]:
        """List the axes of all its inputs."""
        tensors: list[Axes] = []
        waiting = [*(self.reads or {}).values()]
        while waiting:
            item = waiting.pop(0)
            if isinstance(item, list):
                waiting[:0] = item
            else:
                tensors.append(item)
        return tensors

    def input(self, axis: int, size: int | None = None, argument: str | None = None) -> Part:
        """Return what one axis of an input is made of."""
        axes = self.tensor(argument)
        if axes is not None and -len(axes) <= axis < len(axes):
            return axes[axis]
        reason = f"the inputs of '{self.layer.name}' are not known"
        return Run((*self.key, "in", axis), size, unclear=reason)

    def own(self, slot: str, size: int | None) -> Part:
        """Return an axis that the layer creates, which grows at its end."""
        return self.owns.get(slot) or Run((*self.key, slot), size)

    def fixed(self, slot: str, size: int | None, reason: str = "") -> Part:
        """Return an axis whose size has a meaning of its own."""
        unclear = reason or f"the {slot} of '{self.layer.name}' changed"
        return Run((*self.key, slot), size, unclear=unclear)

    def places(self, axis: int) -> Part:
        """Return an axis of its output that counts positions: rows, columns, steps."""
        size = self.shapes[0][axis] if self.shapes else None
        return Run((*self.key, "place", axis), size)

    def size_of(self, weight: str, axis: int) -> int | None:
        """Return the size of an axis of one of the layer's own weights, if it has that."""
        for variable in internals.own_variables(self.layer):
            if variable.name == weight and -len(variable.shape) <= axis < len(variable.shape):
                return int(variable.shape[axis])
        return None

    def inside(
        self, part: str, reads: Reads | None, owns: Mapping[str, Part] | None = None
    ) -> "Site":
        """Return a sublayer in its place."""
        layer: Any = self.layer
        for step in part.split("."):
            layer = layer[int(step)] if step.isdigit() else getattr(layer, step)
        return Site(layer, (*self.key, part), reads, owns=owns or {})


RULES: dict[str, Rule] = {}
"""Rules for Keras's own layers and operations, by class name.

`reader` fills this in when it is imported. Rules for layers around layers call `meaning_of`
for the layer inside, so they import this module, which cannot import them.
"""


def meaning_of(site: Site) -> Meaning:
    """Return what the axes of a layer mean; of a user's own layer, little is certain."""
    for cls in type(site.layer).__mro__:
        own = is_of_keras(cls)
        if own and cls.__name__ in RULES:
            meaning = RULES[cls.__name__](site)
            if getattr(site.layer, "quantization_mode", None) is not None:
                meaning.weights = {}  # Quantized weights are packed.
            if site.shapes and (len(meaning.outputs) != len(site.shapes) or _is_overridden(site)):
                meaning.outputs = _unknown(site)
            return meaning
        if own and cls.__name__ in ("Layer", "Operation"):
            break
    return Meaning(_unknown(site))


def _is_overridden(site: Site) -> bool:
    """Whether a user's class overrides `call`, and so may do anything to channels."""
    cls = type(site.layer)
    return cls.call is not next(filter(is_of_keras, cls.__mro__)).call


def _unknown(site: Site) -> list[Axes]:
    """Return outputs whose sizes alone are known."""
    class_name, name = type(site.layer).__name__, site.layer.name
    reason = f"how '{name}' ({class_name}) arranges its output is not known"
    numbers = {value for value in vars(site.layer).values() if type(value) is int}
    outputs: list[Axes] = []
    for index, shape in enumerate(site.shapes):
        key = (*site.key, "output", index)
        axes = [Run((*key, axis), size, reason) for axis, size in enumerate(shape)]
        if axes and axes[-1].size in numbers and getattr(site.layer, "weights", None):
            # The number of channels is an argument of the layer, and weights compute them.
            axes[-1] = Run(axes[-1].key, axes[-1].size)
        outputs.append(tuple(axes))
    return outputs
