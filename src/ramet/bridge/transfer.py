"""Weights that follow the layers: which variable of a new layer takes over which old one.

Variables are matched by their role: the names of the attributes that lead from
the layer to the sublayer that holds it, and the variable's own name. They have to
mean the same: the kernel of an LSTM is no kernel of a GRU, whatever its shape.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ramet.bridge import internals
from ramet.bridge.growth.axes import Run, UnclearError, index_map, overlaid
from ramet.bridge.growth.reader import sites_inside
from ramet.bridge.growth.site import Made, Site, made_of
from ramet.bridge.roles import Held, held_by, labelled, paired
from ramet.bridge.values import copy_value
from ramet.errors import StateError


@dataclass(frozen=True)
class Taken:
    """What became of one variable of a new layer."""

    variable: Any
    """The variable."""
    status: str
    """`kept`, `fitted`, `moved`, `grown`, `cut`, `brought` or `fresh`."""
    source: Any = None
    """The variable that its value comes from."""
    note: str | None = None
    """Why a value was not taken over, if there was one to take."""


Sites = Callable[[], tuple[Site, Site]]
"""Says what the old layer and the new one read."""


def take_over(source: Any, made: Any, policy: str, sites: Sites | None = None) -> list[Taken]:
    """Gives a new layer the values of an old one's variables, as far as a policy allows.

    Args:
        source: The old layer.
        made: The new one, built.
        policy: One of `ramet.graph.parts.POLICIES`.
        sites: Says what both read; asked only if weights are to grow.

    Returns:
        What became of each variable of the new layer: `fitted`, `moved`, `grown`, `cut` or
        `fresh`.

    Raises:
        StateError: If it is not known which part of a weight that grows is which.
    """
    if policy == "fresh" or not all(isinstance(each, keras.Layer) for each in (source, made)):
        return [Taken(held.variable, "fresh") for held in held_by(made)]
    internals.take_over_attributes(source, made)
    _check_lora(source, made)
    growing = policy not in ("fit", "fresh") and sites is not None
    transfer = _Transfer(made, policy, sites() if growing and sites else None, source)
    done = [transfer.of(new, old) for new, old in paired(source, made)]
    for taken in done:
        if taken.source is not None and source.trainable and not taken.source.trainable:
            taken.variable.trainable = False
    if hasattr(made, "finalize_state") and any(taken.source is not None for taken in done):
        made.finalize_state()
    return done


def _check_lora(source: Any, made: Any) -> None:
    olds, news = ({(*h.path, h.name) for h in held_by(layer)} for layer in (source, made))
    lost = [role for role in sorted(olds - news) if "lora" in role[-1]]
    if lost and type(source) is type(made):
        message = (
            f"layer '{made.name}' cannot be made again: the LoRA weights of a part of it "
            f"({'.'.join(lost[0])}) are not in its config; merge them first, or leave it as it is"
        )
        raise StateError(message)


def take_over_adapted(source: Any, made: Any) -> None:
    """Gives a lookup layer the vocabulary that the one before it was adapted to."""
    if type(source) is not type(made) or not hasattr(source, "load_assets"):
        return
    if internals.has_vocabulary(source) and not internals.has_vocabulary(made):
        with tempfile.TemporaryDirectory() as folder:
            source.save_assets(folder)
            made.load_assets(folder)


def meanings(site: Site) -> dict[tuple[str, ...], Made]:
    """Returns what a layer and the layers in it make of what they read, by path."""
    found: dict[tuple[str, ...], Made] = {}
    waiting: list[tuple[tuple[str, ...], Site]] = [((), site)]
    while waiting:
        path, here = waiting.pop()
        made = found[path] = made_of(here)
        parts = labelled(here.layer)
        inside = sites_inside(here, {id(part): label for label, _, part in parts})
        for label, _, part in parts:
            inner = made.parts.get(label) or inside.get(label) or Site(part, (*here.key, label))
            waiting.append(((*path, label), inner))
    return found


class _Transfer:
    """The transfer of one layer's variables."""

    def __init__(
        self, made: Any, policy: str, sites: tuple[Site, Site] | None, source: Any
    ) -> None:
        self._layer, self._policy = made, policy
        self._known = sites is not None
        self._sites = sites or (Site(source, ("layer",)), Site(made, ("layer",)))
        self._meanings = tuple(meanings(site) for site in self._sites)

    def of(self, new: Held, old: Held | None) -> Taken:
        """Takes over the value of one variable, if there is one and it may be taken."""
        variable = new.variable
        if old is None:
            return Taken(variable, "fresh")
        found, shapes = old.variable, (tuple(old.variable.shape), tuple(new.variable.shape))
        if not self._means_the_same(old, new):
            kinds = type(old.owner).__name__, type(new.owner).__name__
            other = kinds[0] if kinds[0] != kinds[1] else "the one before"
            return Taken(variable, "fresh", note=f"not the same as in {other}")
        if self._policy == "fit" and shapes[0] != shapes[1]:
            return Taken(variable, "fresh", note=f"was {shapes[0]}")
        if len(shapes[0]) != len(shapes[1]):
            return Taken(variable, "fresh", note=f"was {shapes[0]}")
        maps = None if self._policy == "fit" else self._maps(old, new)
        internals.keep_layout(found, variable)
        if maps is None:
            variable.assign(copy_value(found.value))
        else:
            values = internals.to_numpy(variable), internals.to_numpy(found)
            variable.assign(overlaid(*values, maps))
        if shapes[0] == shapes[1]:
            return Taken(variable, "fitted" if maps is None else "moved", found)
        grown = any(now > before for before, now in zip(*shapes, strict=True))
        return Taken(variable, "grown" if grown else "cut", found)

    def _means_the_same(self, old: Held, new: Held) -> bool:
        """Whether two variables of one role mean the same."""
        kinds = type(old.owner), type(new.owner)
        related = issubclass(*kinds) or issubclass(*kinds[::-1])
        before, now = self._of(0, old), self._of(1, new)
        slots = [made.weights.get(held.name) for made, held in ((before, old), (now, new))]
        if slots[0] is None or slots[1] is None:
            return related
        names = [[name for name, _ in each] for each in slots if each is not None]
        return names[0] == names[1] and (related or before.family == now.family != "")

    def _of(self, side: int, held: Held) -> Made:
        return self._meanings[side][held.path]

    def _maps(self, old: Held, new: Held) -> list[np.ndarray] | None:
        """Returns which old index each new one of each axis comes from; `None` if it is as it was.

        Raises:
            StateError: If that is not known.
        """
        shapes = tuple(old.variable.shape), tuple(new.variable.shape)
        found: list[np.ndarray] = []
        for axis, (before, now) in enumerate(zip(*shapes, strict=True)):
            try:
                found.append(self._map(old, new, axis))
            except UnclearError as reason:
                if before == now:
                    found.append(np.arange(now))
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
        identical = same and all(np.array_equal(m, np.arange(len(m))) for m in found)
        return None if identical else found

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
        """Returns how an axis of a user's own layer grew, if its sizes leave no doubt."""
        if sizes[0] == sizes[1]:
            return np.arange(sizes[1])
        found: list[np.ndarray] = []
        outputs = [made[()].outputs for made in self._meanings]
        reads = [site.tensor() for site in self._sites]
        ends = [(out[0] if out else None) for out in outputs]
        for tensors, allowed in ((ends, last), (reads, True)):
            parts = [axes[-1] if axes else None for axes in tensors]
            runs = [part for part in parts if isinstance(part, Run)]
            if allowed and len(runs) == len(sizes) and tuple(r.size for r in runs) == sizes:
                found.append(index_map(*runs, repeat=repeat))
            elif allowed and tuple(part.size if part else None for part in parts) == sizes:
                reason = "it is not known how what it reads is arranged in it"
                raise UnclearError(reason)
        if not found or any(not np.array_equal(found[0], other) for other in found[1:]):
            reason = "what that axis stands for is not known"
            raise UnclearError(reason)
        return found[0]
