"""One call of a layer, as the rules see it: the labels of its inputs, and what it does to them.

A rule says of one class of layers how the labels of the outputs follow from those of the
inputs, which axes of which weights they label, and how the config follows from the sizes. It
calls the methods of its `Site` for that. Rules execute nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from ramet.backends import is_of_keras
from ramet.compress.channels.atoms import Atoms, Labels
from ramet.graph.values import Role

Kind: TypeAlias = Literal["made", "carried", "read"]
"""What a weight does with the channels along an axis: it creates them, it has one value for
each and keeps them apart, or it mixes them into others."""


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """One axis of a tensor."""

    size: int | None
    """Its size; `None` if it is not known."""
    labels: Labels | None = None
    """Its atoms; `None` if all of it always stays."""
    leaks: Labels | None = None
    """For each index, 0 if it is zero when its atoms are masked, or the number of the reason why
    it is not; `None` if all are zero."""

    def label(self) -> Labels:
        """Return the labels, also of an axis that always stays."""
        return np.full(self.size or 0, -1) if self.labels is None else self.labels

    def leak(self) -> Labels:
        """Return the leaks, also if there are none."""
        return np.zeros(self.size or 0, np.int64) if self.leaks is None else self.leaks

    def at(self, indices: Labels) -> "Axis":
        """Return some indices of the axis."""
        return axis_of(self.label()[indices], self.leak()[indices])

    def leaking(self, reason: int) -> "Axis":
        """Return the axis after something that does not keep zeros."""
        if self.labels is None:
            return self
        return Axis(self.size, self.labels, np.where(self.leak() > 0, self.leak(), reason))


Tensor: TypeAlias = tuple[Axis, ...]
"""The axes of one tensor."""


def axis_of(labels: Labels, leaks: Labels | None = None) -> Axis:
    """Return an axis with some labels."""
    if (labels < 0).all():
        return Axis(len(labels))
    return Axis(len(labels), labels, leaks if leaks is not None and leaks.any() else None)


def fixed(shape: Iterable[int | None]) -> Tensor:
    """Return a tensor all of whose axes always stay."""
    return tuple(map(Axis, shape))


@dataclass
class Weight:
    """The axes of one variable."""

    axes: list[tuple[Axis, Kind]]
    """What labels each axis, and what the variable does with it."""


@dataclass
class Flow:
    """What is known of one layer after all of its calls."""

    path: str
    """Path of the layer."""
    live: Any
    """The live layer."""
    shapes: Mapping[Role, tuple[int, ...]] = field(default_factory=dict[Role, tuple[int, ...]])
    """The shapes of its variables."""
    weights: dict[Role, Weight] = field(default_factory=dict[Role, Weight])
    """Its variables."""
    sizes: dict[str, Axis] = field(default_factory=dict[str, Axis])
    """The axes that its config depends on, by slot."""
    configs: dict[tuple[Any, ...], Callable[[Mapping[str, int]], Mapping[str, Any]]] = field(
        default_factory=dict[Any, Any]
    )
    """Functions from sizes by slot to constructor arguments, by the steps into the config."""
    made: dict[str, Axis] = field(default_factory=dict[str, Axis])
    """The axes that the layer created, by slot."""
    outputs: dict[int, Sequence[Tensor]] = field(default_factory=dict[int, Any])
    """The outputs of its calls, by the ids of the calls in the graph that is seen."""
    crossing: list[tuple[Axis, ...]] = field(default_factory=list[tuple[Axis, ...]])
    """Axes of which the channels cross each other."""


@dataclass(frozen=True)
class Site:
    """One call of a layer."""

    layer: Any
    """The live layer or operation."""
    path: str
    """Path of the layer, for names and reasons."""
    reads: Mapping[str, Any]
    """The tensors it is called on, by argument; lists for several."""
    shapes: tuple[tuple[int | None, ...], ...]
    """The shapes of its outputs."""
    constants: Mapping[str, Any]
    """Its other arguments, by name."""
    atoms: Atoms
    """All atoms."""
    flow: Flow
    """What is known of the outermost layer, which this is or is inside of."""
    reasons: list[str]
    """Why tensors are not zero when their channels are masked, by number."""
    role: Role = ()
    """The attributes that lead to this layer inside the outermost one."""
    steps: tuple[Any, ...] = ()
    """The steps from the config of the outermost layer to that of this one."""
    slices: dict[Any, Any] = field(default_factory=dict[Any, Any])
    """Where a rule notes how constant arguments of the call change."""

    # --- what it is called on ---

    @property
    def name(self) -> str:
        """The layer in messages: its path and class."""
        return f"'{self.path}' ({type(self.layer).__name__})"

    def tensor(self, argument: str | None = None) -> Tensor:
        """Return one of its inputs, by default the first."""
        value = self.reads.get(argument) if argument else next(iter(self.reads.values()), None)
        while isinstance(value, list):
            value = value[0] if value else None
        return fixed(()) if value is None else value

    def tensors(self) -> list[Tensor]:
        """List all its inputs."""
        tensors: list[Tensor] = []
        waiting = [*self.reads.values()]
        while waiting:
            item = waiting.pop(0)
            if isinstance(item, list):
                waiting[:0] = item
            else:
                tensors.append(item)
        return tensors

    # --- what it creates, and what its variables are ---

    def make(self, slot: str, size: int, *, title: str | None = None) -> Axis:
        """Return an axis that the layer creates: the same one in all its calls."""
        key = ".".join((*self.role, slot))
        if key not in self.flow.made:
            suffix = slot if title is None else title
            name = f"{self.path}:{suffix}" if suffix else self.path
            self.flow.made[key] = Axis(size, self.atoms.fresh(size, name))
        return self.flow.made[key]

    def weight(self, name: str | Role, *axes: tuple[Axis, Kind]) -> None:
        """Say what labels the axes of a variable, if the layer has it.

        In the axis of a `read`, channels have to be zero when they are masked.
        """
        own = (name,) if isinstance(name, str) else name
        role = (*self.role, *own)
        shape = self.flow.shapes.get(role)
        if shape is None:
            return
        if len(shape) != len(axes) or any(
            axis.size != size for (axis, _), size in zip(axes, shape, strict=False)
        ):
            reason = f"the {'.'.join(own)} of {self.name} has another shape than expected"
            self.lock_all([axis for axis, _ in axes], reason)
            return
        for axis, kind in axes:
            if kind == "read":
                self.read(axis, weighted=True)
        known = self.flow.weights.get(role)
        if known is None:
            self.flow.weights[role] = Weight([*axes])
            return
        for (old, _), (new, _) in zip(known.axes, axes, strict=True):
            self.tie(old, new)

    def size(self, slot: str, axis: Axis) -> None:
        """Say that the config depends on the size of an axis; the same one in all calls."""
        key = self._slot(slot)
        known = self.flow.sizes.setdefault(key, axis)
        if known is not axis:
            self.tie(known, axis)

    def _slot(self, slot: str) -> str:
        return ".".join((*map(str, self.steps), slot))

    def configure(self, **axes: Axis) -> None:
        """Say which constructor arguments are the sizes of which axes."""
        for slot, axis in axes.items():
            self.size(slot, axis)
        self.configure_by(lambda sizes: {slot: sizes[slot] for slot in axes})

    def configure_by(self, function: Callable[[Mapping[str, int]], Mapping[str, Any]]) -> None:
        """Say how constructor arguments follow from the sizes of the axes named by `size`."""
        prefix = self._slot("")

        def of_slots(sizes: Mapping[str, int]) -> Mapping[str, Any]:
            own = {k.removeprefix(prefix): v for k, v in sizes.items() if k.startswith(prefix)}
            return function(own)

        self.flow.configs[self.steps] = of_slots

    def inside(
        self, part: str, reads: Mapping[str, Any], shapes: Any = None, steps: Sequence[Any] = ()
    ) -> "Site":
        """Return a call of a layer inside this one.

        Args:
            part: The attribute that holds it.
            reads: What it is called on.
            shapes: The shapes of its outputs.
            steps: The steps from this layer's config to that of the layer inside.
        """
        layer: Any = self.layer
        for step in part.split("."):
            layer = layer[int(step)] if step.isdigit() else getattr(layer, step)
        return Site(
            layer,
            self.path,
            reads,
            shapes or (),
            {},
            self.atoms,
            self.flow,
            self.reasons,
            (*self.role, part),
            (*self.steps, *steps),
        )

    # --- what it does to channels ---

    def tie(self, first: Axis, second: Axis) -> None:
        """Make two axes one: their channels stand or fall together."""
        if first.labels is None and second.labels is None:
            return
        if first.size != second.size or first.size is None:
            self.lock(first, f"{self.name} joins it with an axis of another size")
            self.lock(second, f"{self.name} joins it with an axis of another size")
            return
        reason = f"{self.name} joins it with something that cannot be removed"
        self.atoms.tie(first.label(), second.label(), reason)

    def cross(self, *axes: Axis) -> None:
        """Say that the channels of several axes cross each other, as heads and their widths."""
        self.flow.crossing.append(axes)

    def lock(self, axis: Axis, reason: str) -> None:
        """Say why the channels of an axis always stay."""
        if axis.labels is not None:
            self.atoms.lock(axis.labels, reason)

    def lock_all(self, axes: Iterable[Axis] | None = None, reason: str = "") -> None:
        """Say why all channels that the layer is called on always stay."""
        if axes is None:
            axes = [axis for tensor in self.tensors() for axis in tensor]
        for axis in axes:
            self.lock(axis, reason)

    def lose(self, axis: Axis, reason: str, *, mixes: bool = True) -> None:
        """Say why removing channels of an axis differs from masking them.

        Args:
            axis: The axis.
            reason: Why.
            mixes: Whether what becomes of the other channels depends on them.
        """
        if axis.labels is not None:
            self.atoms.lose(axis.labels, reason)
            if mixes:
                self.atoms.mix(axis.labels, reason)

    def read(self, axis: Axis, *, weighted: bool = False) -> None:
        """Say that the channels of an axis are mixed: masked ones have to be zero.

        Args:
            axis: The axis.
            weighted: Whether a weight says how much each of them counts.
        """
        if axis.labels is None:
            return
        if not weighted:
            self.atoms.mix(axis.labels, f"{self.name} goes over all channels")
        if axis.leaks is None:
            return
        for number in np.unique(axis.leaks).tolist():
            if number:
                reason = f"{self.reasons[number]} when it is masked, and {self.name} reads it"
                self.atoms.lose(axis.labels[axis.leaks == number], reason)

    def nonzero(self, axis: Axis, why: str = "") -> Axis:
        """Return an axis after something that does not keep zeros."""
        if axis.labels is None:
            return axis
        self.reasons.append(why or f"a channel is not zero after {self.name}")
        return axis.leaking(len(self.reasons) - 1)

    def all_nonzero(self, tensor: Tensor, why: str = "") -> Tensor:
        """Return a tensor after something that does not keep zeros."""
        return tuple(self.nonzero(axis, why) for axis in tensor)

    def positions(self, axis: Axis, size: int | None) -> Axis:
        """Return an axis of positions, such as rows, after something that mixes positions."""
        self.lock(axis, f"{self.name} takes it for rows, columns or steps")
        return Axis(size)

    def size_of(self, *role: str) -> tuple[int, ...]:
        """Return the shape of a variable; empty if there is none."""
        return self.flow.shapes.get((*self.role, *role)) or ()


Rule: TypeAlias = Callable[[Site], Sequence[Tensor] | None]
"""Returns the outputs of a call, in flat order; `None` if they cannot be known."""

RULES: dict[str, Rule] = {}
"""Rules for Keras's own layers and operations, by class name. The modules of rules fill it in."""

