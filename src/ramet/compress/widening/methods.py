"""How a group of channels can be widened such that the model computes the same."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from ramet import keras_internals as internals
from ramet._words import Promise
from ramet.compress.channels.arrange import Arrangement
from ramet.compress.channels.follow import Channels, Identity
from ramet.compress.channels.grown import Growth, Place, Start
from ramet.compress.channels.site import Flow
from ramet.compress.widening.contents import Contents, Kind, starts_of
from ramet.errors import OptionError
from ramet.tracing.configs import raw_config

Method: TypeAlias = Literal["zeros", "averages", "copies"]
"""What new channels are: read with zeros, averages of all old ones, or copies of some."""

METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True)
class Way:
    """A way to widen a group."""

    method: Method
    """What new channels are."""
    growth: Growth
    """How they start."""
    promise: Promise = "equal"
    """What is promised then."""


@dataclass(frozen=True)
class Wish:
    """Which group shall have how many channels."""

    channels: Channels
    """The channels of the graph."""
    arrangement: Arrangement
    """Its groups."""
    name: str
    """The name of the group."""
    size: int
    """How many channels it shall have."""

    @property
    def old(self) -> int:
        """How many channels it has."""
        return self.arrangement.groups[self.name].size

    def mixers(self) -> list[str]:
        """List why the outputs depend on new channels, whatever reads them."""
        places = self.arrangement.places.items()
        mixers = [
            reason
            for atom, (name, _) in places
            if name == self.name
            for reason in self.channels.atoms.mixers(atom)
        ]
        return [*dict.fromkeys(mixers)]

    def numbers(self) -> dict[int, int]:
        """Return the numbers of the channels by their atoms; -2 for products with others."""
        numbers: dict[int, int] = {}
        places, atoms = self.arrangement.places, self.channels.atoms
        for axis in self._axes():
            for atom in np.unique(atoms.roots(axis.label())).tolist():
                if atom in numbers:
                    continue
                for basic in atoms.basics(atom):
                    if places.get(basic, ("", 0))[0] == self.name:
                        numbers[atom] = -2 if atoms.is_product(atom) else places[basic][1]
        return numbers

    def _axes(self) -> Iterator[Any]:
        for site, outputs in self.channels.steps:
            for tensor in (*site.tensors(), *outputs):
                yield from (axis for axis in tensor if axis.labels is not None)
        for flow in self.channels.flows.values():
            for weight in flow.weights.values():
                yield from (axis for axis, _ in weight.axes if axis.labels is not None)
            yield from (axis for axis in flow.made.values() if axis.labels is not None)


def way_to(wish: Wish, method: Method | None) -> Way:
    """Return how a group is widened.

    Args:
        wish: The group.
        method: What new channels shall be; by default the first of the methods that is possible.

    Raises:
        OptionError: If it is not possible.
    """
    ways = {"zeros": _zeros, "averages": _averages, "copies": _copies}
    reasons: dict[Method, str] = {}
    for each in METHODS if method is None else (method,):
        way = ways[each](wish)
        if isinstance(way, Way):
            return way
        reasons[each] = way
    reason = reasons.get("averages") or next(iter(reasons.values()))
    possible = [
        each for each in METHODS if each not in reasons and not isinstance(ways[each](wish), str)
    ]
    remedy = "widen another group"
    doubled = Wish(wish.channels, wish.arrangement, wish.name, wish.old * 2)
    if possible:
        remedy = f"pass method='{possible[0]}'"
    elif isinstance(_copies(doubled), Way):
        remedy = (
            f"pass method='copies' and a multiple of {wish.old}, such as {wish.old * 2}"
            if method != "copies" or wish.size % wish.old
            else remedy
        )
    raise OptionError(f"group '{wish.name}' cannot be widened to {wish.size}: {reason}; {remedy}")


def _zeros(wish: Wish) -> Way | str:
    starts, factors, settled = _of_keys(wish, copies=False)
    left = [reason for reason in wish.mixers() if not _is_settled(reason, settled)]
    return left[0] if left else Way("zeros", Growth(starts=starts, factors=factors))


def _copies(wish: Wish) -> Way | str:
    starts, factors, settled = _of_keys(wish, copies=True)
    contents = Contents(wish.channels, wish.numbers(), wish.old, "copies").follow()
    if wish.size % wish.old == 0:
        settled |= contents.settled
    left = [reason for reason in wish.mixers() if not _is_settled(reason, settled)]
    if left:
        return left[0]
    promise: Promise = "inference-equal" if contents.is_random else "equal"
    return Way("copies", Growth(copies=True, starts=starts, factors=factors), promise)


def _averages(wish: Wish) -> Way | str:
    numbers = wish.numbers()
    found: list[Contents] = []
    attempts: tuple[tuple[Kind, bool], ...] = (
        ("average", False),
        ("average", True),
        ("zeros", False),
    )
    for kind, shifts in attempts:
        contents = Contents(wish.channels, numbers, wish.old, kind, shifts).follow()
        left = [reason for reason in wish.mixers() if not _is_settled(reason, contents.settled)]
        if not left and not contents.problems and _is_learned(contents):
            return _scaled(wish, contents)
        contents.problems += left
        found.append(contents)
    of_squares = all("RMS" in type(site.layer).__name__ for _, site in found[0].norms)
    problems = found[-1 if of_squares else 0].problems
    return problems[0] if problems else "nothing that reads the new channels would learn"


def _is_learned(contents: Contents) -> bool:
    """Whether some weight reads the channels."""
    kinds = [
        kind
        for flow in contents.channels.flows.values()
        for weight in flow.weights.values()
        for axis, kind in weight.axes
        if contents.is_in(axis)
    ]
    return "read" in kinds


def _is_settled(reason: str, settled: set[str]) -> bool:
    return any(name in reason for name in settled)


def _scaled(wish: Wish, contents: Contents) -> Way | str:
    """Return the way to widen a group by averages, or zeros, with norms that are scaled."""
    starts: dict[Place, dict[Any, Start]] = {}
    for identity, flow in wish.channels.flows.items():
        for role, start in starts_of(contents, flow, identity).items():
            starts[identity, role] = start
    factors: dict[Place, float] = {}
    changes: dict[Identity, dict[str, Any]] = {}
    shrunk = wish.old / wish.size
    for identity, site in dict(contents.norms).items():
        if "epsilon" not in raw_config(site.layer):
            return f"the epsilon of {site.name} is not in its config"
        changes[identity] = {"epsilon": site.layer.epsilon * shrunk}
        for role in (("gamma",), ("scale",)):
            if role in site.flow.weights:
                factors[identity, role] = shrunk**0.5
        if contents.shifts:
            starts[identity, ("beta",)] = {"carried": "offsets"}
    promise: Promise = "inference-equal" if contents.is_random else "equal"
    return Way("averages", Growth(starts=starts, factors=factors, changes=changes), promise)


def _of_keys(wish: Wish, *, copies: bool) -> tuple[Any, Any, set[str]]:
    """Return how the widths of keys start, and the attention layers that are settled by that.

    Attention divides by the root of the width of its keys, so queries are multiplied by as much.
    New keys are zeros, and new queries are not, or a copied query shares what the old one had.
    """
    starts: dict[Place, dict[Any, Start]] = {}
    factors: dict[Place, float] = {}
    settled: set[str] = set()
    numbers = wish.numbers()
    for identity, flow in wish.channels.flows.items():
        slot = _key_slot(flow)
        if slot is None or not {*wish.channels.atoms.roots(flow.made[slot].label()).tolist()} & {
            *numbers
        }:
            continue
        settled.add(f"'{flow.path}' ({type(flow.live).__name__}) divides by the square root")
        parts = internals.attention_parts(flow.live)
        for role in ("kernel", "bias"):
            query, key = (parts["query"], role), (parts["key"], role)
            factors[identity, query] = (wish.size / wish.old) ** 0.5
            if copies:
                starts[identity, query] = {"made": "shared"}
            else:
                starts[identity, key] = {"made": "zeros"}
    return starts, factors, settled


def _key_slot(flow: Flow) -> str | None:
    return next((slot for slot in ("key_dim", "head_dim") if slot in flow.made), None)
