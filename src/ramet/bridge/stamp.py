"""Many copies of one model: the first is copied, and the others are stamped from it.

What takes time in a copy is to find out, for each of a hundred thousand small objects,
how it is to be copied. That is written down once, as a pickle of the first copy, in which
layers, calls, symbolic tensors, values and everything that copies share are numbers. To
load it, with other things under these numbers, is the quickest way that Python has to
make the same objects again.
"""

import io
import pickle
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np

from ramet.bridge import internals
from ramet.bridge.copier import Copier
from ramet.bridge.plain import ATOMS, Uncopyable, copy_array
from ramet.bridge.values import ValueCopies, is_value

_BUILTIN = frozenset(
    {type(None), bool, int, float, complex, str, bytes, list, dict, tuple, set, frozenset}
)
"""Types that a pickle knows by heart."""

_REDUCED = frozenset({OrderedDict, defaultdict, deque, slice, partial})
"""Types of which a pickle makes what the copier makes."""


_WEAK = frozenset({weakref.ReferenceType, weakref.ProxyType, weakref.CallableProxyType})

_REFUSALS = (TypeError, ValueError, AttributeError, RecursionError, pickle.PicklingError)
"""What a pickle raises that cannot be made."""


class Unstampable(Exception):  # noqa: N818 not an error: such models are copied one by one
    """A model holds something of which no stamp can be made."""


class _Shared:
    """Wraps something that all copies have in common."""

    def __init__(self, value: Any) -> None:
        """Wraps a value."""
        self.value = value


class Stamp:
    """Makes copies of a model that has just been copied."""

    def __init__(self, model: Any, copier: Copier) -> None:
        """Reads the first copy.

        Args:
            model: The first copy.
            copier: What made it; knows what is the copy's own.

        Raises:
            Unstampable: If copies have to be made one by one.
        """
        if copier.optimizers:
            message = "optimizers know variables by their ids"
            raise Unstampable(message)
        own = copier.own()
        kinds = (keras.Operation, keras.KerasTensor, internals.Node)
        self._shells = [thing for thing in own if isinstance(thing, kinds)]
        self._model = [id(shell) for shell in self._shells].index(id(model))
        # A JAX array is immutable and may be shared, but not as the value of a variable.
        held = [vars(v)[internals.VARIABLE_VALUE] for v in own if isinstance(v, keras.Variable)]
        file = io.BytesIO()
        pickler = _Pickler(file, self._shells, {id(thing) for thing in own + held}, copier)
        try:
            pickler.dump([_state(shell) for shell in self._shells])
        except (*_REFUSALS, Uncopyable) as error:
            raise Unstampable(str(error)) from error
        self._bytes = file.getvalue()
        self._values, self._shared = pickler.values, pickler.shared

    def copy(self) -> Any:
        """Makes one more copy."""
        table: dict[int, Any] = dict(self._shared)
        shells = [object.__new__(type(shell)) for shell in self._shells]
        table.update(enumerate(shells))
        values = ValueCopies()
        for number, value in self._values.items():
            values.put(table, number, value)
        values.finish()
        unpickler = pickle.Unpickler(io.BytesIO(self._bytes))  # noqa: S301 our own
        unpickler.persistent_load = table.__getitem__
        for shell, state in zip(shells, unpickler.load(), strict=True):
            shell.__dict__.update(state)
        for shell in shells:
            internals.settle_losses(shell.__dict__)
            if isinstance(shell, keras.Function):
                internals.key_nodes(shell)
        return shells[self._model]


def _state(shell: Any) -> dict[str, Any]:
    if internals.slots_of(type(shell)):
        message = "attributes in slots"
        raise Unstampable(message)
    return dict(vars(shell))


class _Pickler(pickle.Pickler):
    """Writes down one copy."""

    def __init__(self, file: Any, shells: list[Any], own: set[int], copier: Copier) -> None:
        super().__init__(file, protocol=4)  # 5 would put buffers aside
        self._numbers = {id(shell): number for number, shell in enumerate(shells)}
        self._own = own
        self._copier = copier
        self._reductions: dict[type, Callable[[Any], Any]] = {}
        self.values: dict[int, Any] = {}
        self.shared: dict[int, Any] = {}

    def persistent_id(self, obj: Any) -> int | None:
        kind = type(obj)
        if kind in _BUILTIN:
            return None
        number = self._numbers.get(id(obj))
        if number is not None:
            return number
        if kind is _Shared:
            obj = obj.value
            number = self._numbers.get(id(obj))
        elif id(obj) in self._own:
            return self._number(obj, self.values) if is_value(obj) else None
        if number is None and (kind is _Shared or self._is_shared(obj, kind)):
            number = self._number(obj, self.shared)
        return number

    def _number(self, obj: Any, things: dict[int, Any]) -> int:
        number = self._numbers[id(obj)] = len(self._numbers)
        things[number] = obj
        return number

    def _is_shared(self, obj: Any, kind: type) -> bool:
        """Tells whether all copies have an object in common; a tuple is part of each."""
        if issubclass(kind, tuple) or kind is slice:
            return False
        if kind in _WEAK:  # It may lead to what is the copy's own.
            raise Unstampable(kind.__name__)
        if kind in ATOMS or isinstance(obj, type) or self._copier.copy(obj) is obj:
            return True
        raise Unstampable(kind.__name__)

    def reducer_override(self, obj: Any) -> Any:
        kind = type(obj)
        reduced = self._reductions.get(kind)
        if reduced is None:
            reduced = self._reductions[kind] = self._reduction(obj, kind)
        return reduced(obj)

    def _reduction(self, obj: Any, kind: type) -> Callable[[Any], Any]:
        """Returns the way to write down a kind of object; asked once per kind."""
        if kind in _REDUCED or issubclass(kind, tuple):
            return _reduce_by_itself
        if internals.is_list_wrapper(obj):
            return _reduce_wrapper
        if internals.tensorflow_wrapper(obj) is not None:
            return _reduce_proxy
        for base, reduced in _REDUCTIONS:
            if isinstance(obj, base):
                return reduced
        if not self._copier.is_structural(obj):
            raise Unstampable(kind.__name__)
        return _reduce_slotted if internals.slots_of(kind) else _reduce_object


