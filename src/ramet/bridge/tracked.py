"""Copies of the trackers of layers, and of the collections that report to them."""

from collections import OrderedDict
from typing import Any

from ramet.bridge import internals
from ramet.bridge.core import Handler, ids_of, set_attribute
from ramet.bridge.nodes import NodeCopier


class TrackedCopier(NodeCopier):
    """Copies what Keras tracks the state of layers with, without tracking again."""

    @classmethod
    def _bases(cls) -> tuple[tuple[Any, Handler], ...]:
        return (
            (internals.Tracker, cls._tracker),
            (internals.TRACKED_LIST, cls.copy_list_object),
            (internals.TRACKED_ORDERED_DICT, cls._tracked_ordered_dict),
            (internals.TRACKED_DICT, cls.copy_dict_object),
            (internals.TRACKED_SET, cls.copy_set_object),
            *super()._bases(),
        )

    def _tracker(self, value: Any) -> Any:
        made = self.make_empty(value)
        fields = value.__dict__ | {internals.STORED_IDS: None}
        self.copy_fields(fields)
        fields[internals.STORED_IDS] = ids_of(fields[internals.STORES])
        set_attribute(made, "__dict__", fields)
        return made

    def _tracked_ordered_dict(self, value: Any) -> Any:
        made = OrderedDict.__new__(type(value))
        self.memo[id(value)] = made
        for key, item in value.items():
            OrderedDict.__setitem__(made, self.copy(key), self.copy(item))
        made.tracker = self.copy(value.tracker)
        return made
