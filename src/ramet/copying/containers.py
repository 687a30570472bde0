"""Copies of containers, of NumPy's arrays, and of files in memory."""

import io
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from ramet.copying.any_object import copy_by_reduction
from ramet.copying.core import Core
from ramet.copying.handlers import Registry, Uncopyable

if TYPE_CHECKING:
    from ramet.copying.deep_copy import Copier

copies = Registry()

copies.exactly(list)(Core.copy_list)
copies.exactly(dict)(Core.copy_dict)
copies.exactly(tuple)(Core.copy_tuple)
copies.exactly(set)(Core.copy_set)


@copies.exactly(frozenset)
def copy_frozenset(copier: "Copier", value: frozenset[Any]) -> frozenset[Any]:
    """Copy a frozenset."""
    twin = copier.memo[id(value)] = frozenset(copier.copy(item) for item in value)
    return twin


@copies.exactly(slice)
def copy_slice(copier: "Copier", value: slice) -> slice:
    """Copy a slice."""
    return slice(*[copier.copy(part) for part in (value.start, value.stop, value.step)])


@copies.exactly(OrderedDict)
def copy_ordered_dict(copier: "Copier", value: OrderedDict[Any, Any]) -> OrderedDict[Any, Any]:
    """Copy an OrderedDict, with its attributes."""
    twin = copier.memo[id(value)] = type(value)()
    if value:
        for key, item in value.items():
            twin[copier.copy(key)] = copier.copy(item)
    if value.__dict__:
        twin.__dict__.update(copier.copy(value.__dict__))
    return twin


@copies(np.ndarray)
def copy_array(copier: "Copier", value: np.ndarray) -> np.ndarray:
    """Copy an array, and the objects in it, in the same order in memory."""
    twin = copier.memo[id(value)] = value.copy(order="K")
    if twin.dtype.hasobject:
        flat = twin.reshape(-1)
        flat[:] = [copier.copy(item) for item in value.reshape(-1)]
        twin = copier.memo[id(value)] = flat.reshape(value.shape)
    twin.flags.writeable = value.flags.writeable
    own = getattr(value, "__dict__", None)  # of a subclass of the user's, or one with a mask
    if own:
        twin.__dict__.update({name: copier.copy(item) for name, item in own.items()})
    return twin


@copies(io.IOBase)
def copy_file(copier: "Copier", value: Any) -> Any:
    """Copy a file that is in memory; any other belongs to the source."""
    if isinstance(value, (io.StringIO, io.BytesIO)):
        return copy_by_reduction(copier, value)
    raise Uncopyable(value)


@copies(tuple)
def copy_tuple_object(copier: "Copier", value: Any) -> Any:
    """Copy an instance of a subclass of tuple: a named one by its items."""
    if not hasattr(type(value), "_make"):
        return copy_by_reduction(copier, value)
    return copier.memo.setdefault(id(value), value._make(map(copier.copy, value)))
