"""Two objects side by side, part by part: each difference with the path that leads to it."""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from ramet.backends import LIBRARIES, package_of
from ramet.backends.torch import is_torch_module, is_torch_tensor
from ramet.backends.values import is_symbolic, is_tensor, same_bits, to_numpy
from ramet.comparing.objects.held import buffers_of, is_variable
from ramet.comparing.objects.parts import Named, Parts, parts_of
from ramet.comparing.objects.texts import ABSENT, apart, shown
from ramet.comparing.objects.values import ATOMS, is_value, key_of, kind_of
from ramet.copying.functions import reaches_state
from ramet.graph.names import counted, is_automatic

Partners = tuple[dict[int, set[int]], dict[int, set[int]]]
"""The ids of the partners of layers and variables that belong together, for both models."""

_Named = list[Named]

_Places = dict[int, dict[int, tuple[str, tuple[int, int]]]]
"""By the ids of an object and its counterpart: its path, and the ids of the layers that hold it."""

_TRIALS = 10_000
"""How many pairs of items of two sets are tried to find which belong together."""


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """One value that two objects have otherwise."""

    name: str
    """Which: `rate`, `blocks.0`, or `closure 'by' of function`."""
    old: str
    """The first, as text."""
    new: str
    """The second, as text."""

    def __str__(self) -> str:
        """Return `rate 0.5 and 0.25`."""
        return f"{self.name} {self.old} and {self.new}"

    @property
    def attribute(self) -> str:
        """Its attribute or argument, without a leading underscore."""
        return self.name.rpartition(" of ")[2].partition(".")[0].lstrip("_")


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two variables that a walk came across."""

    name: str
    """The path that leads to them."""
    old: Any
    """The first model's."""
    new: Any
    """The second model's."""


