"""Pair the variables of a new layer with the old ones whose values they take over.

Variables are matched by their role: the names of the attributes that lead from
the layer to the sublayer that holds it, and the variable's own name. They have to
mean the same: the kernel of an LSTM is not the kernel of a GRU, whatever its shape.
"""

import tempfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Protocol

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet.backends.values import copy_value, to_numpy
from ramet.building.growth.axes import Run, UnclearError, index_map, overlaid
from ramet.building.growth.reader import sites_inside
from ramet.building.growth.site import Meaning, Site, meaning_of
from ramet.building.weights.roles import Held, held_by, labelled, paired
from ramet.errors import StateError
from ramet.tracing.failures import check_alive


class Moves(Protocol):
    """What becomes of an array like a variable when that variable moves; zeros where it grows."""

    def __call__(self, array: Any, power: int | None = None) -> Any:
        """Return the array, moved.

        Args:
            array: The array.
            power: How it goes with the gradients of the variable: 1 if it grows as they do, 2 as
                their squares. By default, it goes with the variable.
        """
        ...


def chained(first: Moves, second: Moves) -> Moves:
    """Return two moves as one."""
    return lambda array, power=None: second(first(array, power), power)


@dataclass(frozen=True)
class Taken:
    """What became of one variable of a new layer."""

    variable: Any
    """The variable."""
    status: str
    """`kept`, `fitted`, `moved`, `grown`, `cut`, `computed`, `brought` or `fresh`."""
    source: Any = None
    """The variable that its value comes from."""
    note: str | None = None
    """Why the value of a variable with the same role was not taken over."""
    moves: Moves | None = None
    """How its elements moved, if they did: the slots of an optimizer move alike."""
    more: tuple[Any, ...] = ()
    """Other variables that it was computed from."""


Sites = Callable[[], tuple[Site, Site]]
"""Returns the old layer and the new one in their places, with their inputs."""


def take_over(
    source: Any,
    twin: Any,
    policy: str,
    sites: Sites | None = None,
    without: Collection[tuple[str, ...]] = (),
) -> list[Taken]:
    """Assign the values of an old layer's variables to a new one's, as a policy allows.

    Args:
        source: The old layer.
        twin: The new one, built.
        policy: One of `ramet._words.POLICIES`.
        sites: Returns both in their places; called only if weights are to grow.
        without: The roles of variables that stay as they are.

    Returns:
        What became of each variable of the new layer: `fitted`, `moved`, `grown`, `cut` or
        `fresh`.

    Raises:
        StateError: If it is not known which parts of a growing weight correspond.
    """
    if policy == "fresh" or not all(isinstance(each, keras.Layer) for each in (source, twin)):
        return [Taken(held.variable, "fresh") for held in held_by(twin)]
    internals.take_over_attributes(source, twin)
    _check_lora(source, twin)
    growing = policy not in ("fit", "fresh") and sites is not None
    transfer = _Transfer(twin, policy, sites() if growing and sites else None, source)
    done = [
        transfer.of(new, old)
        for new, old in paired(source, twin)
        if (*new.path, new.name) not in without
    ]
    for taken in done:
        if taken.source is not None and source.trainable and not taken.source.trainable:
            taken.variable.trainable = False
    if hasattr(twin, "finalize_state") and any(taken.source is not None for taken in done):
        twin.finalize_state()
    return done


def as_kept(transfers: list[Taken]) -> list[Taken]:
    """Return what a layer took over from itself: values that fit are `kept`, if not rounded."""
    return [replace(each, status="kept") if _is_whole(each) else each for each in transfers]


def _is_whole(taken: Taken) -> bool:
    return taken.status == "fitted" and taken.source.dtype == taken.variable.dtype


def _check_lora(source: Any, twin: Any) -> None:
    olds, news = ({(*h.path, h.name) for h in held_by(layer)} for layer in (source, twin))
    lost = [role for role in sorted(olds - news) if "lora" in role[-1]]
    if lost and type(source) is type(twin):
        message = (
            f"layer '{twin.name}' cannot be re-created: the LoRA weights of a part of it "
            f"({'.'.join(lost[0])}) are not in its config; merge them first, or leave it as it is"
        )
        raise StateError(message)


def take_over_adapted(source: Any, twin: Any) -> None:
    """Copy the vocabulary of an adapted lookup layer to the one that replaces it."""
    if type(source) is not type(twin) or not hasattr(source, "load_assets"):
        return
    if internals.has_vocabulary(source) and not internals.has_vocabulary(twin):
        with tempfile.TemporaryDirectory() as folder:
            source.save_assets(folder)
            twin.load_assets(folder)


def meanings(site: Site) -> dict[tuple[str, ...], Meaning]:
    """Return what the axes of a layer and of the layers in it mean, by path."""
    by_path: dict[tuple[str, ...], Meaning] = {}
    waiting: list[tuple[tuple[str, ...], Site]] = [((), site)]
    while waiting:
        path, here = waiting.pop()
        meaning = by_path[path] = meaning_of(here)
        parts = labelled(here.layer)
        inside = sites_inside(here, {id(part): label for label, _, part in parts})
        for label, _, part in parts:
            inner = meaning.parts.get(label) or inside.get(label) or Site(part, (*here.key, label))
            waiting.append(((*path, label), inner))
    return by_path


def _is_float(variable: Any) -> bool:
    return keras.backend.is_float_dtype(variable.dtype)


def _moves(shape: tuple[int, ...], maps: list[np.ndarray]) -> Moves:
    return lambda array, power=None: overlaid(np.zeros(shape, array.dtype), array, maps)  # noqa: ARG005 nothing is scaled


