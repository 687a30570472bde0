"""What an object is made of, part by part: what a copy of it has, and what a comparison reads.

Each class of objects is read the way the copier copies it: containers by their items, functions by
code and what they close over, objects of Keras by their attributes, and all others by what
`__reduce_ex__` returns. No object is called.
"""

import collections
import copyreg
import enum
import functools
import io
import pickle
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np

from ramet import backends
from ramet import keras_internals as internals
from ramet.backends.tensorflow import is_list_wrapper, is_record, tensorflow_content
from ramet.backends.torch import is_torch_module
from ramet.building.weights.roles import roles_of
from ramet.copying.functions import content_of_cell, global_values
from ramet.copying.keras_layers import LOCKS


class Part(NamedTuple):
    """One part of an object."""

    before: str
    """What its name starts with: `closure 'by' of `."""
    after: str
    """What its name ends with: `.rate`."""
    value: Any
    """The part itself."""


class Parts(NamedTuple):
    """What an object is made of."""

    facts: Any
    """What is no object of its own: the names of attributes, the code of a function."""
    parts: list[Part]
    """The rest."""
    loose: tuple[Any, ...] = ()
    """Items without an order or a key that could be compared by itself."""
    whole: bool = False
    """Whether its text says more than those of its parts."""


Reader = Callable[[Any], Parts | None]
"""Returns what an object is made of; `None` if that cannot be known."""

ATOMS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
"""Values that are compared as they are, and shown in full."""

VALUES = (*ATOMS, enum.Enum, np.generic, np.dtype, range)
"""Values that never change, and are compared at once."""

PYTHONS_OWN = (list, tuple, dict, set, frozenset)

_KEPT_NAMES = frozenset({"_tracker", "_lock"})
"""Attributes that record the others, or that have no state."""


def kind_of(value: Any) -> Any:
    """Return the class of a value; that of Python for what Keras and TensorFlow wrap."""
    kind = type(value)
    if kind in PYTHONS_OWN:
        return kind
    if kind in internals.TRACKED_COLLECTIONS or _is_wrapped(kind):
        return next(each for each in PYTHONS_OWN if isinstance(unwrapped(value), each))
    return kind


def unwrapped(value: Any) -> Any:
    """Return the plain content of a list, dict or tuple that TensorFlow wraps."""
    if is_list_wrapper(type(value)):
        return [*value]
    content = tensorflow_content(value)
    return value if content is None else content


@functools.cache
def _is_wrapped(kind: type) -> bool:
    names = "ListWrapper", "_DictWrapper", "_TupleWrapper"
    return kind.__module__.startswith("tensorflow.") and kind.__name__ in names


def parts_of(value: Any, named: Sequence[tuple[str, Any]] = ()) -> Parts | None:
    """Return what an object is made of; `None` if that cannot be known.

    Args:
        value: The object.
        named: Variables with their names, by which optimizers are said to know them.
    """
    try:
        parts = _reader_of(type(value))(value)
    except Exception:  # noqa: BLE001 code of users may raise anything
        return None
    if named and parts is not None and issubclass(type(value), internals.BaseOptimizer):
        keys: dict[Any, str] = {id(variable): name for name, variable in named}
        for name, variable in named:
            if isinstance(variable, keras.Variable):
                keys[internals.variable_key(value, variable)] = name
        renamed = [part._replace(value=_renamed(part.value, keys)) for part in parts.parts]
        return parts._replace(parts=renamed)
    return parts


def _renamed(table: Any, keys: dict[Any, str]) -> Any:
    """Return a dict or set in which variables are named instead of known by their ids."""
    plain = unwrapped(table) if isinstance(table, (dict, set)) else None
    if plain is None or keys.keys().isdisjoint(plain):
        return table
    if isinstance(plain, dict):
        return {keys.get(key, key): item for key, item in plain.items()}
    return {keys.get(key, key) for key in plain}