class Walk:
    """Compares objects, each pair once, so that cycles end.

    Variables are not compared but listed: their values are state. Layers that belong together
    are compared by themselves; others as the objects that they are.
    """

    def __init__(self, partners: Partners = ({}, {}), *, loose: bool = False) -> None:
        """Start without having met anything.

        Args:
            partners: Which layers and variables belong together.
            loose: Whether a list is like a tuple, as in configs.
        """
        self._partners = partners
        self.loose = loose
        self._met: set[tuple[int, int]] = set()
        self._alive: list[Any] = []
        self._buffers: set[int] = set()
        self.named: tuple[_Named, _Named] = ([], [])
        """The variables of both models with names, by which optimizers are said to know them."""
        self.variables: list[Meeting] = []
        """Variables, of Keras or of a backend, that were met since this was emptied."""
        self.skipped: list[str] = []
        """What could not be compared since this was emptied, in words."""
        self.shared: tuple[_Places, _Places] = ({}, {})
        """The places of the counterparts of every object that could change, for both models."""
        self._place: tuple[str, tuple[int, int]] = "", (0, 0)

    def differences(self, name: str, old: Any, new: Any) -> Iterator[ValueDifference]:
        """Yield in what two objects differ. Does not recurse, however deep they are."""
        waiting = [(name, old, new)]
        while waiting:
            name, old, new = waiting.pop()
            inside: list[tuple[str, Any, Any]] = []
            yield from self._compared(name, old, new, inside)
            waiting += reversed(inside)

    def layer(self, old: Any, new: Any, path: str = "") -> None:
        """Note that two layers are compared now, so that they are not again."""
        self._place = f"{path}/" if path else "", (id(old), id(new))
        self._met.add((id(old), id(new)))
        self._buffers.update(map(id, (*buffers_of(old), *buffers_of(new))))

    def call(self, path: str) -> None:
        """Note that what a call is called on is compared now."""
        self._place = f"{path}/", (0, 0)

    def _compared(
        self, name: str, old: Any, new: Any, inside: list[tuple[str, Any, Any]]
    ) -> Iterator[ValueDifference]:
        if old is ABSENT or new is ABSENT:
            if old is not new and not self._is_alone(old, 0) and not self._is_alone(new, 1):
                yield ValueDifference(name, shown(old), shown(new))
            return
        if is_value(old) and is_value(new):
            if key_of(old) != key_of(new):
                yield ValueDifference(name, *apart(old, new))
            return
        if (id(old), id(new)) not in self._met:
            self._met.add((id(old), id(new)))
            self._alive.append((old, new))
            yield from self._objects(name, old, new, inside)

    def _objects(
        self, name: str, old: Any, new: Any, inside: list[tuple[str, Any, Any]]
    ) -> Iterator[ValueDifference]:
        """Compare two objects that have not been compared yet."""
        if self._are_variables(old, new):
            self.variables.append(Meeting(name, old, new))
            return
        if issubclass(type(old), keras.Operation) and issubclass(type(new), keras.Operation):
            known = [side.get(id(v)) for side, v in zip(self._partners, (old, new), strict=True)]
            if known != [None, None]:
                yield from _other_layers(name, old, new, *known)
                return
        if old is new and not (_is_function(old) and reaches_state(old)):
            return
        kinds = kind_of(old), kind_of(new)
        if kinds[0] is not kinds[1] and not self._are_loose(*kinds):
            yield ValueDifference(name, *apart(old, new))
        elif is_tensor(old):
            yield from self._tensors(name, old, new, inside)
        elif issubclass(kinds[0], keras.KerasTensor):
            if (old.shape, old.dtype) != (new.shape, new.dtype):
                yield ValueDifference(name, *apart(old, new))
        else:
            self._note(name, old, new)
            yield from self._parts(name, old, new, inside)

    def _is_alone(self, value: Any, side: int) -> bool:
        """Whether it was already reported that the other model has no such layer or variable."""
        return self._partners[side].get(id(value)) == set()

    def _are_variables(self, old: Any, new: Any) -> bool:
        if is_variable(old) or is_variable(new):
            return is_variable(old) and is_variable(new)
        return id(old) in self._buffers and id(new) in self._buffers

    def _are_loose(self, old: Any, new: Any) -> bool:
        return self.loose and {old, new} == {list, tuple}

    def _note(self, name: str, old: Any, new: Any) -> None:
        """Note which object is which, if it could change."""
        if not _is_shareable(old):
            return
        place, layers = self._place
        where = f"{place}{name}", layers
        self.shared[0].setdefault(id(old), {}).setdefault(id(new), where)
        self.shared[1].setdefault(id(new), {}).setdefault(id(old), where)

    def split_objects(self) -> Iterator[tuple[int, list[str]]]:
        """Yield objects that are one in the first or second model only: the side, and their paths.

        What a layer holds is shared as the layer itself is.
        """
        for side, counterparts in enumerate(self.shared):
            for places in counterparts.values():
                paths = [*dict.fromkeys(path for path, _ in places.values())]
                holders = [{layers[each] for _, layers in places.values()} for each in (0, 1)]
                if len(paths) > 1 and not len(holders[side]) < len(holders[1 - side]):
                    yield side, paths

    # --- objects -----------------------------------------------------------------------

    def _parts(
        self, name: str, old: Any, new: Any, inside: list[tuple[str, Any, Any]]
    ) -> Iterator[ValueDifference]:
        olds, news = (parts_of(v, named) for v, named in zip((old, new), self.named, strict=True))
        if olds is None or news is None:
            self.skipped.append(f"{name} ({type(old).__name__})")
            return
        self._alive.append((olds, news))
        self._buffers.update(map(id, (*buffers_of(old), *buffers_of(new))))
        items = [[part.value for part in parts.parts] for parts in (olds, news)]
        if _is_sequence(old) and all(_is_atom(each) for side in items for each in side):
            if [*map(key_of, items[0])] != [*map(key_of, items[1])]:
                yield ValueDifference(name, *apart(old, new))
            return
        if olds.whole:
            if any(self._trial(olds, news)):
                yield ValueDifference(name, *apart(old, new))
            return
        if olds.facts != news.facts:
            yield from _other_facts(name, old, new)
            if not (isinstance(old, dict) and isinstance(new, dict)):
                return
        if olds.loose or news.loose:
            yield from self._unordered(name, old, new, olds.loose, news.loose)
        inside += self._matched(name, old, new, olds, news)

    def _matched(
        self, name: str, old: Any, new: Any, olds: Parts, news: Parts
    ) -> list[tuple[str, Any, Any]]:
        sides = [
            {(part.before, part.after): part for part in parts.parts} for parts in (olds, news)
        ]
        found: list[tuple[str, Any, Any]] = []
        for key in dict.fromkeys([*sides[0], *sides[1]]):
            before, after = key
            if after == ".name" and _are_counted(old, new):
                continue
            where = f"{before}{name}{after}" if name else f"{before}{after}".lstrip(".")
            values = [side[key].value if key in side else ABSENT for side in sides]
            found.append((where, *values))
        return found

    def _trial(self, olds: Parts, news: Parts) -> Iterator[bool]:
        """Yield if two objects differ anywhere, without noting what was met on the way."""
        if olds.facts != news.facts or len(olds.loose) != len(news.loose):
            yield True
            return
        trial = Walk(self._partners, loose=self.loose)
        for one, two in zip(olds.parts, news.parts, strict=False):
            if (one.before, one.after) != (two.before, two.after):
                yield True
                return
            if any(trial.differences("", one.value, two.value)) or trial.skipped:
                yield True
                return
        if len(olds.parts) != len(news.parts):
            yield True

    def _unordered(
        self, name: str, old: Any, new: Any, olds: tuple[Any, ...], news: tuple[Any, ...]
    ) -> Iterator[ValueDifference]:
        """Compare items of sets: each must have a counterpart."""
        if len(olds) != len(news):
            yield ValueDifference(name, *(counted(len(each), "item") for each in (old, new)))
            return
        if len(olds) ** 2 > _TRIALS:
            self.skipped.append(f"{name} ({counted(len(olds), 'item')} without an order)")
            return
        left = [*news]
        for number, item in enumerate(olds):
            partner = next((each for each in left if self._is_same(item, each)), ABSENT)
            if partner is ABSENT:
                yield ValueDifference(f"{name}.{number}", shown(item), "absent")
                continue
            left = [each for each in left if each is not partner]
            yield from self.differences(f"{name}.{number}", item, partner)

    def _is_same(self, old: Any, new: Any) -> bool:
        known = self._partners[0].get(id(old))
        if known is not None:
            return id(new) in known
        trial = Walk(self._partners)
        return not any(trial.differences("", old, new)) and all(
            same_value(each.old, each.new) for each in trial.variables
        )

    # --- tensors -----------------------------------------------------------------------

    def _tensors(
        self, name: str, old: Any, new: Any, inside: list[tuple[str, Any, Any]]
    ) -> Iterator[ValueDifference]:
        if isinstance(old, np.ndarray) and old.dtype == object == new.dtype:
            self._note(name, old, new)
            yield from self._parts(name, old, new, inside)
            return
        if is_symbolic(old) or is_symbolic(new):
            if (tuple(old.shape), old.dtype) != (tuple(new.shape), new.dtype):
                yield ValueDifference(name, *apart(old, new))
            return
        try:
            is_same = same_value(old, new)
        except Exception:  # noqa: BLE001 what a backend can hold, it need not be able to show
            self.skipped.append(f"{name} ({type(old).__name__})")
            return
        if isinstance(old, np.ndarray):
            self._note(name, old, new)
        if not is_same:
            yield ValueDifference(name, *apart(old, new))
        else:
            for field in ("requires_grad", "layout"):
                values = [str(getattr(each, field, None)) for each in (old, new)]
                if is_torch_tensor(old) and values[0] != values[1]:
                    yield ValueDifference(f"{name}.{field}", *values)
        fields = [getattr(each, "__dict__", {}) for each in (old, new)]
        if isinstance(old, np.ndarray) and any(fields):
            inside += [
                (f"{name}.{key}", *(each.get(key, ABSENT) for each in fields))
                for key in dict.fromkeys([*fields[0], *fields[1]])
            ]


