"""The core of the copier: it copies containers, and objects by their attributes.

It is written twice. This is the reference; `_core.c` does the same faster, and is used if it was
compiled, unless RAMET_PURE_PYTHON is set. The same tests run on both.
"""

import inspect
import os
import types
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ramet.copying.deeper import SHALLOW, copy_deeper

MISSING: Any = object()

ATOMS: frozenset[type] = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        type,
        range,
        type(Ellipsis),
        type(NotImplemented),
        types.ModuleType,
        types.CodeType,
        property,
        inspect.Signature,
    }
)
"""Types whose instances never change, so that a copy can have the same one."""

Handler = Callable[[Any, Any], Any]
"""A function `(copier, value) -> copy`, not a bound method: one table serves all copiers."""

blank = object.__new__
"""Creates an empty object of a class. A global name is looked up faster than an attribute."""

set_attribute = object.__setattr__
"""Sets an attribute, bypassing `__setattr__` of the class.

The fastest way to set all attributes of an object is to set `__dict__`.
"""


class Core:
    """Copies lists, dicts, tuples, sets, and objects by their attributes, each once."""

    def __init__(
        self, handlers: dict[type, Handler], atoms: set[type], wrappers: frozenset[int]
    ) -> None:
        """Start with an empty memo.

        Args:
            handlers: The handlers by class.
            atoms: Types whose instances are kept, as far as known; handlers add to them.
            wrappers: Ids of the code objects of the closures that Keras puts into every layer.
        """
        self.handlers = handlers
        self.atoms = atoms
        self._wrappers = wrappers
        self.memo: dict[int, Any] = {}
        """Copies by the ids of their sources, which preserves sharing."""
        self.free: dict[int, dict[str, Any]] = {}
        """The globals of functions that reach no layer through them, by the id of the code."""
        self.failed: Any = None
        """The key of the item that could not be copied, in `copy_fields`."""
        self.depth = 0
        """How many objects are being copied, each inside another."""
        self.deepest = SHALLOW
        """How many may be, until `copy_deeper` is asked."""
        self.floor = 0
        """The address on the stack below which it is asked too; only the core in C looks."""

    def copy(self, value: Any) -> Any:
        """Return the copy of a value: the same copy every time."""
        kind = type(value)
        if kind in self.atoms:
            return value
        copied = self.memo.get(id(value), MISSING)
        if copied is not MISSING:
            return copied
        depth = self.depth
        if depth >= self.deepest:
            return copy_deeper(self, value)
        self.depth = depth + 1
        try:
            return self.handlers[kind](self, value)
        finally:
            self.depth = depth

    def copy_fields(self, fields: dict[Any, Any], after: Any = MISSING) -> None:
        """Replace the values of a dict, which is not shared, by their copies.

        With `after`, only those that come after that key.
        """
        waiting = after is not MISSING
        for name, item in fields.items():
            if waiting:
                waiting = name is not after and not name == after  # noqa: SIM201 as the one in C
                continue
            try:
                if type(item) not in self.atoms:
                    fields[name] = self.copy(item)
            except BaseException:
                self.failed = name
                raise

    def copy_list(self, value: list[Any]) -> list[Any]:
        """Copy a list."""
        twin: list[Any] = []
        self.memo[id(value)] = twin
        for item in value:
            twin.append(self.copy(item))  # noqa: PERF401 an item may refer to the list
        return twin

    def copy_dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """Copy a dict."""
        twin: dict[Any, Any] = {}
        self.memo[id(value)] = twin
        for key, item in value.copy().items():
            copied = self.copy(key)
            twin[copied] = self.copy(item)
        return twin

    def copy_tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        """Copy a tuple, unless all its items are kept."""
        items = [self.copy(item) for item in value]
        for old, new in zip(value, items, strict=True):
            if old is not new:
                # A tuple can contain itself only through an item that was copied above.
                return self.memo.setdefault(id(value), tuple(items))
        return value

    def copy_set(self, value: set[Any]) -> set[Any]:
        """Copy a set."""
        twin: set[Any] = set()
        self.memo[id(value)] = twin
        for item in [*value]:
            twin.add(self.copy(item))
        return twin

    def make_empty(self, value: Any) -> Any:
        """Create an empty object of the same class as the copy, and add it to the memo."""
        twin = self.memo[id(value)] = blank(type(value))
        return twin

    def copy_object(self, value: Any) -> Any:
        """Copy an object without slots by its attributes."""
        twin = self.make_empty(value)
        self._copy_attributes(value, twin)
        return twin

    def copy_list_object(self, value: Any) -> Any:
        """Copy an instance of a subclass of list, bypassing methods of the class."""
        twin = list.__new__(type(value))
        self.memo[id(value)] = twin
        for item in list.__iter__(value):
            list.append(twin, self.copy(item))
        self._copy_attributes(value, twin)
        return twin

    def copy_dict_object(self, value: Any) -> Any:
        """Copy an instance of a subclass of dict, bypassing methods of the class."""
        twin = dict.__new__(type(value))
        self.memo[id(value)] = twin
        for key, item in [*dict.items(value)]:
            copied = self.copy(key)
            dict.__setitem__(twin, copied, self.copy(item))
        self._copy_attributes(value, twin)
        return twin

    def copy_set_object(self, value: Any) -> Any:
        """Copy an instance of a subclass of set, bypassing methods of the class."""
        twin = set.__new__(type(value))
        self.memo[id(value)] = twin
        for item in [*set.__iter__(value)]:
            set.add(twin, self.copy(item))
        self._copy_attributes(value, twin)
        return twin

    def _copy_attributes(self, value: Any, twin: Any) -> None:
        fields = value.__dict__.copy()
        self.copy_fields(fields)
        # Not before: user code that runs meanwhile would change the source's.
        set_attribute(twin, "__dict__", fields)

    def copy_function(self, value: types.FunctionType) -> Any:
        """Keep a function that holds nothing and is known to reach no layer; bind any other."""
        held = value.__closure__ or value.__defaults__ or value.__kwdefaults__ or value.__dict__
        if not held and self.free.get(id(value.__code__)) is value.__globals__:
            return value
        known = self._copy_wrapper(value) if id(value.__code__) in self._wrappers else None
        return self.bind_function(value) if known is None else known

    def _copy_wrapper(self, function: types.FunctionType) -> Any | None:
        """Copy one of the two closures that Keras puts into every layer, if it is as expected."""
        layer_cell, method_cell = cast("tuple[types.CellType, ...]", function.__closure__)
        try:
            layer, method = layer_cell.cell_contents, method_cell.cell_contents
        except ValueError:
            return None  # One of the cells is empty.
        new_layer, held = self.memo.get(id(layer)), function.__dict__
        if (
            new_layer is None
            or type(method) is not types.MethodType
            or method.__self__ is not layer
            or function.__kwdefaults__
            or held.get("__wrapped__") is not method
            or {type(item) for name, item in held.items() if name != "__wrapped__"} - self.atoms
        ):
            return None
        new_cell = self.memo.setdefault(id(layer_cell), types.CellType(new_layer))
        bound = types.MethodType(method.__func__, new_layer)
        new_method = self.memo.setdefault(id(method), bound)
        closure = (new_cell, types.CellType(new_method))
        twin = self.memo[id(function)] = new_function(function, function.__globals__, closure)
        twin.__defaults__ = function.__defaults__
        twin.__dict__.update(held | {"__wrapped__": new_method})
        return twin

    def bind_function(self, value: types.FunctionType) -> Any:
        """Keep a function that may reach a layer; `Copier` overrides this."""
        return value


