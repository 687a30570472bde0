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

from ramet.bridge import internals
from ramet.bridge.values import package_of

_LIBRARIES = frozenset(
    {"keras", "numpy", "jax", "jaxlib", "tensorflow", "torch", "builtins", "functools"}
)
"""Packages whose functions do not hold a user's layers in their modules."""

_MOST = 20_000
"""How many objects that a function holds are searched for layers and variables."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type, types.ModuleType)
"""Types whose instances hold nothing."""


class _Copies(Protocol):
    """What `copy_function` needs of the copier."""

    memo: dict[int, Any]
    free: dict[int, dict[str, Any]]

    def copy(self, value: Any) -> Any: ...


class _Names(dict[str, Any]):
    """The names of a module with some replaced; others are looked up live."""

    def __init__(self, module_names: dict[str, Any], replaced: dict[str, Any]) -> None:
        super().__init__(replaced)
        self._module_names = module_names
        self["__builtins__"] = module_names.get("__builtins__", __builtins__)

    def __missing__(self, name: str) -> Any:
        return self._module_names[name]


def copy_function(function: types.FunctionType, copies: _Copies) -> Any:
    """Returns the function itself, or one that is bound to the copies instead."""
    cells, code = function.__closure__ or (), function.__code__
    holds = cells or function.__defaults__ or function.__kwdefaults__ or function.__dict__
    if not holds and copies.free.get(id(code)) is function.__globals__:
        return function
    if not _is_bound(cells) and not reaches_state(function):
        copies.memo[id(function)] = function
        copies.free[id(code)] = function.__globals__
        return function
    closure = tuple([_new_cell(cell, copies) for cell in cells])
    names = {
        name: copies.copy(value) for name, value in _module_values(function) if reaches_state(value)
    }
    scope = _Names(function.__globals__, names) if names else function.__globals__
    made = types.FunctionType(code, scope, function.__name__, None, closure or None)
    copies.memo[id(function)] = made
    for cell, new_cell in zip(cells, closure, strict=True):
        if new_cell is not cell and not list(_content(new_cell)):
            new_cell.cell_contents = copies.copy(cell.cell_contents)
    made.__defaults__ = copies.copy(function.__defaults__)
    made.__kwdefaults__ = copies.copy(function.__kwdefaults__)
    for name in ("__qualname__", "__module__", "__doc__", "__annotations__"):
        setattr(made, name, getattr(function, name))
    made.__dict__.update({name: copies.copy(value) for name, value in function.__dict__.items()})
    return made


def _is_bound(cells: tuple[types.CellType, ...]) -> bool:
    """Tells at a glance whether a closure holds a layer or variable itself."""
    return any(isinstance(content, internals.STATEFUL) for c in cells for content in _content(c))


def _new_cell(cell: types.CellType, copies: _Copies) -> types.CellType:
    """Returns an empty cell in place of one that reaches state, else the same.

    Functions that share a cell share the new one too.
    """
    made = copies.memo.get(id(cell))
    if made is None:
        made = copies.memo[id(cell)] = types.CellType() if reaches_state(cell) else cell
    return made


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
        yield from _content(value)
    elif isinstance(value, types.MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, weakref.ReferenceType):
        yield value()
    elif isinstance(value, partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        yield from value
    elif package_of(type(value)) not in _LIBRARIES:
        yield from internals.live_attributes(value).values()
    else:
        # Functions that a backend compiled tell what they were made from.
        yield from (getattr(value, name, None) for name in ("__wrapped__", "python_function"))


def _content(cell: types.CellType) -> Iterator[Any]:
    try:
        yield cell.cell_contents
    except ValueError:
        return  # The cell is empty: its variable has not been assigned yet.


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