@functools.cache
def _reader_of(kind: type) -> Reader:  # noqa: C901, PLR0911, PLR0912 one line for each kind of object
    package = backends.package_of(kind)
    if _is_wrapped(kind) or kind in internals.TRACKED_COLLECTIONS or kind in PYTHONS_OWN:
        return _items
    if issubclass(kind, keras.Operation):
        return _layer
    if issubclass(kind, types.FunctionType):
        return _function
    if issubclass(kind, types.MethodType):
        return lambda value: Parts(
            None, [Part("", "", value.__func__), Part("object of ", "", value.__self__)]
        )
    if issubclass(kind, functools.partial):
        return _partial
    if kind is _CACHED:
        return lambda value: Parts(value.cache_parameters(), [Part("", "", value.__wrapped__)])
    if issubclass(kind, types.BuiltinFunctionType):
        return lambda value: Parts(value.__name__, [Part("object of ", "", value.__self__)])
    if issubclass(kind, types.CodeType):
        return lambda value: Parts(code_facts(value), [])
    if issubclass(kind, types.ModuleType):
        return lambda value: Parts(value.__name__, [])
    if issubclass(kind, LOCKS):
        return lambda _: Parts(None, [])
    if issubclass(kind, _WEAK):
        return _weak
    if package == "keras" or issubclass(kind, internals.KerasSaveable):
        return _keras_object
    if is_torch_module(kind):
        return _module
    if package in backends.PACKAGES:
        return _of_backend
    if issubclass(kind, np.ndarray):
        return lambda value: Parts(value.shape, _numbered(value.reshape(-1).tolist()))
    if issubclass(kind, collections.OrderedDict) or issubclass(kind, PYTHONS_OWN):
        return _items
    if issubclass(kind, (io.StringIO, io.BytesIO)):
        return lambda value: Parts((value.getvalue(), value.tell()), [])
    if kind.__module__ in WHOLE:
        return _reduced
    if hasattr(kind, "__deepcopy__") or _is_plain_class(kind):
        return _attributes
    return _reduced


_CACHED = type(functools.lru_cache(len))
_WEAK = (
    weakref.ReferenceType,
    weakref.ProxyType,
    weakref.CallableProxyType,
    weakref.WeakKeyDictionary,
    weakref.WeakValueDictionary,
)
_OWN_REDUCTION = ("__reduce__", "__reduce_ex__", "__getstate__")


def _is_plain_class(kind: type) -> bool:
    """Whether instances of a class are their attributes, and nothing else."""
    plain = object.__reduce_ex__, object.__reduce__, getattr(object, "__getstate__", None)
    methods = getattr(kind, "__reduce_ex__", None), kind.__reduce__
    state = getattr(kind, "__getstate__", None)
    if getattr(state, "__module__", None) == "dataclasses":  # of one with slots
        state = plain[-1]
    is_default = (*methods, state) == plain
    has_fields = kind.__dictoffset__ != 0 or bool(internals.slots_of(kind))
    return (
        is_default
        and has_fields
        and all(base is object or base.__flags__ & _HEAP for base in kind.__mro__)
    )


_HEAP = 1 << 9
"""Set in the flags of classes that are written in Python."""


# --- containers ----------------------------------------------------------------------


def _items(value: Any) -> Parts:
    plain = unwrapped(value)
    own = [] if kind_of(value) in PYTHONS_OWN else _fields(getattr(value, "__dict__", {}))
    if isinstance(plain, dict):
        return _dict(plain, own)
    if isinstance(plain, (set, frozenset)):
        base: Any = set if isinstance(plain, set) else frozenset
        items = [*base.__iter__(plain)]
        keyed = frozenset(key_of(item) for item in items if is_value(item))
        return Parts(keyed, own, tuple(item for item in items if not is_value(item)))
    names = getattr(type(plain), "_fields", None) if isinstance(plain, tuple) else None
    if names is not None:
        pairs = zip(names, plain, strict=False)
        return Parts(None, [*(Part("", f".{name}", item) for name, item in pairs), *own])
    base = list if isinstance(plain, list) else tuple
    items = [*base.__iter__(plain)]
    return Parts(len(items), [*_numbered(items), *own])


