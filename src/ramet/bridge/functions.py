"""Functions: kept by reference, unless they are bound to what is being copied.

A lambda may reach a layer or a variable through its closure, its defaults, or
a name of the module it was written in. In a copy it has to reach the copy.
"""

import dis
import types
import weakref
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, Protocol

import numpy as np

from ramet.bridge import internals
from ramet.bridge.core import new_function
from ramet.bridge.values import package_of

_LIBRARIES = frozenset(
    {"keras", "numpy", "jax", "jaxlib", "tensorflow", "torch", "builtins", "functools"}
)
"""Packages whose functions do not hold a user's layers in their modules."""

_MOST = 20_000
"""How many objects that a function holds are searched for layers and variables."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type, types.ModuleType)
"""Types whose instances hold nothing."""


_EMPTY = object()
"""What an empty cell holds."""


class _Copies(Protocol):
    """What `copy_function` needs of the copier."""

    memo: dict[int, Any]
    free: dict[int, dict[str, Any]]

    def copy(self, value: Any) -> Any: ...


class _Names(dict[str, Any]):
    """The names of a module with some replaced; others are looked up live."""

    def __init__(self, module_names: dict[str, Any]) -> None:
        super().__init__()
        self._module_names = module_names
        self["__builtins__"] = module_names.get("__builtins__", __builtins__)

    def __missing__(self, name: str) -> Any:
        return self._module_names[name]


def copy_function(function: types.FunctionType, copies: _Copies) -> Any:
    """Returns the function itself, or one that is bound to the copies instead."""
    cells = function.__closure__ or ()
    bound = [_is_bound(cell) for cell in cells]
    if any(bound) or reaches_state(function):
        return _bound_anew(function, cells, bound, copies)
    copies.free[id(function.__code__)] = function.__globals__
    copies.memo[id(function)] = function
    return function


def _bound_anew(
    function: types.FunctionType,
    cells: tuple[types.CellType, ...],
    bound: list[bool],
    copies: _Copies,
) -> Any:
    """Makes a function again, bound to the copies of what it reaches.

    A cell that reaches nothing stays the same. Functions that share one that does share
    the new one too.
    """
    memo, code, scope = copies.memo, function.__code__, function.__globals__
    names: list[tuple[str, Any]] = []
    if copies.free.get(id(code)) is not scope:
        names = [(name, value) for name, value in _module_values(function) if reaches_state(value)]
        if names:
            scope = _Names(scope)
        else:
            copies.free[id(code)] = scope
    closure, empty = _new_closure(cells, bound, memo)
    made = memo[id(function)] = new_function(function, scope, closure)
    for name, value in names:  # One of them may be the function itself.
        scope[name] = copies.copy(value)
    for cell, made_cell in empty:
        made_cell.cell_contents = copies.copy(cell.cell_contents)
    if function.__defaults__:
        made.__defaults__ = copies.copy(function.__defaults__)
    if function.__kwdefaults__:
        made.__kwdefaults__ = copies.copy(function.__kwdefaults__)
    if function.__dict__:
        fields = made.__dict__
        for name, value in function.__dict__.items():
            fields[name] = copies.copy(value)
    return made


def _new_closure(
    cells: tuple[types.CellType, ...], bound: list[bool], memo: dict[int, Any]
) -> tuple[tuple[types.CellType, ...], list[tuple[types.CellType, types.CellType]]]:
    """Returns the cells of a new closure, and which of them are to be filled from which."""
    closure: list[types.CellType] = []
    empty: list[tuple[types.CellType, types.CellType]] = []
    for cell, is_bound in zip(cells, bound, strict=True):
        made = memo.get(id(cell))
        if made is None:
            made = cell
            if is_bound or reaches_state(cell):
                made = types.CellType()
                empty.append((cell, made))
            memo[id(cell)] = made
        closure.append(made)
    return tuple(closure), empty


def _is_bound(cell: types.CellType) -> bool:
    """Tells at a glance whether a cell holds a layer or variable, or a method of one."""
    content = _content(cell)
    if type(content) is types.MethodType:
        content = content.__self__
    return isinstance(content, internals.STATEFUL)


def reaches_state(value: Any) -> bool:
    """Tells whether a function, or what it holds, leads to a layer or variable."""
    return next(reached_state(value), None) is not None


def reached_state(value: Any) -> Iterator[Any]:
    """Yields the layers and variables that a function, or what it holds, leads to.

    Looks at each object once, and gives up after very many: a table of data in
    a module is not where layers are.
    """
    met: set[int] = set()
    waiting = [value]
    while waiting and len(met) < _MOST:
        part = waiting.pop()
        if isinstance(part, internals.STATEFUL) or internals.is_backend_state(part):
            yield part
        elif id(part) not in met and not isinstance(part, _PLAIN):
            met.add(id(part))
            waiting.extend(_parts(part))


def _parts(value: Any) -> Iterator[Any]:
    """Yields what a value holds."""
    if isinstance(value, types.FunctionType):
        yield from value.__closure__ or ()
        yield from (value.__defaults__, value.__kwdefaults__, value.__dict__)
        yield from (part for _, part in _module_values(value))
    elif isinstance(value, types.CellType):
        yield _content(value)
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
        # Functions that a backend compiled tell what they were made from.
        yield from (getattr(value, name, None) for name in ("__wrapped__", "python_function"))


def _items(value: Any) -> Iterator[Any]:
    """Yields what a container holds; also its attributes, if its class lets it have some."""
    if not isinstance(value, np.ndarray):
        yield from value
    elif value.dtype.hasobject:
        yield from value.flat
    if isinstance(value, dict):
        yield from value.values()
    yield from getattr(value, "__dict__", {}).values()


def _content(cell: types.CellType) -> Any:
    """Returns what a cell holds, or `_EMPTY` if its variable was not assigned yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _module_values(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yields what a user's function reaches by name in its module."""
    names = function.__globals__
    if str(names.get("__name__")).partition(".")[0] in _LIBRARIES:
        return
    for name in _global_names(function.__code__):
        if name in names:
            yield name, names[name]


def _global_names(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _global_names(constant)
