"""Functions: kept by reference, unless they are bound to what is being copied.

A lambda may reach a layer or a variable through its closure, its defaults, or a
global name. In a copy, it has to reach the copy of it.
"""

import dis
import functools
import operator
import types
import weakref
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ramet import keras_internals as internals
from ramet.backends import LIBRARIES, package_of
from ramet.backends.values import is_backend_state
from ramet.copying.core import Core, new_function
from ramet.copying.handlers import Registry, Uncopyable

if TYPE_CHECKING:
    from ramet.copying.deep_copy import Copier

copies = Registry()

copies.exactly(types.FunctionType)(Core.copy_function)

_LIBRARIES = LIBRARIES | {"functools"}
"""Packages whose modules do not hold layers of users."""

_MOST = 20_000
"""How many objects are searched for layers and variables, from one function."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type, types.ModuleType)
"""Types whose instances hold nothing."""


_EMPTY = object()
"""What an empty cell holds."""


_CACHED = type(functools.lru_cache(len))
"""The class of functions with a cache; it has no public name."""


class _Names(dict[str, Any]):
    """The names of a module with some replaced; others are looked up live."""

    def __init__(self, module_names: dict[str, Any]) -> None:
        super().__init__()
        self.module_names = module_names
        self["__builtins__"] = module_names.get("__builtins__", __builtins__)

    def __missing__(self, name: str) -> Any:
        return self.module_names[name]


def bind_function(copier: "Copier", function: types.FunctionType) -> Any:
    """Return a function itself if it reaches no layer, otherwise one bound to the copies."""
    cells = function.__closure__ or ()
    bound = [_is_bound(cell) for cell in cells]
    if any(bound) or reaches_state(function):
        return _rebound(copier, function, cells, bound)
    copier.free[id(function.__code__)] = function.__globals__
    copier.memo[id(function)] = function
    return function


def _rebound(
    copier: "Copier",
    function: types.FunctionType,
    cells: tuple[types.CellType, ...],
    bound: list[bool],
) -> Any:
    """Re-create a function, bound to the copies of what it reaches.

    A cell that reaches no layer is kept. Functions that share another cell share its copy.
    """
    memo, code, scope = copier.memo, function.__code__, function.__globals__
    names: list[tuple[str, Any]] = []
    if copier.free.get(id(code)) is not scope:
        names = [(name, value) for name, value in _module_values(function) if reaches_state(value)]
        if names:
            scope = _Names(scope)
        else:
            copier.free[id(code)] = scope
    closure, empty = _new_closure(cells, bound, memo)
    twin = memo[id(function)] = new_function(function, scope, closure)
    for name, value in names:  # One of them may be the function itself.
        scope[name] = copier.copy(value)
    for cell, new_cell in empty:
        new_cell.cell_contents = copier.copy(cell.cell_contents)
    if function.__defaults__:
        twin.__defaults__ = copier.copy(function.__defaults__)
    if function.__kwdefaults__:
        twin.__kwdefaults__ = copier.copy(function.__kwdefaults__)
    if function.__dict__:
        fields = twin.__dict__
        for name, value in function.__dict__.items():
            fields[name] = copier.copy(value)
    return twin


def _new_closure(
    cells: tuple[types.CellType, ...], bound: list[bool], memo: dict[int, Any]
) -> tuple[tuple[types.CellType, ...], list[tuple[types.CellType, types.CellType]]]:
    """Return the cells of a new closure, and pairs of an old cell and the new one to fill."""
    closure: list[types.CellType] = []
    empty: list[tuple[types.CellType, types.CellType]] = []
    for cell, is_bound in zip(cells, bound, strict=True):
        twin = memo.get(id(cell))
        if twin is None:
            twin = cell
            if is_bound or reaches_state(cell):
                twin = types.CellType()
                empty.append((cell, twin))
            memo[id(cell)] = twin
        closure.append(twin)
    return tuple(closure), empty


def _is_bound(cell: types.CellType) -> bool:
    """Whether a cell directly holds a layer or variable, or a method of one."""
    content = content_of_cell(cell)
    if type(content) is types.MethodType:
        content = content.__self__
    return isinstance(content, internals.STATEFUL)


@copies.exactly(types.MethodType)
def copy_method(copier: "Copier", value: types.MethodType) -> types.MethodType:
    """Copy a method, unless its object and its function are kept."""
    owner, function = copier.copy(value.__self__), copier.copy(value.__func__)
    if owner is value.__self__ and function is value.__func__:
        return value
    return copier.memo.setdefault(id(value), types.MethodType(function, owner))


@copies(partial)
def copy_partial(copier: "Copier", value: Any) -> Any:
    """Copy a partial function, unless all of its parts are kept."""
    try:
        function, args = copier.copy(value.func), [copier.copy(item) for item in value.args]
        named = {name: copier.copy(item) for name, item in value.keywords.items()}
        fields = copier.copy(value.__dict__)
    except Uncopyable:
        if reaches_state(value):
            raise
        return value
    old = (value.func, *value.args, *value.keywords.values())
    new = (function, *args, *named.values())
    if not fields and all(map(operator.is_, old, new)):
        return value
    twin = type(value)(function, *args, **named)
    twin.__dict__.update(fields)
    return copier.memo.setdefault(id(value), twin)  # One of its parts may refer to it.


@copies(_CACHED)
def copy_cached(copier: "Copier", value: Any) -> Any:
    """Copy a function with a cache, if it reaches a layer; the new cache is empty."""
    if not reaches_state(value):
        return value
    twin = functools.lru_cache(**value.cache_parameters())(copier.copy(value.__wrapped__))
    return copier.memo.setdefault(id(value), twin)


@copies(types.BuiltinFunctionType)
def copy_builtin(copier: "Copier", value: Any) -> Any:
    """Copy a built-in method of an object that is copied."""
    owner = getattr(value, "__self__", None)
    if owner is None or isinstance(owner, (types.ModuleType, type)):
        return value
    return getattr(copier.copy(owner), value.__name__)


def reaches_state(value: Any) -> bool:
    """Whether a function, or what it holds, leads to a layer or variable."""
    return next(reached_state(value), None) is not None


def reached_state(value: Any) -> Iterator[Any]:
    """Yield the layers and variables that a function, or what it holds, leads to.

    Each object is visited once. The search stops after very many: a large table of data in a
    module holds no layers.
    """
    met: set[int] = set()
    waiting = [value]
    while waiting and len(met) < _MOST:
        part = waiting.pop()
        if isinstance(part, internals.STATEFUL) or is_backend_state(part):
            yield part
        elif id(part) not in met and not isinstance(part, _PLAIN):
            met.add(id(part))
            waiting.extend(_parts(part))


def _parts(value: Any) -> Iterator[Any]:
    """Yield what a value holds."""
    if isinstance(value, types.FunctionType):
        yield from value.__closure__ or ()
        yield from (value.__defaults__, value.__kwdefaults__, value.__dict__)
        yield from (part for _, part in _module_values(value))
    elif isinstance(value, types.CellType):
        yield content_of_cell(value)
    elif isinstance(value, types.MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, weakref.ReferenceType):
        yield value()
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords, value.__dict__)
    elif isinstance(value, (dict, list, tuple, set, frozenset, deque, np.ndarray)):
        yield from _items(value)
    elif isinstance(value, types.BuiltinFunctionType):
        yield value.__self__
    elif package_of(type(value)) not in _LIBRARIES:
        yield from internals.live_attributes(value).values()
    else:
        # A function compiled by a backend has the original one as an attribute.
        yield from (getattr(value, name, None) for name in ("__wrapped__", "python_function"))


def _items(value: Any) -> Iterator[Any]:
    """Yield the items of a container, and its attributes if it has any."""
    if not isinstance(value, np.ndarray):
        yield from value
    elif value.dtype.hasobject:
        yield from value.flat
    if isinstance(value, dict):
        yield from value.values()
    yield from getattr(value, "__dict__", {}).values()


def content_of_cell(cell: types.CellType) -> Any:
    """Return what a cell holds, or `_EMPTY` if its variable was not assigned yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _module_values(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the globals that a function of user code refers to, with their names."""
    names = function.__globals__
    if str(names.get("__name__")).partition(".")[0] in _LIBRARIES:
        return
    for name in _global_names(function.__code__):
        if name in names:
            yield name, names[name]


def global_values(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the globals that a function of user code, or a copy of one, refers to, by name."""
    scope = function.__globals__
    module = scope.module_names if isinstance(scope, _Names) else scope
    if str(module.get("__name__")).partition(".")[0] in _LIBRARIES:
        return
    for name in dict.fromkeys(_global_names(function.__code__)):
        names = scope if name in scope else module
        if name in names:
            yield name, names[name]


def _global_names(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)