def _dict(table: dict[Any, Any], own: list[Part]) -> Parts:
    order: list[Any] = []
    parts: list[Part] = []
    number = 0
    base: Any = collections.OrderedDict if isinstance(table, collections.OrderedDict) else dict
    for key, item in base.items(table):
        if is_value(key):
            order.append(key_of(key))
            parts.append(Part("", f".{key}" if isinstance(key, str) else f"[{key!r}]", item))
        else:
            number += 1
            order.append(None)
            parts.append(Part(f"key {number} of ", "", key))
            parts.append(Part("", f"[key {number}]", item))
    default = getattr(table, "default_factory", None)
    extra = [Part("default of ", "", default)] if default is not None else []
    return Parts(tuple(order), [*parts, *extra, *own])


def _numbered(items: Iterable[Any]) -> list[Part]:
    return [Part("", f".{number}", item) for number, item in enumerate(items)]


def _fields(fields: Any) -> list[Part]:
    return [
        Part("", f".{name}", fields[name])
        for name in sorted(fields, key=lambda name: (str(name).startswith("_"), str(name)))
        if name not in _KEPT_NAMES and not is_record(name)
    ]


def is_value(value: Any) -> bool:
    """Whether a value never changes and can be compared at once."""
    return isinstance(value, (*VALUES, type))


def key_of(value: Any) -> Any:
    """Return what is equal for values that are the same: `1`, `1.0` and `True` are not."""
    if isinstance(value, (enum.Enum, type)):
        return value
    if isinstance(value, np.generic):
        return type(value), value.tobytes()
    return type(value), repr(value)


# --- functions -----------------------------------------------------------------------


def _function(function: types.FunctionType) -> Parts:
    code = function.__code__
    if is_of_keras(function) and not function.__closure__:
        return Parts(function.__name__, [])  # `keras.ops.tanh` is `keras.activations.tanh`.
    parts: list[Part] = []
    defaults = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    values = [*zip(names, defaults, strict=False), *(function.__kwdefaults__ or {}).items()]
    parts += [Part(f"default of '{name}' of ", "", value) for name, value in values]
    cells = zip(code.co_freevars, function.__closure__ or (), strict=False)
    parts += [Part(f"closure '{name}' of ", "", content_of_cell(cell)) for name, cell in cells]
    parts += [Part(f"global '{name}' of ", "", value) for name, value in global_values(function)]
    parts += _fields(function.__dict__)
    return Parts(code_facts(code), parts)


def is_of_keras(function: types.FunctionType) -> bool:
    """Whether a function is one of Keras's own, and not one that Keras loaded."""
    return function.__code__.co_filename.startswith(_KERAS)


_KERAS = str(Path(keras.__file__).parent)


def code_facts(code: types.CodeType) -> Any:
    """Return what is equal for functions that do the same, wherever they were written."""
    constants = tuple(
        code_facts(item) if isinstance(item, types.CodeType) else _constant(item)
        for item in code.co_consts
    )
    names = code.co_names, code.co_freevars, code.co_cellvars, code.co_varnames
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return code.co_code, code.co_exceptiontable, names, counts, constants


def _constant(item: Any) -> Any:
    if isinstance(item, tuple):
        return tuple(map(_constant, item))
    if isinstance(item, frozenset):
        return frozenset(map(_constant, item))
    return key_of(item)


def _partial(value: Any) -> Parts:
    parts = Part("", "", value.func), Part("", ".args", value.args)
    return Parts(None, [*parts, Part("", ".keywords", value.keywords), *_fields(vars(value))])


def _weak(value: Any) -> Parts:
    if isinstance(value, weakref.ReferenceType):
        return Parts(None, [Part("target of ", "", value())])
    if isinstance(value, (weakref.WeakKeyDictionary, weakref.WeakValueDictionary)):
        return _dict(dict(value.items()), [])
    return Parts(None, [Part("target of ", "", value.__repr__.__self__)])


# --- objects -------------------------------------------------------------------------


def _layer(layer: Any) -> Parts:
    """Read a layer that no other tracks, with its variables and sublayers."""
    parts = _fields(internals.layer_fields(layer))
    if isinstance(layer, keras.Layer):
        roles = roles_of(layer).items()
        parts = [*(Part("", f".{'.'.join(role)}", variable) for role, variable in roles), *parts]
    return Parts(None, parts)


