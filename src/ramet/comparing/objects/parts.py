"""What an object is made of, part by part: what a copy of it has, and what a comparison reads.

Each class of objects is read the way the copier copies it: containers by their items, functions by
code and what they close over, objects of Keras by their attributes, and all others by what
`__reduce_ex__` returns. No object is called.
"""

import collections
import copyreg
import functools
import io
import pickle
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from ramet import backends
from ramet import keras_internals as internals
from ramet.backends.jax import jax_options
from ramet.backends.tensorflow import is_record, tensorflow_options
from ramet.backends.torch import hooks_of, is_torch_module
from ramet.building.weights.roles import own_roles, roles_of
from ramet.building.weights.slots import slots_of
from ramet.comparing.alignment.facts import constant
from ramet.comparing.objects.code import code_facts, is_code_of_keras
from ramet.comparing.objects.values import (
    PYTHONS_OWN,
    WHOLE,
    is_value,
    is_wrapped,
    key_of,
    kind_of,
    unwrapped,
)
from ramet.copying.functions import content_of_cell, global_values
from ramet.copying.keras_layers import LOCKS
from ramet.graph import Graph, Ref
from ramet.graph.tree import map_tree
from ramet.tracing.trace import has_graph, trace


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

Named = tuple[str | None, Any]
"""A variable with its name."""

_KEPT_NAMES = frozenset({"_tracker", "_lock"})
"""Attributes that record the others, or that have no state."""


def parts_of(value: Any, named: Sequence[Named] = ()) -> Parts | None:
    """Return what an object is made of; `None` if that cannot be known.

    Args:
        value: The object.
        named: Variables with their names, by which optimizers are said to know them; `None`
            for one that the other model does not have.
    """
    try:
        parts = _reader_of(type(value))(value)
    except Exception:  # noqa: BLE001 code of users may raise anything
        return None
    if named and parts is not None and issubclass(type(value), internals.BaseOptimizer):
        return parts._replace(parts=_of_optimizer(value, parts.parts, named))
    return parts


def _of_optimizer(optimizer: Any, parts: list[Part], named: Sequence[Named]) -> list[Part]:
    """Return the parts of an optimizer that knows variables by name and not by id or number.

    Its slots belong to variables, and are compared as such.
    """
    keys: dict[Any, str | None] = {id(variable): name for name, variable in named}
    held = {name: vars(optimizer)[name] for name in slots_of(optimizer)}
    slots = {
        id(each) for each in held.values() if isinstance(each, list) and _are_known(each, keys)
    }
    for name, variable in named:
        if isinstance(variable, keras.Variable):
            keys[internals.variable_key(optimizer, variable)] = name
    rest = [part for part in parts if id(part.value) not in slots]
    return [part._replace(value=_renamed(part.value, keys)) for part in rest]


def _are_known(slots: list[Any], keys: dict[Any, str | None]) -> bool:
    return all(slot is None or id(slot) in keys for slot in slots)


def _renamed(table: Any, keys: dict[Any, str | None]) -> Any:
    """Return a dict or set in which variables are named instead of known by their ids.

    Those that the other model does not have are left out.
    """
    plain = unwrapped(table) if isinstance(table, (dict, set)) else None
    if plain is None or keys.keys().isdisjoint(plain):
        return table
    kept = [key for key in plain if keys.get(key, key) is not None]
    if isinstance(plain, dict):
        return {keys.get(key, key): plain[key] for key in kept}
    return {keys.get(key, key) for key in kept}


@functools.cache
def _reader_of(kind: type) -> Reader:  # noqa: C901, PLR0911, PLR0912 one line for each kind of object
    package = backends.package_of(kind)
    if is_wrapped(kind) or kind in internals.TRACKED_COLLECTIONS or kind in PYTHONS_OWN:
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
        return lambda value: Parts((value.__name__, id(value)), [])
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


# --- functions -----------------------------------------------------------------------


def _function(function: types.FunctionType) -> Parts:
    code = function.__code__
    if is_code_of_keras(function) and not function.__closure__:
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
    if not isinstance(layer, keras.Layer):
        return Parts(None, parts)
    graph = trace(layer) if has_graph(layer) else None
    if graph is None and not isinstance(layer, keras.Sequential):
        roles = {".".join(role): variable for role, variable in roles_of(layer).items()}
        return Parts(None, [*_named(roles), *parts])
    parts = [part for part in parts if part.after != ".output_names"]  # those of its last calls
    inside = layer.layers if graph is None else [each.origin for each in graph.layers.values()]
    held = Part("", ".layers", inside)
    return Parts(
        None if graph is None else _wiring(graph), [*_named(own_roles(layer)), held, *parts]
    )


def _named(variables: dict[str, Any]) -> list[Part]:
    return [Part("", f".{role}", variable) for role, variable in variables.items()]


def _wiring(graph: Graph) -> Any:
    """Return what the calls of a graph are called on, without names."""
    layers = {name: number for number, name in enumerate(graph.layers)}
    places = {name: number for number, name in enumerate(graph.calls)}

    def shown(leaf: Any) -> Any:
        return (places[leaf.call], leaf.index) if isinstance(leaf, Ref) else constant(leaf)

    calls = [*graph.calls.values()]
    called = [-1 if call.layer is None else layers[call.layer] for call in calls]
    trees = [(call.args, dict(call.written)) for call in calls]
    return called, map_tree(shown, (trees, graph.inputs, graph.outputs))


_UNTOLD = frozenset(
    {"_variables", "_trainable_variables", "_trainable_variables_indices", "_metrics"}
)
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
    fields |= hooks_of(module)
    for record in _RECORDS:
        fields |= vars(module).get(record) or {}
    return Parts(None, _fields(fields))


def _of_backend(value: Any) -> Parts | None:
    """Read an object of a backend that is neither a tensor nor a module."""
    for name in ("__wrapped__", "python_function"):  # compiled functions
        function = getattr(value, name, None)
        if function is not None:
            options = [Part("", f".{name}", option) for name, option in _options(value).items()]
            return Parts(None, [Part("", "", function), *options])
    if hasattr(value, "export"):  # a table of TensorFlow's
        keys, items = (np.asarray(each) for each in value.export())
        order = np.argsort(keys, kind="stable")
        default = getattr(value, "default_value", None)
        fields = {"keys": keys[order], "values": items[order], "default_value": default}
        return Parts(None, [Part("", f".{name}", field) for name, field in fields.items()])
    if hasattr(value, "state") and hasattr(value, "algorithm"):  # a generator of TensorFlow's
        return Parts(str(value.algorithm), [Part("", ".state", value.state)])
    if hasattr(value, "get_state") and hasattr(value, "initial_seed"):  # one of PyTorch's
        return Parts(str(value.device), [Part("", ".state", value.get_state())])
    return _attributes(value) if hasattr(value, "submodules") else _reduced(value)


def _options(compiled: Any) -> dict[str, Any]:
    """Return how a function was compiled."""
    return jax_options(compiled) or tensorflow_options(compiled)


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


_HALVES = ("fields", "slots")
"""The state of an object with slots."""
