"""Automatic names: which of them a source can leave to Keras.

Keras names layers by counting per class: `dense`, `dense_1`. Hand-written code leaves such names
out. A source does so too, where running it in a fresh session counts to the same names; it leaves
out all automatic names of a class, or none, so that a counted name never meets a written one.
"""

import re
from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass

from ramet import keras_internals as internals
from ramet.errors import SourceError
from ramet.graph.names import is_automatic


@dataclass(frozen=True, slots=True)
class Use:
    """A layer, model or operation that running the source creates."""

    name: str
    """Its name in the model."""
    kind: str
    """The name of its class, from which Keras derives names."""
    owner: int
    """Which function of the source calls it."""
    key: int = 0
    """The identity of the layer; 0 for what the source cannot name: operations, inner layers."""
    is_inside: bool = False
    """Whether another layer creates and holds it."""
    is_fixed: bool = False
    """Whether the source writes its name in a form that needs it, such as a config."""

    @property
    def base(self) -> str:
        """The name without its number if it is automatic; otherwise empty."""
        return base_of(self.name, self.kind)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which names are left out of a source."""

    left_out: frozenset[str] = frozenset()
    """Bases of automatic names, such as `dense`, that are not written."""
    renamed: frozenset[str] = frozenset()
    """Layers that get other automatic names than they have in the model."""

    @property
    def notes(self) -> list[str]:
        """What the source does not say, in words."""
        return [
            f"layer '{name}' is named by counting, since an operation could get its name; "
            'names="exact" keeps it'
            for name in sorted(self.renamed)
        ]


def base_of(name: str, kind: str) -> str:
    """Return an automatic name without its number; empty if it is not automatic."""
    return re.sub(r"_\d+$", "", name) if is_automatic(name, kind) else ""


def planned(uses: list[Use], pinned: Container[int]) -> Plan:
    """Decide which names are left to Keras.

    Args:
        uses: What the source creates, in order.
        pinned: Identities of layers that the source finds by their names.

    Raises:
        SourceError: If Keras would give an operation the name of a layer.
    """
    layers = [use for use in uses if use.key and use.base]
    fixed = {use.base for use in layers if use.is_fixed or use.key in pinned}
    every = {use.base for use in layers} - fixed
    counted = _counted(uses, every)
    other = {
        use.base
        for use, name in zip(uses, counted, strict=True)
        if use.key and use.base in every and use.name != name
    }
    # The names of operations cannot be written, so a written automatic name may clash with one.
    operations = {_base_of_kind(use.kind) for use in uses if not use.key and not use.is_inside}
    left_out = frozenset(every - (other - operations))
    counted = _counted(uses, left_out)
    _check_unique(uses, counted)
    renamed = frozenset(
        use.name
        for use, name in zip(uses, counted, strict=True)
        if use.key and use.base in left_out and use.name != name
    )
    return Plan(left_out, renamed)


def _counted(uses: Iterable[Use], left_out: Container[str]) -> list[str]:
    """List the names in a fresh session if some are left out."""
    with internals.fresh_names():
        return [
            use.name
            if use.key and (not use.base or use.base not in left_out)
            else internals.automatic_name(use.kind)
            for use in uses
        ]


def _base_of_kind(kind: str) -> str:
    with internals.fresh_names():
        return internals.automatic_name(kind)


def _check_unique(uses: list[Use], counted: list[str]) -> None:
    taken: defaultdict[int, dict[str, Use]] = defaultdict(dict)
    for use, name in zip(uses, counted, strict=True):
        if use.is_inside:
            continue
        before = taken[use.owner].setdefault(name, use)
        if before is not use and not (before.key and use.key):
            message = (
                f"layer '{name}' has the name that Keras gives to an operation of the same "
                'model, so no plain source can create both; use names="exact", or rename the layer'
            )
            raise SourceError(message)
