"""A structural copy of plain Python objects, each copied once.

The memo is what keeps sharing: whatever is reached twice is copied once.
"""

import copyreg
import enum
import functools
import io
import operator
import pickle
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from ramet.bridge import functions, internals
from ramet.bridge.core import ATOMS, Core, Handler, set_attribute

_LARGEST = 2 * sys.maxsize + 1
"""The largest number that can be an id."""

_CACHED = type(functools.lru_cache(len))
"""The class of functions with a cache, which has no public name."""


class Uncopyable(Exception):  # noqa: N818 not an error yet: the layer may have another way
    """An object that has no structural copy."""

    def __init__(self, value: Any) -> None:
        """Remembers what kind of object it is."""
        super().__init__(type(value).__name__)
        self.kind = type(value).__qualname__


class Handlers(dict[type, Handler]):
    """How the copiers of a class copy, by kind of object. Found out once for each kind."""

    def __init__(self, copier: "type[PlainCopier]") -> None:
        super().__init__(copier.exact_handlers())
        self._copier = copier

    def __missing__(self, kind: type) -> Handler:
        handler = self._copier.handler_for(kind)
        if handler is self._copier.by_attributes and not internals.slots_of(kind):
            handler = self._copier.copy_object
        self[kind] = handler
        return handler


handlers_of = functools.cache(Handlers)
"""The one table of a class of copiers."""


class _Known(dict[Any, Any]):
    """Copies by the ids of their sources, for objects that copy themselves.

    What they write here, the memo knows at once.
    """

    def __init__(self, memo: dict[int, Any]) -> None:
        super().__init__()
        self._memo = memo

    def __setitem__(self, key: Any, made: Any) -> None:
        super().__setitem__(key, made)
        if type(key) is int and 0 <= key <= _LARGEST:
            self._memo[key] = made


