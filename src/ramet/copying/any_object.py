"""Copies of objects of any class: by their attributes, or the way `copy.deepcopy` does."""

import copyreg
import pickle
import sys
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from ramet import keras_internals as internals
from ramet.backends import is_of_keras
from ramet.copying.core import set_attribute
from ramet.copying.handlers import Registry, Uncopyable

if TYPE_CHECKING:
    from ramet.copying.deep_copy import Copier

copies = Registry()

_LARGEST = 2 * sys.maxsize + 1
"""The largest possible id."""


class DeepcopyMemo(dict[Any, Any]):
    """The memo that is passed to an object's own `__deepcopy__`: a dict.

    It is synchronized with the copier's memo before each use, and passes on what is written
    to it at once.
    """

    def __init__(self, memo: Any) -> None:
        """Start empty, for the memo of a copier."""
        super().__init__()
        self._memo = memo
        self._written = 0

    def __setitem__(self, key: Any, twin: Any) -> None:
        """Add a copy to both memos."""
        super().__setitem__(key, twin)
        if type(key) is int and 0 <= key <= _LARGEST:
            self._memo[key] = twin

    def let_copy(self, value: Any) -> Any:
        """Return the copy that an object's `__deepcopy__` returns."""
        memo = self._memo
        if type(memo) is dict:
            return value.__deepcopy__(memo)
        self.update(memo.since(self._written))
        size = len(self)
        try:
            return value.__deepcopy__(self)
        finally:
            # Entries written without `__setitem__`, as code in C does.
            for key in [*islice(reversed(self), max(len(self) - size, 0))][::-1]:
                self[key] = self[key]
            self._written = memo.written


@copies.where(is_of_keras)
def copy_by_attributes(copier: "Copier", value: Any) -> Any:
    """Copy an object attribute by attribute, bypassing `__setattr__` of its class."""
    slots = internals.slots_of(type(value))
    if not slots:
        return copier.copy_object(value)
    twin = copier.make_empty(value)
    for name in slots:
        if hasattr(value, name):
            set_attribute(twin, name, copier.copy(getattr(value, name)))
    held = getattr(value, "__dict__", None)
    if held:
        fields = held.copy()
        copier.copy_fields(fields)
        # Not before: user code that runs meanwhile would change the source's.
        set_attribute(twin, "__dict__", fields)
    return twin


@copies(object)
def copy_by_reduction(copier: "Copier", value: Any) -> Any:
    """Copy any other object the way `copy.deepcopy` would, with the copier's memo."""
    if hasattr(type(value), "__deepcopy__"):
        return copier.memo.setdefault(id(value), copier.deepcopy_memo.let_copy(value))
    registered = copyreg.dispatch_table.get(type(value))
    try:
        reduced = registered(value) if registered else value.__reduce_ex__(4)
    except (TypeError, pickle.PickleError) as error:
        raise Uncopyable(value) from error
    if isinstance(reduced, str):
        return value
    function, args = reduced[:2]
    state, items, pairs = (*reduced[2:5], None, None, None)[:3]
    copier.alive.append(reduced)
    twin = copier.memo[id(value)] = function(*[copier.copy(item) for item in args])
    if state is not None:
        internals.set_state(twin, copier.copy(state))
    for item in _kept_alive(copier, items):
        twin.append(copier.copy(item))
    for key, item in _kept_alive(copier, pairs):
        twin[copier.copy(key)] = copier.copy(item)
    return twin


def _kept_alive(copier: "Copier", items: Iterable[Any] | None) -> list[Any]:
    """Return the items of an iterator, kept alive as long as the memo, which has their ids."""
    kept = [*(items or ())]
    copier.alive.append(kept)
    return kept