def new_function(
    function: types.FunctionType, scope: dict[str, Any], closure: tuple[types.CellType, ...]
) -> types.FunctionType:
    """Create a function of the same code, without its defaults and attributes."""
    code = function.__code__
    twin = types.FunctionType(code, scope, function.__name__, None, closure or None)
    twin.__qualname__, twin.__module__ = function.__qualname__, function.__module__
    twin.__doc__, twin.__annotations__ = function.__doc__, function.__annotations__
    return twin


def ids_of(stores: dict[Any, Any]) -> dict[Any, set[int]]:
    """Return the ids of the objects in the stores of a tracker: pairs of a test and a list."""
    return {name: {id(item) for item in store} for name, (_, store) in stores.items()}


PythonCore, python_ids_of = Core, ids_of
"""The Python versions, even if those in C are used."""

why_python = ""
"""Why the core in Python is used; empty if the one in C is."""

if os.environ.get("RAMET_PURE_PYTHON"):
    why_python = "RAMET_PURE_PYTHON is set"
elif not TYPE_CHECKING:
    try:
        _core = import_module("ramet.copying._core")
        Core, ids_of = _core.Core, _core.ids_of
    except ModuleNotFoundError:
        why_python = "there was no C compiler when ramet was installed"
    except ImportError as error:
        why_python = str(error)
