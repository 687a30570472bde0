"""Weights that an edit computes from those before it, on build."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from ramet import backends
from ramet import keras_internals as internals
from ramet.backends.memory import packed
from ramet.backends.values import readable, to_numpy
from ramet.building.weights.roles import roles_of
from ramet.building.weights.transfer import Moves, Taken, chained, take_over
from ramet.errors import StateError
from ramet.graph import Layer
from ramet.graph.values import (
    Array,
    Role,
    Value,
    Variable,
    ends_of,
    evaluate,
    moved,
    moved_variable,
    variables_in,
)
from ramet.tracing.failures import check_alive


@dataclass(frozen=True)
class Stage:
    """A layer as it was between two edits."""

    layer: Any
    """The live layer, built."""
    site: Any = None
    """Its inputs, a `Site`; `None` if they are those of the layer that it comes from."""
    taken: dict[int, Taken] = field(default_factory=dict[int, Taken])
    """What became of its variables, by their ids."""
    original: Callable[[Any], Any] = lambda variable: variable
    """Returns the variable of the traced model that a variable is a copy of."""


StageOf = Callable[[Layer], "Stage | None"]
"""Returns a layer that an edit changed as it was right after that; `None` if it cannot be built."""


def compute(record: Layer, layer: Any, stage_of: StageOf) -> list[Taken]:
    """Assign to a new layer the weights that its record's recipe computes.

    Those that it does not name are taken over as they were.

    Raises:
        StateError: If a variable that a value is computed from does not exist.
    """
    recipe = record.recipe or {}
    done: list[Taken] = []
    if record.changes is not None and isinstance(record.origin, keras.Layer):
        done = take_over(record.origin, layer, "fit", without=recipe.keys())
    stays = record.changes is None and not record.brought and record.origin.built
    by_variable = {id(taken.variable): taken for taken in done}
    reader = _Reader(stage_of)
    roles = roles_of(layer)
    _check_used(record, roles)
    for role, variable in roles.items():
        value = recipe.get(role)
        if value is None and record.earlier is not None:
            earlier = Variable(record.earlier, role)
            value = earlier if reader.has(earlier) else None
        if value is not None:
            by_variable[id(variable)] = _assigned(variable, value, role, reader)
        elif id(variable) not in by_variable and not stays:
            by_variable[id(variable)] = Taken(variable, "fresh")
    if hasattr(layer, "finalize_state"):
        layer.finalize_state()
    return [*by_variable.values()]


def _assigned(variable: Any, value: Value, role: Role, reader: "_Reader") -> Taken:
    """Assign a value to a variable, cast to its dtype once."""
    array = np.asarray(evaluate(value, reader.array, reader.known))
    shape = tuple(variable.shape)
    if array.shape != shape:
        message = (
            f"the {'.'.join(role)} that an edit computes for '{variable.path}' has shape "
            f"{array.shape}, but the layer has room for {shape}; the sizes of its inputs "
            "differ from those that the edit saw, so build the graph before that edit"
        )
        raise StateError(message)
    known = reader.roots(value)
    if known:
        internals.keep_layout(known[0], variable)
    array = _owned(array, value).astype(_dtype(variable), copy=False)
    backends.current().assign(variable, packed(array))
    move = reader.moved(value)
    if move is None:
        return Taken(variable, "computed", known[0] if known else None, more=tuple(known[1:]))
    source, moves = move
    before = tuple(source.shape)
    if before == shape:
        return Taken(
            variable, "fitted" if isinstance(value, Variable) else "moved", source, moves=moves
        )
    grown = len(before) == len(shape) and any(map(int.__gt__, shape, before))
    return Taken(variable, "grown" if grown else "cut", source, moves=moves)


def _owned(array: Array, value: Value) -> Array:
    """Return the array of a value in memory that is no variable's and no constant's."""
    constants = (each for each in ends_of(value) if isinstance(each, np.ndarray))
    is_lent = not array.flags.writeable or any(np.may_share_memory(array, c) for c in constants)
    return array.copy() if is_lent else array


def _dtype(variable: Any) -> Any:
    """Return NumPy's dtype of a variable, without reading its value if NumPy knows the name."""
    try:
        return np.dtype(variable.dtype)
    except TypeError:
        return to_numpy(variable).dtype