class PlainCopier(Core):
    """Copies containers, functions, arrays, and objects that can be reduced."""

    def __init__(self) -> None:
        """Starts with nothing copied."""
        super().__init__(handlers_of(type(self)), set(ATOMS), internals.WRAPPERS)
        self._kept: list[Any] = []
        self._known = _Known(self.memo)
        self._written = 0

    @classmethod
    def exact_handlers(cls) -> dict[type, Handler]:
        """Returns the ways to copy the instances of some classes, but not of their subclasses."""
        return {
            **dict.fromkeys(ATOMS, cls._same),
            list: cls.copy_list,
            dict: cls.copy_dict,
            tuple: cls.copy_tuple,
            set: cls.copy_set,
            frozenset: cls._frozenset,
            OrderedDict: cls._ordered_dict,
            types.FunctionType: cls.copy_function,
            types.MethodType: cls._method,
            partial: cls._partial,
            slice: cls._slice,
            weakref.ReferenceType: cls._weak_reference,
            weakref.WeakMethod: cls._weak_method,
            weakref.ProxyType: cls._weak_proxy,
            weakref.CallableProxyType: cls._weak_proxy,
        }

    @classmethod
    def handler_for(cls, kind: type) -> Handler:
        """Returns the way to copy a kind of object; asked once per kind."""
        for base, handler in cls._bases():
            if issubclass(kind, base):
                return handler
        return cls._by_reduction

    @classmethod
    def _bases(cls) -> tuple[tuple[Any, Handler], ...]:
        """Lists classes with the way to copy their instances, special ones first."""
        return (
            ((type, enum.Enum, np.dtype, np.generic), cls._same),
            (np.ndarray, cls._array),
            (partial, cls._partial),
            (_CACHED, cls._cached),
            (types.BuiltinFunctionType, cls._builtin),
            (io.IOBase, cls._open_file),
            ((weakref.WeakKeyDictionary, weakref.WeakValueDictionary), cls._weak_dict),
            (tuple, cls._named_tuple),
        )

    def _same(self, value: Any) -> Any:
        self.atoms.add(type(value))
        return value

    def _open_file(self, value: Any) -> Any:
        """Copies a file that is in memory; any other belongs to the source."""
        if isinstance(value, (io.StringIO, io.BytesIO)):
            return self._by_reduction(value)
        raise Uncopyable(value)

    def _ordered_dict(self, value: Any) -> Any:
        made = self.memo[id(value)] = type(value)()
        if value:
            for key, item in value.items():
                made[self.copy(key)] = self.copy(item)
        if value.__dict__:
            made.__dict__.update(self.copy(value.__dict__))
        return made

    def _named_tuple(self, value: Any) -> Any:
        if not hasattr(type(value), "_make"):
            return self._by_reduction(value)
        return self.memo.setdefault(id(value), value._make(map(self.copy, value)))

    def _frozenset(self, value: frozenset[Any]) -> frozenset[Any]:
        made = self.memo[id(value)] = frozenset(self.copy(item) for item in value)
        return made

    def _slice(self, value: slice) -> slice:
        parts = (value.start, value.stop, value.step)
        return slice(*[self.copy(part) for part in parts])

    def _weak_reference(self, value: Any) -> Any:
        """Follows a reference to what is copied too; keeps one to anything else."""
        target = value()
        return weakref.ref(self.copy(target)) if self._is_ours(target) else value

    def _weak_method(self, value: Any) -> Any:
        method = value()
        if method is None or not self._is_ours(method.__self__):
            return value
        # Not by a copy of the method, which lives no longer than this: its id may come again.
        parts = (self.copy(method.__func__), self.copy(method.__self__))
        return self.memo.setdefault(id(value), weakref.WeakMethod(types.MethodType(*parts)))

    def _weak_dict(self, value: Any) -> Any:
        """Makes a dict of weak references anew; by itself it would refer to the source's things."""
        made = self.memo[id(value)] = type(value)()
        weak_keys = isinstance(value, weakref.WeakKeyDictionary)
        for key, item in list(value.items()):
            if weak_keys:
                made[self._weakly(key)] = self.copy(item)
            else:
                made[self.copy(key)] = self._weakly(item)
        return made

    def _weakly(self, value: Any) -> Any:
        return self.copy(value) if self._is_ours(value) else value

    def _weak_proxy(self, value: Any) -> Any:
        target = value.__repr__.__self__  # the only way through a proxy
        return weakref.proxy(self.copy(target)) if self._is_ours(target) else value

    def _is_ours(self, value: Any) -> bool:
        stateful = isinstance(value, internals.STATEFUL) or internals.is_torch_module(type(value))
        return stateful or id(value) in self.memo

    def _array(self, value: np.ndarray) -> np.ndarray:
        made = value.copy(order="K")
        self.memo[id(value)] = made
        if made.dtype.hasobject:
            flat = made.reshape(-1)
            flat[:] = [self.copy(item) for item in value.reshape(-1)]
            made = self.memo[id(value)] = flat.reshape(value.shape)
        made.flags.writeable = value.flags.writeable
        return made

    def bind_function(self, value: types.FunctionType) -> Any:
        """Copies a function that may reach what is copied."""
        return functions.copy_function(value, self)

    def _method(self, value: types.MethodType) -> types.MethodType:
        owner, function = self.copy(value.__self__), self.copy(value.__func__)
        if owner is value.__self__ and function is value.__func__:
            return value
        return self.memo.setdefault(id(value), types.MethodType(function, owner))

    def _cached(self, value: Any) -> Any:
        """Makes a function with a cache anew, and the cache empty."""
        if not functions.reaches_state(value):
            return value
        made = functools.lru_cache(**value.cache_parameters())(self.copy(value.__wrapped__))
        return self.memo.setdefault(id(value), made)

    def _builtin(self, value: Any) -> Any:
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, (types.ModuleType, type)):
            return value
        return getattr(self.copy(owner), value.__name__)

    def _partial(self, value: Any) -> Any:
        try:
            function, args = self.copy(value.func), [self.copy(item) for item in value.args]
            named = {name: self.copy(item) for name, item in value.keywords.items()}
            fields = self.copy(value.__dict__)
        except Uncopyable:
            if functions.reaches_state(value):
                raise
            return value
        old = (value.func, *value.args, *value.keywords.values())
        new = (function, *args, *named.values())
        if not fields and all(map(operator.is_, old, new)):
            return value
        made = type(value)(function, *args, **named)
        made.__dict__.update(fields)
        return self.memo.setdefault(id(value), made)  # What it holds may hold it.

    def by_attributes(self, value: Any) -> Any:
        """Copies an object attribute by attribute, whatever its class does to them."""
        slots = internals.slots_of(type(value))
        if not slots:
            return self.copy_object(value)
        made = self.make_empty(value)
        for name in slots:
            if hasattr(value, name):
                set_attribute(made, name, self.copy(getattr(value, name)))
        held = getattr(value, "__dict__", None)
        if held:
            fields = held.copy()
            self.copy_fields(fields)
            # Not before: code of the author's that runs meanwhile would change the source's.
            set_attribute(made, "__dict__", fields)
        return made

    def _by_reduction(self, value: Any) -> Any:
        """Copies any other object the way `copy.deepcopy` would, with this memo."""
        if hasattr(type(value), "__deepcopy__"):
            return self.memo.setdefault(id(value), self._copied_by_itself(value))
        registered = copyreg.dispatch_table.get(type(value))
        try:
            reduced = registered(value) if registered else value.__reduce_ex__(4)
        except (TypeError, pickle.PickleError) as error:
            raise Uncopyable(value) from error
        if isinstance(reduced, str):
            return value
        function, args = reduced[:2]
        state, items, pairs = (*reduced[2:5], None, None, None)[:3]
        self._kept.append(reduced)
        made = self.memo[id(value)] = function(*[self.copy(item) for item in args])
        if state is not None:
            internals.set_state(made, self.copy(state))
        for item in self._keep(items):
            made.append(self.copy(item))
        for key, item in self._keep(pairs):
            made[self.copy(key)] = self.copy(item)
        return made

    def _copied_by_itself(self, value: Any) -> Any:
        """Lets an object copy itself, which needs a dict of the copies, and may add to it."""
        memo: Any = self.memo
        if type(memo) is dict:
            return value.__deepcopy__(memo)
        known = self._known
        known.update(memo.since(self._written))
        size = len(known)
        try:
            return value.__deepcopy__(known)
        finally:
            # What was written past `__setitem__`, as code in C does.
            for key in [*islice(reversed(known), max(len(known) - size, 0))][::-1]:
                known[key] = known[key]
            self._written = memo.written

    def forget(self, key: int) -> None:
        """Lets a copy be made anew, by the id of its source."""
        del self.memo[key]
        self._known.pop(key, None)

    def _keep(self, items: Iterable[Any] | None) -> list[Any]:
        """Lets things live as long as the memo knows them by their ids."""
        kept = [*(items or ())]
        self._kept.append(kept)
        return kept