OWN_RULES: dict[type, Rule] = {}
"""Rules for other classes, which users registered."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for Keras's own classes of some names, and for what derives from them."""

    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def outputs_of(site: Site) -> Sequence[Tensor]:
    """Return the outputs of a call. Where no rule is certain, what it is called on always stays."""
    function = rule_for(type(site.layer))
    locked = f"how channels flow through {site.name} is not known"
    if not is_of_keras(type(site.layer)):
        locked += " (ramet.compress.channel_rule registers a rule)"
    if getattr(site.layer, "quantization_mode", None) is not None:
        function, locked = None, f"the weights of {site.name} are quantized"
    outputs = None if function is None else function(site)
    unknown = [] if outputs is None else _without_labels(site)
    if unknown:
        locked = f"it is not known what the axes of the {'.'.join(unknown[0])} of {site.name} are"
        outputs = None
    if outputs is not None and len(outputs) >= len(site.shapes):
        checked = zip(outputs, site.shapes, strict=False)
        if all(_fits(tensor, shape) for tensor, shape in checked):
            return outputs[: len(site.shapes)] if site.shapes else outputs
    site.lock_all(reason=locked)
    flow = site.flow  # The rule may have said some things before it gave up.
    weighed = [axis for weight in flow.weights.values() for axis, _ in weight.axes]
    inside = [*flow.made.values(), *flow.sizes.values(), *weighed]
    site.lock_all([*inside, *(axis for tensor in outputs or () for axis in tensor)], locked)
    return [fixed(shape) for shape in site.shapes]


def _without_labels(site: Site) -> list[Role]:
    """List the variables of which a rule did not say what labels their axes."""
    depth = len(site.role)
    return [
        role[depth:]
        for role, shape in site.flow.shapes.items()
        if shape and role[:depth] == site.role and role not in site.flow.weights
        if not role[-1].startswith("seed")
    ]


def _fits(tensor: Tensor, shape: tuple[int | None, ...]) -> bool:
    return len(tensor) == len(shape) and all(
        axis.labels is None or axis.size == size for axis, size in zip(tensor, shape, strict=True)
    )


def rule_for(cls: type) -> Rule | None:
    """Return the rule for a class; `None` if a user's class may do anything to channels."""
    for base in cls.__mro__:
        if base in OWN_RULES:
            same = all(getattr(cls, name) is getattr(base, name) for name in ("call", "build"))
            return OWN_RULES[base] if same else None
        if is_of_keras(base):
            if base.__name__ in RULES:
                mine = next(filter(is_of_keras, cls.__mro__))
                names = [name for name in ("call", "build") if hasattr(mine, name)]
                same = all(getattr(cls, name) is getattr(mine, name) for name in names)
                return RULES[base.__name__] if same else None
            if base.__name__ in ("Layer", "Operation"):
                break
    return None
