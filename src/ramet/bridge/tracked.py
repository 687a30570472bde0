"""Copies of the trackers of layers, and of the collections that report to them."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ramet.bridge import internals
from ramet.bridge.nodes import NodeCopier
from ramet.bridge.plain import ATOMS

_APART = frozenset({internals.STORES, internals.STORED_IDS})
"""What a tracker holds that is not just copied."""


class TrackedCopier(NodeCopier):
    """Copies what Keras tracks the state of layers with, without tracking again."""

    def _bases(self) -> tuple[tuple[Any, Callable[[Any], Any]], ...]:
        return (
            (internals.Tracker, self._tracker),
            (internals.TRACKED_LIST, self._tracked_list),
            (internals.TRACKED_DICTS, self._tracked_dict),
            (internals.TRACKED_SET, self._tracked_set),
            *super()._bases(),
        )

    def _tracker(self, value: Any) -> Any:
        made = object.__new__(type(value))
        memo = self.memo
        memo[id(value)] = made
        fields, held = made.__dict__, value.__dict__
        fields.update(held)
        stores = fields[internals.STORES] = memo[id(held[internals.STORES])] = {}
        ids = fields[internals.STORED_IDS] = {}
        for key, (test, store) in held[internals.STORES].items():
            copied = memo.get(id(store))
            if copied is None:
                copied = self.copy(store) if store or type(store) is not list else []
                memo[id(store)] = copied
            stores[key] = (test if internals.is_own_test(test) else self.copy(test), copied)
            ids[key] = set(map(id, copied))
        for name, item in held.items():
            if type(item) not in ATOMS and name not in _APART:
                fields[name] = self.copy(item)
        return made

    def _tracked_list(self, value: Any) -> Any:
        made = list.__new__(type(value))
        memo = self.memo
        memo[id(value)] = made
        if value:
            items = [item if type(item) in ATOMS else self.copy(item) for item in value]
            list.extend(made, items)
        made.tracker = memo.get(id(value.tracker)) or self.copy(value.tracker)
        return made

    def _tracked_dict(self, value: Any) -> Any:
        kind: Any = type(value)
        made = kind.__new__(kind)
        self.memo[id(value)] = made
        base: Any = OrderedDict if issubclass(kind, OrderedDict) else dict
        for key, item in value.items():
            copied = item if type(item) in ATOMS else self.copy(item)
            base.__setitem__(made, key if type(key) is str else self.copy(key), copied)
        made.tracker = self.memo.get(id(value.tracker)) or self.copy(value.tracker)
        return made

    def _tracked_set(self, value: Any) -> Any:
        made = set.__new__(type(value))
        self.memo[id(value)] = made
        if value:
            set.update(made, [self.copy(item) for item in value])
        made.tracker = self.memo.get(id(value.tracker)) or self.copy(value.tracker)
        return made
