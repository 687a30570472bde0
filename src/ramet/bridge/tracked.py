"""Copies of the trackers of layers, and of the collections that report to them."""

from collections import OrderedDict
from types import FunctionType
from typing import Any

from ramet.bridge import internals
from ramet.bridge.nodes import NodeCopier
from ramet.bridge.plain import ATOMS, Handler, blank, set_attribute

_FIELDS = frozenset(
    {
        internals.STORES,
        internals.STORED_IDS,
        internals.EXCLUSIONS,
        *internals.TRACKER_FLAGS,
    }
)
"""What a tracker is known to hold."""


_blank_list, _blank_set = list.__new__, set.__new__


class TrackedCopier(NodeCopier):
    """Copies what Keras tracks the state of layers with, without tracking again."""

    def __init__(self) -> None:
        """Starts with nothing copied."""
        super().__init__()
        self._last: tuple[Any, Any] = (None, None)

    @classmethod
    def _bases(cls) -> tuple[tuple[Any, Handler], ...]:
        return (
            (internals.Tracker, cls._tracker),
            (internals.TRACKED_LIST, cls._tracked_list),
            (internals.TRACKED_ORDERED_DICT, cls._tracked_ordered_dict),
            (internals.TRACKED_DICT, cls._tracked_dict),
            (internals.TRACKED_SET, cls._tracked_set),
            *super()._bases(),
        )

    def _tracker(self, value: Any) -> Any:
        made = blank(type(value))
        memo, found, atoms = self.memo, self.found, self.atoms
        memo[id(value)] = made
        held = value.__dict__
        fields = held.copy()
        old, known = held[internals.STORES], internals.OWN_TESTS
        stores = fields[internals.STORES] = memo[id(old)] = {}
        ids = fields[internals.STORED_IDS] = {}
        for key, (test, store) in old.items():
            copied = found(id(store))
            if copied is None:
                plain = type(store) is list and (not store or atoms.issuperset(map(type, store)))
                copied = memo[id(store)] = store[:] if plain else self.copy(store)
            own = type(test) is FunctionType and test.__code__ is known.get(key)
            stores[key] = (test if own else self.copy(test), copied)
            ids[key] = set(map(id, copied)) if copied else set()
        excluded = fields[internals.EXCLUSIONS] = {}
        for key, names in held[internals.EXCLUSIONS].items():
            excluded[key] = names[:] if type(names) is list else self.copy(names)
        if held.keys() != _FIELDS:
            for name in held.keys() - _FIELDS:
                fields[name] = self.copy(held[name])
        set_attribute(made, "__dict__", fields)
        return made

    def tracker_of(self, value: Any) -> Any:
        """Returns the copy of the tracker that a collection reports to: mostly the last one."""
        tracker = value.tracker
        if tracker is not self._last[0]:
            self._last = (tracker, self.copy(tracker))
        return self._last[1]

    def _tracked_list(self, value: Any) -> Any:
        made = _blank_list(type(value))
        self.memo[id(value)] = made
        if value:
            list.extend(made, self._items(value))
        made.tracker = self.tracker_of(value)
        return made

    def _items(self, value: Any) -> Any:
        """Returns copies of what a list or set holds."""
        if ATOMS.issuperset(map(type, value)):
            return value
        items: list[Any] = []
        self._copy_each(value, items.append)
        return items

    def _tracked_dict(self, value: Any) -> Any:
        return self._tracked_mapping(value, dict)

    def _tracked_ordered_dict(self, value: Any) -> Any:
        return self._tracked_mapping(value, OrderedDict)

    def _tracked_mapping(self, value: Any, base: Any) -> Any:
        made = base.__new__(type(value))
        self.memo[id(value)] = made
        for key, item in value.items():
            copied = item if type(item) in self.atoms else self.copy(item)
            base.__setitem__(made, key if type(key) is str else self.copy(key), copied)
        made.tracker = self.tracker_of(value)
        return made

    def _tracked_set(self, value: Any) -> Any:
        made = _blank_set(type(value))
        self.memo[id(value)] = made
        if value:
            set.update(made, self._items(value))
        made.tracker = self.tracker_of(value)
        return made
