"""Copies of the trackers of layers, and of the collections that report to them.

They are copied by their content: nothing is tracked a second time.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from ramet import keras_internals as internals
from ramet.copying.core import Core, ids_of, set_attribute
from ramet.copying.handlers import Registry

if TYPE_CHECKING:
    from ramet.copying.deep_copy import Copier

copies = Registry()

_ORDERED_DICTS = tuple(k for k in internals.TRACKED_COLLECTIONS if issubclass(k, OrderedDict))
"""One class, or none in older versions of Keras."""

copies(internals.TRACKED_LIST)(Core.copy_list_object)
copies(internals.TRACKED_DICT)(Core.copy_dict_object)
copies(internals.TRACKED_SET)(Core.copy_set_object)


@copies(internals.Tracker)
def copy_tracker(copier: "Copier", value: Any) -> Any:
    """Copy a tracker, with the ids of the copied objects."""
    twin = copier.make_empty(value)
    fields = value.__dict__ | {internals.STORED_IDS: None}
    copier.copy_fields(fields)
    fields[internals.STORED_IDS] = ids_of(fields[internals.STORES])
    set_attribute(twin, "__dict__", fields)
    return twin


@copies(*_ORDERED_DICTS)
def copy_tracked_ordered_dict(copier: "Copier", value: Any) -> Any:
    """Copy an OrderedDict that reports to a tracker."""
    twin = OrderedDict.__new__(type(value))
    copier.memo[id(value)] = twin
    for key, item in value.items():
        OrderedDict.__setitem__(twin, copier.copy(key), copier.copy(item))
    twin.tracker = copier.copy(value.tracker)
    return twin