class _Transfer:
    """The transfer of one layer's variables."""

    def __init__(
        self, twin: Any, policy: str, sites: tuple[Site, Site] | None, source: Any
    ) -> None:
        self._layer, self._policy = twin, policy
        self._sites = sites or (Site(source, ("layer",)), Site(twin, ("layer",)))
        self._meanings = tuple(meanings(site) for site in self._sites)

    def of(self, new: Held, old: Held | None) -> Taken:
        """Assign the value of the old variable to the new one, if the policy allows."""
        variable = new.variable
        if old is None:
            return Taken(variable, "fresh")
        source, shapes = old.variable, (tuple(old.variable.shape), tuple(new.variable.shape))
        if not self._means_the_same(old, new):
            kinds = type(old.owner).__name__, type(new.owner).__name__
            other = kinds[0] if kinds[0] != kinds[1] else "the one before"
            return Taken(variable, "fresh", note=f"not the same as in {other}")
        lengths = [len(shape) for shape in shapes]
        if lengths[0] != lengths[1] or (self._policy == "fit" and shapes[0] != shapes[1]):
            return Taken(variable, "fresh", note=f"was {shapes[0]}")
        if _is_float(source) != _is_float(variable):
            return Taken(variable, "fresh", note=f"was {source.dtype}, which means other numbers")
        maps = None if self._policy == "fit" else self._maps(old, new)
        internals.keep_layout(source, variable)
        check_alive(source)
        if maps is None:
            variable.assign(copy_value(source.value))
        else:
            values = to_numpy(variable), to_numpy(source)
            variable.assign(overlaid(*values, maps))
        moves = None if maps is None else _moves(shapes[1], maps)
        if shapes[0] == shapes[1]:
            return Taken(variable, "fitted" if maps is None else "moved", source, moves=moves)
        grown = any(now > before for before, now in zip(*shapes, strict=True))
        return Taken(variable, "grown" if grown else "cut", source, moves=moves)

    def _means_the_same(self, old: Held, new: Held) -> bool:
        """Whether two variables of one role mean the same."""
        kinds = type(old.owner), type(new.owner)
        related = issubclass(*kinds) or issubclass(*kinds[::-1])
        before, now = self._of(0, old), self._of(1, new)
        slots = [meaning.weights.get(held.name) for meaning, held in ((before, old), (now, new))]
        if slots[0] is None or slots[1] is None:
            return related
        names = [[name for name, _ in each] for each in slots if each is not None]
        return names[0] == names[1] and (related or before.family == now.family != "")

    def _of(self, side: int, held: Held) -> Meaning:
        return self._meanings[side][held.path]

    def _maps(self, old: Held, new: Held) -> list[np.ndarray] | None:
        """Return for each axis the old index of each new one; `None` if nothing moved.

        Raises:
            StateError: If that is not known.
        """
        shapes = tuple(old.variable.shape), tuple(new.variable.shape)
        maps: list[np.ndarray] = []
        for axis, (before, now) in enumerate(zip(*shapes, strict=True)):
            try:
                maps.append(self._map(old, new, axis))
            except UnclearError as reason:
                if before == now:
                    maps.append(np.arange(now))
                    continue
                path = ".".join((*new.path, new.name))
                message = (
                    f"layer '{self._layer.name}' ({type(self._layer).__name__}) cannot take its "
                    f"weights over with weights='{self._policy}': axis {axis} of its {path} has "
                    f"size {now} where it had {before}, and {reason}; use weights='fit', with "
                    f"which that {new.name} starts afresh, and set its values yourself"
                )
                raise StateError(message) from None
        same = shapes[0] == shapes[1]
        identical = same and all(np.array_equal(m, np.arange(len(m))) for m in maps)
        return None if identical else maps

    def _map(self, old: Held, new: Held, axis: int) -> np.ndarray:
        repeat = self._policy == "tile"
        slots = [self._of(i, held).weights.get(held.name) for i, held in enumerate((old, new))]
        sizes = int(old.variable.shape[axis]), int(new.variable.shape[axis])
        if slots[0] is None or slots[1] is None:
            if new.path and sizes[0] != sizes[1]:
                reason = f"what that axis of a {type(new.owner).__name__} stands for is not known"
                raise UnclearError(reason)
            return self._guess(sizes, axis == len(new.variable.shape) - 1, repeat=repeat)
        parts = slots[0][axis][1], slots[1][axis][1]
        if (parts[0].size, parts[1].size) != sizes:
            reason = "what it is made of is not known"
            raise UnclearError(reason)
        return index_map(*parts, repeat=repeat)

    def _guess(self, sizes: tuple[int, int], last: bool, *, repeat: bool) -> np.ndarray:  # noqa: FBT001 a fact
        """Return how an axis of a user's own layer grew, if its sizes are unambiguous."""
        if sizes[0] == sizes[1]:
            return np.arange(sizes[1])
        maps: list[np.ndarray] = []
        outputs = [by_path[()].outputs for by_path in self._meanings]
        reads = [site.tensor() for site in self._sites]
        ends = [(out[0] if out else None) for out in outputs]
        for tensors, allowed in ((ends, last), (reads, True)):
            parts = [axes[-1] if axes else None for axes in tensors]
            runs = [part for part in parts if isinstance(part, Run)]
            if allowed and len(runs) == len(sizes) and tuple(r.size for r in runs) == sizes:
                maps.append(index_map(*runs, repeat=repeat))
            elif allowed and tuple(part.size if part else None for part in parts) == sizes:
                reason = "it is not known how its inputs are arranged in it"
                raise UnclearError(reason)
        if not maps or any(not np.array_equal(maps[0], other) for other in maps[1:]):
            reason = "what that axis stands for is not known"
            raise UnclearError(reason)
        return maps[0]
