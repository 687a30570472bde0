"""What is done to the live layers of a new model: adapters added, merged, removed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet._words import Promise
from ramet.adapt.adapting.freezing import Flags
from ramet.adapt.adapting.starts import first_factor
from ramet.building.weights.roles import roles_of
from ramet.errors import StateError
from ramet.graph import Edit, Graph
from ramet.graph.data import Step
from ramet.graph.edits.steps import with_steps
from ramet.graph.journal import with_entry
from ramet.layers import (
    Adapted,
    Adapters,
    Entry,
    Target,
    attach,
    detach,
    is_quantized,
    kernel_at,
)
from ramet.layers.factors import lengths


class _Change:
    """A step that changes variables that a layer has."""

    def changes_variables(self, layer: Any) -> bool:
        """Whether it does."""
        del layer
        return True


@dataclass(frozen=True, eq=False)
class Add:
    """An adapter is added to a layer."""

    entry: Entry
    """The adapter."""
    init: Any = "uniform"
    """How its first factors start."""
    seed: tuple[int, ...] = (0,)
    """What they are drawn from."""
    trains_base: bool = False
    """Whether the layer itself trains too."""
    values: Mapping[str, np.ndarray] | None = field(default=None, repr=False)
    """The values of its variables, if it is not new: `0_down`, `0_up`, ..."""

    @property
    def text(self) -> str:
        """The step in words."""
        return f"add {self.entry} from {self.seed}, {self.init}"

    def apply(self, layer: Any) -> None:
        """Add the adapter, and switch off those that the layer has.

        Raises:
            StateError: If the kernels are not those that it is for.
        """
        for target in self.entry.targets:
            _check_kernel(layer, target, self.entry.name)
        if isinstance(layer, Adapted):
            switch(layer, {})
            layer.adapters.add(self.entry)
            vars(layer)["trains_base"] = self.trains_base
            layer.settle()
        else:
            attach(layer, Adapters([self.entry]), trains_base=self.trains_base)
        self._start(layer)

    def changes_variables(self, layer: Any) -> bool:
        """Whether variables of the layer have to be frozen, or other adapters switched off."""
        if isinstance(layer, Adapted):
            return True
        return not self.trains_base and any(variable.trainable for variable in layer.variables)

    def _start(self, layer: Any) -> None:
        adapters = layer.adapters
        random = np.random.default_rng(self.seed)
        for number, target in enumerate(self.entry.targets):
            factors = adapters.factors(self.entry, number)
            if self.values is None:
                factors.down.assign(first_factor(self.init, target, random))
                if factors.length is not None:
                    found = kernel_at(layer, target.held, target.variable)
                    value = keras.ops.cast(found[1], "float32") if found else None
                    factors.length.assign(lengths(target, value))
        if any(target.dropout for target in self.entry.targets):
            adapters.seed_generator.state.assign([int(random.integers(1 << 31)), 0])
        for role, value in (self.values or {}).items():
            adapters.named()[f"{self.entry.name}_{role}"].assign(value)


def _check_kernel(layer: Any, target: Target, name: str) -> None:
    found = kernel_at(layer, target.held, target.variable)
    shape = None if found is None else internals.unpacked_shape(*found)
    if shape != target.shape:
        has = "is not there" if shape is None else f"has the shape {shape}"
        message = (
            f"adapter '{name}' is for the kernel '{layer.name}/{target.path}' of shape "
            f"{target.shape}, which {has}; adapt the model after its other edits are built"
        )
        raise StateError(message)


def switch(layer: Any, weights: Mapping[str, float]) -> None:
    """Use some adapters of a layer, by the weights of their names, and train those alone."""
    for entry in layer.adapters.entries:
        weight = weights.get(entry.name, 0.0)
        layer.adapters.weight(entry).assign(weight)
        layer.adapters.change(replace(entry, trains=weight != 0))
    layer.settle()


@dataclass(frozen=True, eq=False)
class Drop(_Change):
    """All adapters of a layer are removed; before, some may be merged into its kernels."""

    weights: Mapping[str, float] | None = None
    """Those that are merged, by name; `None` for those that are in use, as they are."""
    merges: bool = True
    """Whether any are merged."""

    @property
    def text(self) -> str:
        """The step in words."""
        return f"merge {self.weights}" if self.merges else "remove adapters"

    def apply(self, layer: Any) -> None:
        """Merge adapters into the kernels of a layer, and remove all of them."""
        if self.merges:
            if self.weights is not None:
                switch(layer, self.weights)
            with layer.adapters.applied(layer):
                for owner in quantized_in(layer):
                    internals.requantize(owner)
            for variable, value in merged(layer):
                variable.assign(keras.ops.cast(value, variable.dtype))
        detach(layer)
        restore_flags(layer)


def quantized_in(layer: Any) -> list[Any]:
    """List the layers with adapted kernels that are quantized."""
    found = [kernel_at(layer, *at) for at in layer.adapters.by_kernel()]
    return [each[0] for each in found if each is not None and is_quantized(each[1])]


def merged(layer: Any) -> list[tuple[Any, Any]]:
    """List the adapted kernels of a layer with their values, as its adapters make them."""
    values: list[tuple[Any, Any]] = []
    for (held, name), adapters in layer.adapters.by_kernel().items():
        found = kernel_at(layer, held, name)
        if found is not None and not is_quantized(found[1]):
            values.append((found[1], layer.adapters.adapted(found[1], adapters)))
    return values


def restore_flags(layer: Any) -> None:
    """Let variables train again that adapters had frozen."""
    for part in internals.all_layers(layer):
        for variable in internals.own_trainable(part):
            variable.trainable = bool(part.trainable and layer.trainable)


@dataclass(frozen=True, eq=False)
class Put(_Change):
    """Kernels of a layer get values back that they had before."""

    values: Mapping[tuple[str, str], np.ndarray] = field(repr=False)
    """The values, by where the kernels are."""

    @property
    def text(self) -> str:
        """The step in words."""
        return f"put {sorted(self.values)}"

    def apply(self, layer: Any) -> None:
        """Set the kernels."""
        for (held, name), value in self.values.items():
            found = kernel_at(layer, held, name)
            if found is not None:
                found[1].assign(value)


@dataclass(frozen=True, eq=False)
class PutRoles(_Change):
    """Variables of a layer that trained with an adapter get their values."""

    values: Mapping[str, np.ndarray] = field(repr=False)
    """The values, by role."""

    @property
    def text(self) -> str:
        """The step in words."""
        return f"put {sorted(self.values)}"

    def apply(self, layer: Any) -> None:
        """Set the variables.

        Raises:
            StateError: If one is not there any more.
        """
        roles = {"/".join(role): variable for role, variable in roles_of(layer).items()}
        for role, value in self.values.items():
            if role not in roles or tuple(roles[role].shape) != value.shape:
                message = (
                    f"layer '{layer.name}' has no '{role}' of shape {value.shape}, which trained "
                    "with the adapter; load the adapter after other edits are built"
                )
                raise StateError(message)
            roles[role].assign(value)


@dataclass(frozen=True, eq=False)
class Forget(_Change):
    """The adapters that Keras's own `enable_lora` made are removed, without being merged."""

    @property
    def text(self) -> str:
        """The step in words."""
        return "forget adapters of Keras"

    def apply(self, layer: Any) -> None:
        """Remove them."""
        for part in internals.all_layers(layer):
            if getattr(part, "lora_enabled", False):
                for name in internals.LORA_FACTORS:
                    factor = internals.attribute_of(part, name)
                    if factor is not None:
                        internals.forget_attribute(part, name)
                part.lora_enabled, part.lora_rank, part.lora_alpha = False, None, None


def put_on(
    graph: Graph,
    steps: Mapping[tuple[int, int], tuple[Step, ...]],
    flags: Flags,
    text: str,
    promise: Promise,
) -> Graph:
    """Return a graph in which steps are taken with layers, and an entry in its journal.

    Args:
        graph: The graph.
        steps: The steps, by the layers' identities.
        flags: The `trainable` flags that change.
        text: What is done, in words.
        promise: What it promises of the new model.
    """
    edit = Edit(text, promise=promise)
    kinds = {
        record.identity: record.kind
        for visit in graph.walk()
        for record in visit.graph.layers.values()
    }
    taken = {key: (_kind_after(kinds[key], each), each) for key, each in steps.items()}
    return with_entry(with_steps(graph, taken, flags.flags, edit), edit)


def _kind_after(kind: str, steps: tuple[Step, ...]) -> str:
    """Return the name of a layer's class after some steps."""
    plain = kind.removeprefix("Adapted")
    for step in steps:
        if isinstance(step, Add):
            kind = f"Adapted{plain}"
        elif isinstance(step, Drop):
            kind = plain
    return kind