def _other_facts(name: str, old: Any, new: Any) -> Iterator[ValueDifference]:
    """Say that two objects have other items, or other code; not which keys of dicts differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [[key_of(key) if is_value(key) else None for key in each] for each in (old, new)]
        if sorted(map(str, keys[0])) == sorted(map(str, keys[1])):
            yield ValueDifference(f"order of {name}", *(shown([*each]) for each in (old, new)))
    elif _is_sequence(old):
        yield ValueDifference(name, *(counted(len(items), "item") for items in (old, new)))
    else:
        yield ValueDifference(name, *apart(old, new))


def _other_layers(
    name: str, old: Any, new: Any, olds: set[int] | None, news: set[int] | None
) -> Iterator[ValueDifference]:
    """Yield that paths lead to layers that do not belong together; both are known, or one is."""
    if olds is None or news is None:
        texts = [
            f"layer '{layer.name}'" + (" outside of the model" if known is None else "")
            for layer, known in ((old, olds), (new, news))
        ]
        yield ValueDifference(name, *texts)
    elif olds and news and id(new) not in olds:
        yield ValueDifference(name, f"layer '{old.name}'", f"layer '{new.name}'")


def same_value(old: Any, new: Any) -> bool:
    """Whether two tensors or variables have the same bits."""
    return same_bits(*(np.asarray(to_numpy(each)) for each in (old, new)))


def _is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, weakref.ReferenceType)


def _is_atom(value: Any) -> bool:
    return is_value(value) and isinstance(value, ATOMS)


def _is_sequence(value: Any) -> bool:
    return kind_of(value) in (list, tuple)


def _is_shareable(value: Any) -> bool:
    """Whether it matters that an object is one: it is a container or an object of user code."""
    kind = kind_of(value)
    if kind in (list, dict, set) or issubclass(kind, np.ndarray):
        return True
    return not callable(value) and hasattr(value, "__dict__") and not _is_of_library(kind)


def _is_of_library(kind: type) -> bool:
    return package_of(kind) in LIBRARIES or is_torch_module(kind)


def _are_counted(old: Any, new: Any) -> bool:
    """Whether Keras counted the names of two objects of its own."""
    kinds = [type(each) for each in (old, new)]
    if not all(hasattr(kind, "from_config") for kind in kinds):
        return False
    names = [str(getattr(each, "name", "")) for each in (old, new)]
    return all(is_automatic(n, k.__name__) for n, k in zip(names, kinds, strict=True))
