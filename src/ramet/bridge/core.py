"""The core of the copier: what becomes of containers, and of objects with attributes.

It is written twice. Here stands what it does. `_core.c` does the same in less time, and is
used where it could be compiled, unless RAMET_PURE_PYTHON is set. Both are tested alike.
"""

import contextlib
import inspect
import os
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

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
"""What copies an object of some kind, for a copier. A function, not a method bound to one."""

blank = object.__new__
"""Makes an empty object of a class. By a name of its own, which is found faster."""

set_attribute = object.__setattr__
"""Sets an attribute, whatever the class does when one is set. The quickest way to give an
object all of its attributes is to set `__dict__`."""


class Core:
    """Copies lists, dicts, tuples, sets, and objects by their attributes, each once."""

    def __init__(
        self, handlers: dict[type, Handler], atoms: set[type], wrappers: frozenset[int]
    ) -> None:
        """Starts with nothing copied.

        Args:
            handlers: How to copy the objects of a class.
            atoms: Types of objects that a copy has too, as far as they are known by now.
            wrappers: Ids of the code of the closures that Keras puts into every layer.
        """
        self.handlers = handlers
        self.atoms = atoms
        self._wrappers = wrappers
        self.memo: dict[int, Any] = {}
        """Copies by the ids of their sources. What keeps sharing."""
        self.free: dict[int, dict[str, Any]] = {}
        """Module names of code that reaches no layer by them, by the code's id."""
        self.failed: Any = None
        """Under which name of a dict something could not be copied."""

    def copy(self, value: Any) -> Any:
        """Returns the copy of a value; the same one whenever it is asked for."""
        kind = type(value)
        if kind in self.atoms:
            return value
        copied = self.memo.get(id(value), MISSING)
        return copied if copied is not MISSING else self.handlers[kind](self, value)

    def copy_fields(self, fields: dict[Any, Any], after: Any = MISSING) -> None:
        """Puts copies into the place of what a dict holds that nobody else has.

        After one name only, if there is one.
        """
        waiting = after is not MISSING
        for name, item in fields.items():
            if waiting:
                waiting = name != after
            elif type(item) not in self.atoms:
                try:
                    fields[name] = self.copy(item)
                except BaseException:
                    self.failed = name
                    raise

    def copy_list(self, value: list[Any]) -> list[Any]:
        """Copies a list."""
        made: list[Any] = []
        self.memo[id(value)] = made
        for item in value:
            made.append(self.copy(item))  # noqa: PERF401  what it holds may hold it
        return made

    def copy_dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """Copies a dict."""
        made: dict[Any, Any] = {}
        self.memo[id(value)] = made
        for key, item in value.copy().items():
            copied = self.copy(key)
            made[copied] = self.copy(item)
        return made

    def copy_tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        """Copies a tuple, unless all that it holds is kept."""
        items = [self.copy(item) for item in value]
        for old, new in zip(value, items, strict=True):
            if old is not new:
                # A tuple can hold itself only through something that was copied above.
                return self.memo.setdefault(id(value), tuple(items))
        return value

    def copy_set(self, value: set[Any]) -> set[Any]:
        """Copies a set."""
        made: set[Any] = set()
        self.memo[id(value)] = made
        for item in [*value]:
            made.add(self.copy(item))
        return made

    def make_empty(self, value: Any) -> Any:
        """Makes an empty object of the same class, which is the copy."""
        made = self.memo[id(value)] = blank(type(value))
        return made

    def copy_object(self, value: Any) -> Any:
        """Copies an object by its attributes, none of which are in slots."""
        made = self.make_empty(value)
        self._copy_attributes(value, made)
        return made

    def copy_list_object(self, value: Any) -> Any:
        """Copies an instance of a subclass of list, past what the class does to its items."""
        made = list.__new__(type(value))
        self.memo[id(value)] = made
        for item in list.__iter__(value):
            list.append(made, self.copy(item))
        self._copy_attributes(value, made)
        return made

    def copy_dict_object(self, value: Any) -> Any:
        """Copies an instance of a subclass of dict, past what the class does to its items."""
        made = dict.__new__(type(value))
        self.memo[id(value)] = made
        for key, item in [*dict.items(value)]:
            copied = self.copy(key)
            dict.__setitem__(made, copied, self.copy(item))
        self._copy_attributes(value, made)
        return made

    def copy_set_object(self, value: Any) -> Any:
        """Copies an instance of a subclass of set, past what the class does to its items."""
        made = set.__new__(type(value))
        self.memo[id(value)] = made
        for item in [*set.__iter__(value)]:
            set.add(made, self.copy(item))
        self._copy_attributes(value, made)
        return made

    def _copy_attributes(self, value: Any, made: Any) -> None:
        fields = value.__dict__.copy()
        self.copy_fields(fields)
        # Not before: code of the author's that runs meanwhile would change the source's.
        set_attribute(made, "__dict__", fields)

    def copy_function(self, value: types.FunctionType) -> Any:
        """Keeps a function that holds nothing and is known to reach nothing by name."""
        held = value.__closure__ or value.__defaults__ or value.__kwdefaults__ or value.__dict__
        if not held and self.free.get(id(value.__code__)) is value.__globals__:
            return value
        known = self._copy_wrapper(value) if id(value.__code__) in self._wrappers else None
        return self.bind_function(value) if known is None else known

    def _copy_wrapper(self, function: types.FunctionType) -> Any | None:
        """Copies one of the two closures that Keras puts into every layer, if it is as known."""
        layer_cell, method_cell = cast("tuple[types.CellType, ...]", function.__closure__)
        try:
            layer, method = layer_cell.cell_contents, method_cell.cell_contents
        except ValueError:
            return None  # One of them is empty.
        made_layer, held = self.memo.get(id(layer)), function.__dict__
        if (
            made_layer is None
            or type(method) is not types.MethodType
            or method.__self__ is not layer
            or function.__kwdefaults__
            or held.get("__wrapped__") is not method
            or {type(item) for name, item in held.items() if name != "__wrapped__"} - self.atoms
        ):
            return None
        made_cell = self.memo.setdefault(id(layer_cell), types.CellType(made_layer))
        new_method = types.MethodType(method.__func__, made_layer)
        made_method = self.memo.setdefault(id(method), new_method)
        closure = (made_cell, types.CellType(made_method))
        made = self.memo[id(function)] = new_function(function, function.__globals__, closure)
        made.__defaults__ = function.__defaults__
        made.__dict__.update(held | {"__wrapped__": made_method})
        return made

    def bind_function(self, value: types.FunctionType) -> Any:
        """Keeps a function that may reach what is copied. A copier that knows more binds it."""
        return value


def new_function(
    function: types.FunctionType, scope: dict[str, Any], closure: tuple[types.CellType, ...]
) -> types.FunctionType:
    """Makes a function of the same code, without its defaults and attributes."""
    code = function.__code__
    made = types.FunctionType(code, scope, function.__name__, None, closure or None)
    made.__qualname__, made.__module__ = function.__qualname__, function.__module__
    made.__doc__, made.__annotations__ = function.__doc__, function.__annotations__
    return made


def ids_of(stores: dict[Any, Any]) -> dict[Any, set[int]]:
    """Returns the ids of what the stores of a tracker hold: pairs of a test and a list."""
    return {name: {id(item) for item in store} for name, (_, store) in stores.items()}


PythonCore, python_ids_of = Core, ids_of
"""These, by names under which they are found in any case."""

if not TYPE_CHECKING and not os.environ.get("RAMET_PURE_PYTHON"):
    with contextlib.suppress(ImportError):
        from ramet.bridge import _core

        Core, ids_of = _core.Core, _core.ids_of