_UNTOLD = frozenset({"_variables", "_trainable_variables", "_metrics"})
"""Attributes of optimizers and metrics that record variables, which others hold."""


def _keras_object(value: Any) -> Parts:
    fields = internals.live_attributes(value)
    if isinstance(value, (keras.Metric, internals.BaseOptimizer)):
        fields = {name: item for name, item in fields.items() if name not in _UNTOLD}
    if isinstance(value, keras.random.SeedGenerator):
        fields = {"state": value.state}  # Its first state and name were made when it was.
    if isinstance(value, internals.RandomInitializer) and fields.get("_init_seed", 0) is None:
        fields.pop("seed", None)  # drawn for this very initializer
    return Parts(None, _fields(fields))


_RECORDS = ("_parameters", "_buffers", "_modules")
_OF_LOOPS = ("training",)


def _module(module: Any) -> Parts:
    """Read a module of PyTorch, with its parameters, buffers and modules as attributes."""
    fields = {n: v for n, v in vars(module).items() if n not in (*_RECORDS, *_OF_LOOPS)}
    for record in _RECORDS:
        fields |= vars(module).get(record) or {}
    return Parts(None, _fields(fields))


def _of_backend(value: Any) -> Parts | None:
    """Read an object of a backend that is neither a tensor nor a module."""
    for name in ("__wrapped__", "python_function"):  # compiled functions
        function = getattr(value, name, None)
        if function is not None:
            return Parts(None, [Part("", "", function)])
    if hasattr(value, "export"):  # a table of TensorFlow's
        keys, items = (np.asarray(each) for each in value.export())
        order = np.argsort(keys, kind="stable")
        return Parts(None, [Part("", ".keys", keys[order]), Part("", ".values", items[order])])
    if hasattr(value, "state") and hasattr(value, "algorithm"):  # a generator of TensorFlow's
        return Parts(str(value.algorithm), [Part("", ".state", value.state)])
    if hasattr(value, "get_state") and hasattr(value, "initial_seed"):  # one of PyTorch's
        return Parts(str(value.device), [Part("", ".state", value.get_state())])
    return _attributes(value) if hasattr(value, "submodules") else _reduced(value)


def _attributes(value: Any) -> Parts | None:
    fields = internals.live_attributes(value)
    if not fields and not hasattr(value, "__dict__") and not internals.slots_of(type(value)):
        return _reduced(value)
    return Parts(None, _fields(fields))


def _reduced(value: Any) -> Parts | None:
    """Read an object by what it returns to be copied from."""
    try:
        registered = copyreg.dispatch_table.get(type(value))
        reduced: Any = registered(value) if registered else value.__reduce_ex__(4)
    except (TypeError, pickle.PickleError):
        return None
    if isinstance(reduced, str):
        return Parts(reduced, [])
    function, args = reduced[:2]
    state, items, pairs = (*reduced[2:5], None, None, None)[:3]
    parts = [Part("constructor of ", "", function)]
    parts += [Part(f"argument {n} of ", "", item) for n, item in enumerate(args)]
    parts += [*_state(state)]
    listed = [*(items or ())]
    if type(value).__module__ in WHOLE:
        return Parts(None, parts, whole=True)
    parts += _numbered(listed)
    table = [*(pairs or ())]
    more = _dict(dict(table), []) if all(is_value(key) for key, _ in table) else None
    if more is None:
        flat = [item for pair in table for item in pair]
        more = Parts(len(flat), _numbered(flat))
    return Parts((len(args), len(listed), more.facts), [*parts, *more.parts])


def _state(state: Any) -> Iterator[Part]:
    both = state if isinstance(state, tuple) and len(state) == len(_HALVES) else (state,)
    if all(each is None or isinstance(each, dict) for each in both):
        for each in both:
            yield from _fields(each or {})
    else:
        yield Part("", ".state", state)


WHOLE = frozenset({"builtins", "datetime", "decimal", "fractions", "uuid", "pathlib", "re"})
"""Modules of Python whose objects are values, told by their texts."""

_HALVES = ("fields", "slots")
"""The state of an object with slots."""