def _reduce_by_itself(obj: Any) -> Any:
    del obj
    return NotImplemented


def _reduce_object(obj: Any) -> Any:
    return _new_object, (type(obj),), dict(vars(obj)), None, None, _fill_object


def _new_object(kind: type) -> Any:
    return object.__new__(kind)


def _fill_object(made: Any, state: dict[str, Any]) -> None:
    made.__dict__.update(state)


def _reduce_slotted(obj: Any) -> Any:
    state = internals.live_attributes(obj)
    return _new_object, (type(obj),), state, None, None, _fill_slotted


def _fill_slotted(made: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        internals.set_attribute(made, name, value)


def _reduce_function(obj: types.FunctionType) -> Any:
    if type(obj.__globals__) is not dict:
        message = "a function with names of its own"
        raise Unstampable(message)
    facts = (_Shared(obj.__code__), _Shared(obj.__globals__), obj.__name__, None, obj.__closure__)
    state = (obj.__defaults__, obj.__kwdefaults__, vars(obj))
    texts = (obj.__qualname__, obj.__module__, obj.__doc__, _Shared(obj.__annotations__))
    return types.FunctionType, facts, (*state, *texts), None, None, _fill_function


def _fill_function(made: types.FunctionType, state: tuple[Any, ...]) -> None:
    made.__defaults__, made.__kwdefaults__, fields = state[:3]
    made.__qualname__, made.__module__, made.__doc__, made.__annotations__ = state[3:]
    made.__dict__.update(fields)


def _reduce_cell(obj: types.CellType) -> Any:
    return types.CellType, (), (obj.cell_contents,), None, None, _fill_cell


def _fill_cell(made: types.CellType, state: tuple[Any]) -> None:
    (made.cell_contents,) = state


def _reduce_method(obj: types.MethodType) -> Any:
    return types.MethodType, (obj.__func__, obj.__self__)


def _reduce_list(obj: Any) -> Any:
    return list.__new__, (type(obj),), (list(obj), dict(vars(obj))), None, None, _fill_list


def _fill_list(made: list[Any], state: tuple[list[Any], dict[str, Any]]) -> None:
    list.extend(made, state[0])
    made.__dict__.update(state[1])


def _reduce_dict(obj: Any) -> Any:
    new = OrderedDict.__new__ if isinstance(obj, OrderedDict) else dict.__new__
    return new, (type(obj),), (dict(obj), dict(vars(obj))), None, None, _fill_dict


def _fill_dict(made: dict[Any, Any], state: tuple[dict[Any, Any], dict[str, Any]]) -> None:
    dict.update(made, state[0])
    made.__dict__.update(state[1])


def _reduce_set(obj: Any) -> Any:
    return set.__new__, (type(obj),), (set(obj), dict(vars(obj))), None, None, _fill_set


def _fill_set(made: set[Any], state: tuple[set[Any], dict[str, Any]]) -> None:
    set.update(made, state[0])
    made.__dict__.update(state[1])


def _reduce_array(obj: np.ndarray) -> Any:
    if obj.dtype.hasobject:
        message = "an array of objects"
        raise Unstampable(message)
    return copy_array, (_Shared(obj),)


def _reduce_tracker(obj: Any) -> Any:
    state = {name: value for name, value in vars(obj).items() if name != internals.STORED_IDS}
    return _new_object, (type(obj),), state, None, None, _fill_tracker


def _fill_tracker(made: Any, state: dict[str, Any]) -> None:
    fields = made.__dict__
    fields.update(state)
    stores = state[internals.STORES].items()
    fields[internals.STORED_IDS] = {name: set(map(id, store)) for name, (_, store) in stores}


def _reduce_wrapper(obj: Any) -> Any:
    state = {name: value for name, value in vars(obj).items() if name != internals.SENTINEL}
    return type(obj), ([],), state, None, None, _fill_object


def _reduce_proxy(obj: Any) -> Any:
    content: Any = internals.tensorflow_wrapper(obj)
    if not ATOMS.issuperset(map(type, content.values() if isinstance(obj, dict) else content)):
        raise Unstampable(type(obj).__name__)  # To wrap shells would give them trackers.
    return internals.wrap_alike, (_Shared(obj), content)


_REDUCTIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (types.FunctionType, _reduce_function),
    (types.CellType, _reduce_cell),
    (types.MethodType, _reduce_method),
    (np.ndarray, _reduce_array),
    (internals.TRACKED_LIST, _reduce_list),
    (internals.TRACKED_DICTS, _reduce_dict),
    (internals.TRACKED_SET, _reduce_set),
    (internals.Tracker, _reduce_tracker),
)
"""How objects are written down that are neither plain nor made of attributes alone."""
