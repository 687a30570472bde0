"""Copies of weak references: to the copy, if the target is copied too; others are kept."""

import types
import weakref
from typing import TYPE_CHECKING, Any

import keras

from ramet import keras_internals as internals
from ramet.backends.torch import is_torch_module
from ramet.copying.handlers import Registry

if TYPE_CHECKING:
    from ramet.copying.deep_copy import Copier

copies = Registry()


def _is_copied_too(copier: "Copier", target: Any) -> bool:
    """Whether the target of a weak reference belongs to what is copied."""
    if isinstance(target, keras.Layer) and copier.root is not None:
        return copier.is_inside(target) or id(target) in copier.memo
    stateful = isinstance(target, internals.STATEFUL) or is_torch_module(type(target))
    return stateful or id(target) in copier.memo


def _twin_or_same(copier: "Copier", target: Any) -> Any:
    return copier.copy(target) if _is_copied_too(copier, target) else target


@copies.exactly(weakref.ReferenceType)
def copy_reference(copier: "Copier", value: Any) -> Any:
    """Copy a weak reference, without its callback."""
    target = value()
    return weakref.ref(copier.copy(target)) if _is_copied_too(copier, target) else value


@copies.exactly(weakref.WeakMethod)
def copy_weak_method(copier: "Copier", value: Any) -> Any:
    """Copy a weak reference to a method."""
    method = value()
    if method is None or not _is_copied_too(copier, method.__self__):
        return value
    # Not by copying the method, a temporary object: its id may be reused.
    parts = (copier.copy(method.__func__), copier.copy(method.__self__))
    return copier.memo.setdefault(id(value), weakref.WeakMethod(types.MethodType(*parts)))


@copies.exactly(weakref.ProxyType, weakref.CallableProxyType)
def copy_proxy(copier: "Copier", value: Any) -> Any:
    """Copy a proxy."""
    target = value.__repr__.__self__  # the only way to the target of a proxy
    return weakref.proxy(copier.copy(target)) if _is_copied_too(copier, target) else value


@copies(weakref.WeakKeyDictionary, weakref.WeakValueDictionary)
def copy_weak_dict(copier: "Copier", value: Any) -> Any:
    """Copy a dict of weak references. Its own `copy` would refer to the targets of the source."""
    twin = copier.memo[id(value)] = type(value)()
    weak_keys = isinstance(value, weakref.WeakKeyDictionary)
    for key, item in list(value.items()):
        if weak_keys:
            twin[_twin_or_same(copier, key)] = copier.copy(item)
        else:
            twin[copier.copy(key)] = _twin_or_same(copier, item)
    return twin