def _check_used(record: Layer, roles: Mapping[Role, Any]) -> None:
    unknown = [role for role in record.recipe or {} if role not in roles]
    if unknown:
        message = (
            f"an edit computes the {'.'.join(unknown[0])} of '{record.name}' ({record.kind}), but "
            f"the layer has no such variable; it has: {', '.join(map('.'.join, roles)) or 'none'}"
        )
        raise StateError(message)


class _Reader:
    """Reads the variables of layers as they were before an edit."""

    def __init__(self, stage_of: StageOf) -> None:
        self._stage_of = stage_of
        self.known: dict[int, Any] = {}
        """What functions returned, for one layer, by the ids of their values."""
        self._roles: dict[int, tuple[Any, dict[Role, Any]]] = {}
        """Variables by role, by the ids of layers; with the layers, so that their ids stay."""
        self._arrays: dict[int, tuple[Any, Array]] = {}
        """Values by the ids of live variables, with these."""

    def array(self, variable: Variable) -> Array:
        """Return the value of a variable."""
        at = self._resolved(variable)
        if not isinstance(at, Variable):
            return evaluate(at, self.array)
        live = self._live(at)
        if id(live) not in self._arrays:
            check_alive(live)
            self._arrays[id(live)] = live, readable(live)
        return self._arrays[id(live)][1]

    def has(self, variable: Variable) -> bool:
        """Whether a layer had such a variable."""
        at = self._resolved(variable)
        return not isinstance(at, Variable) or at.role in self._roles_of(at.layer)

    def roots(self, value: Value) -> list[Any]:
        """List the variables of the traced model that a value goes back to, each once."""
        roots: dict[int, Any] = {}
        for variable in variables_in(value):
            at = self._resolved(variable)
            known = [self._taken(at).source] if isinstance(at, Variable) else self.roots(at)
            roots |= {id(each): each for each in known if each is not None}
        return [*roots.values()]

    def moved(self, value: Value) -> tuple[Any, Moves] | None:
        """Return the variable of the traced model that a value moves, and how."""
        at = moved_variable(value)
        if at is None:
            return None
        before = self._resolved(at)
        step = _step(value)
        if not isinstance(before, Variable):
            inner = self.moved(before)
            if inner is None:
                return None
            source, moves = inner
            return source, chained(moves, step)
        taken = self._taken(before)
        if taken.source is None or (taken.status != "kept" and taken.moves is None):
            return None
        return taken.source, step if taken.moves is None else chained(taken.moves, step)

    def _resolved(self, variable: Variable) -> Value:
        """Return what a variable is computed from; itself, if no recipe computes it."""
        record = variable.layer
        while record.recipe is not None:
            if variable.role in record.recipe:
                return record.recipe[variable.role]
            if record.earlier is None:
                break
            record = record.earlier
        return Variable(record, variable.role)

    def _taken(self, variable: Variable) -> Taken:
        """Return where a variable that no recipe computes comes from."""
        live = self._live(variable)
        stage = self._stage(variable.layer)
        if stage is None:
            return Taken(live, "kept", live)
        return stage.taken.get(id(live)) or Taken(live, "kept", stage.original(live))

    def _live(self, variable: Variable) -> Any:
        roles = self._roles_of(variable.layer)
        if variable.role not in roles:
            message = (
                f"layer '{variable.layer.name}' ({variable.layer.kind}) has no variable "
                f"'{'.'.join(variable.role)}'; it has: {', '.join(map('.'.join, roles)) or 'none'}"
            )
            raise StateError(message)
        return roles[variable.role]

    def _roles_of(self, record: Layer) -> dict[Role, Any]:
        layer = self._layer(record)
        if id(layer) not in self._roles:
            self._roles[id(layer)] = layer, roles_of(layer)
        return self._roles[id(layer)][1]

    def _layer(self, record: Layer) -> Any:
        stage = self._stage(record)
        return record.origin if stage is None else stage.layer

    def _stage(self, record: Layer) -> Stage | None:
        if record.recipe is not None or not record.is_changed:
            return None
        stage = self._stage_of(record)
        if stage is None:
            message = (
                f"the weights of '{record.name}' ({record.kind}) after its last edit are not "
                "known before the graph is built; build it and trace the model before you "
                "apply an edit that computes weights from them"
            )
            raise StateError(message)
        return stage


def _step(value: Value) -> Moves:
    """Return how a value moves the only variable in it."""
    return lambda array, power=None: moved(value, array, power)


def read_value(value: Value, stage_of: StageOf) -> Array:
    """Return a value as an array, from the layers as they were before an edit."""
    return evaluate(value, _Reader(stage_of).array)
