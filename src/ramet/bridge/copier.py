"""The layer copier: a structural copy that knows the seams of Keras.

Objects are copied attribute by attribute, each once, so that whatever was
shared is shared again. Layers, operations and models are made as empty shells
first and filled when their turn comes: a shell can be called in a graph, and
no chain of layers is too long for Python's stack.
"""

import inspect
import io
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np

from ramet.bridge import functions, internals
from ramet.bridge.remake import remake
from ramet.bridge.values import ValueCopies, copy_table, copy_value, package_of
from ramet.errors import CopyError

_MISSING: Any = object()

_ATOMS: frozenset[type] = frozenset(
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
        keras.dtype_policies.DTypePolicy,
    }
)
"""Types whose instances never change, so that a copy can have the same one."""


class Uncopyable(Exception):  # noqa: N818 not an error yet: the layer may have another way
    """An object that has no structural copy."""

    def __init__(self, value: Any, *, remakable: bool = True) -> None:
        """Remembers the object, and whether making its owner anew is safe."""
        super().__init__(type(value).__name__)
        self.kind = type(value).__qualname__
        self.remakable = remakable


class Copier:
    """Copies Keras objects and what they hold, each object once."""

    def __init__(
        self,
        *,
        on_tensor: Callable[[Any], Any],
        on_function: Callable[[Any, Any], None],
        share: bool = False,
        renew: bool = False,
    ) -> None:
        """Starts with nothing copied.

        Args:
            on_tensor: Gives the copy of a symbolic tensor that has none yet.
            on_function: Gives the shell of a `keras.Function` its graph, before
                it is filled.
            share: Whether the variables of layers are kept instead of copied.
            renew: Whether initializers without a seed draw a new one.
        """
        self.memo: dict[int, Any] = {}
        self.values = ValueCopies()
        self._on_tensor = on_tensor
        self._on_function = on_function
        self._share = share
        self._renew = renew
        self._own_state = 0
        self._skipped: dict[int, frozenset[str]] = {}
        self._kept: list[Any] = []
        self._functions: deque[Any] = deque()
        self._unfilled: deque[Any] = deque()
        self._donors: dict[int, Any] = {}
        self._variables: list[tuple[Any, Any]] = []
        self.optimizers: list[tuple[Any, Any]] = []
        self._handlers: dict[type, Callable[[Any], Any]] = {
            list: self._list,
            dict: self._dict,
            tuple: self._tuple,
            set: self._set,
            frozenset: self._frozenset,
            OrderedDict: self._dict_subclass,
            types.FunctionType: self._function,
            types.MethodType: self._method,
            partial: self._partial,
            slice: self._slice,
            weakref.ReferenceType: self._weak_reference,
        }

    def copy(self, value: Any) -> Any:
        """Returns the copy of a value; the same one whenever it is asked for."""
        kind = type(value)
        if kind in _ATOMS:
            return value
        found = self.memo.get(id(value), _MISSING)
        if found is not _MISSING:
            return found
        handler = self._handlers.get(kind)
        if handler is None:
            handler = self._handlers[kind] = self._handler_for(kind, value)
        return handler(value)

    def skip(self, source: Any, names: frozenset[str]) -> None:
        """Leaves attributes of an object out of its copy."""
        self._skipped[id(source)] = names

    def finish(self) -> None:
        """Fills all shells and makes the copies of values that were put off."""
        while self._functions or self._unfilled:
            if self._functions:
                source = self._functions.popleft()
                self._on_function(source, self.memo[id(source)])
                self._unfilled.append(source)
            else:
                self.fill(self._unfilled.popleft())
        self.values.finish()
        for old, new in self.optimizers:
            self._rekey(old, new)

    def _handler_for(self, kind: type, value: Any) -> Callable[[Any], Any]:
        """Returns the way to copy a kind of object; asked once per kind."""
        for base, handler in self._bases():
            if isinstance(value, base):
                return handler
        package = package_of(kind)
        if package == "keras":
            return self._structural
        if package in ("jax", "jaxlib"):
            return self._foreign_callable if callable(value) else self._same
        if package == "tensorflow":
            return self._tensorflow
        if package == "torch":
            return self._torch
        return self._by_reduction

    def _bases(self) -> tuple[tuple[Any, Callable[[Any], Any]], ...]:
        """Lists classes with the way to copy their instances, special ones first."""
        return (
            ((type, np.dtype, np.generic, types.GetSetDescriptorType), self._same),
            (keras.KerasTensor, self._tensor),
            (keras.Function, self._keras_function),
            (keras.Operation, self._shell),
            (keras.Variable, self._variable),
            (internals.Tracker, self._tracker),
            (internals.BaseOptimizer, self._optimizer),
            (keras.Metric, self._stateful),
            (internals.RandomInitializer, self._initializer),
            (internals.KerasSaveable, self._structural),
            (keras.random.SeedGenerator, self._structural),
            (np.ndarray, self._array),
            (types.BuiltinFunctionType, self._builtin),
            (io.IOBase, self._open_file),
            (internals.TRACKED_COLLECTIONS, self._tracked),
            (tuple, self._named_tuple),
        )

    # --- Things that are the same in the copy ---

    def _same(self, value: Any) -> Any:
        return value

    def _open_file(self, value: Any) -> Any:
        # Making the owner anew could truncate the file under the source.
        raise Uncopyable(value, remakable=False)

    # --- Containers ---

    def _list(self, value: list[Any]) -> list[Any]:
        made: list[Any] = []
        self.memo[id(value)] = made
        made.extend([self.copy(item) for item in value])
        return made

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        self.memo[id(value)] = made
        for key, item in value.items():
            made[self.copy(key)] = self.copy(item)
        return made

    def _dict_subclass(self, value: Any) -> Any:
        made = type(value)()
        self.memo[id(value)] = made
        for key, item in value.items():
            made[self.copy(key)] = self.copy(item)
        return made

    def _tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        made = [self.copy(item) for item in value]
        if all(old is new for old, new in zip(value, made, strict=True)):
            return value
        # A tuple can hold itself only through something that was copied above.
        return self.memo.setdefault(id(value), tuple(made))

    def _named_tuple(self, value: Any) -> Any:
        if not hasattr(type(value), "_make"):
            return self._by_reduction(value)
        return self.memo.setdefault(id(value), value._make(map(self.copy, value)))

    def _set(self, value: set[Any]) -> set[Any]:
        made = self.memo[id(value)] = {self.copy(item) for item in value}
        return made

    def _frozenset(self, value: frozenset[Any]) -> frozenset[Any]:
        made = self.memo[id(value)] = frozenset(self.copy(item) for item in value)
        return made

    def _slice(self, value: slice) -> slice:
        parts = (value.start, value.stop, value.step)
        return slice(*[self.copy(part) for part in parts])

    def _weak_reference(self, value: Any) -> Any:
        target = value()
        return value if target is None else weakref.ref(self.copy(target))

    def _tracked(self, value: Any) -> Any:
        """Copies one of Keras's tracked collections without tracking again."""
        made = type(value)()
        self.memo[id(value)] = made
        if isinstance(value, list):
            list.extend(made, [self.copy(item) for item in value])
        elif isinstance(value, dict):
            for key, item in value.items():
                dict.__setitem__(made, self.copy(key), self.copy(item))
        else:
            set.update(made, [self.copy(item) for item in value])
        for name, item in vars(value).items():
            vars(made)[name] = self.copy(item)
        return made

    def _array(self, value: np.ndarray) -> np.ndarray:
        made = value.copy(order="K")
        self.memo[id(value)] = made
        if made.dtype.hasobject:
            flat = made.reshape(-1)
            flat[:] = [self.copy(item) for item in value.reshape(-1)]
            made = self.memo[id(value)] = flat.reshape(value.shape)
        return made

    # --- Functions ---

    def _function(self, value: Any) -> Any:
        return functions.copy_function(value, self)

    def _method(self, value: types.MethodType) -> types.MethodType:
        owner, function = self.copy(value.__self__), self.copy(value.__func__)
        if owner is value.__self__ and function is value.__func__:
            return value
        return self.memo.setdefault(id(value), types.MethodType(function, owner))

    def _builtin(self, value: Any) -> Any:
        owner = getattr(value, "__self__", None)
        if owner is None or isinstance(owner, (types.ModuleType, type)):
            return value
        return getattr(self.copy(owner), value.__name__)

    def _partial(self, value: Any) -> Any:
        if not functions.reaches_state(value):
            return value
        made = self.memo[id(value)] = type(value)(
            self.copy(value.func),
            *[self.copy(item) for item in value.args],
            **{name: self.copy(item) for name, item in value.keywords.items()},
        )
        return made

    def _foreign_callable(self, value: Any) -> Any:
        """Keeps a backend's compiled function unless it is bound to the source."""
        inner = getattr(value, "__wrapped__", None)
        if inner is not None and functions.reaches_state(inner):
            raise Uncopyable(value, remakable=False)
        return value

    # --- Keras ---

    def _tensor(self, value: Any) -> Any:
        return self._on_tensor(value)

    def _shell(self, value: Any) -> Any:
        made = self._empty_operation(value)
        self._unfilled.append(value)
        return made

    def _keras_function(self, value: Any) -> Any:
        made = self._empty_operation(value)
        self._functions.append(value)
        return made

    def _empty_operation(self, value: Any) -> Any:
        made = object.__new__(type(value))
        self.memo[id(value)] = made
        fields = vars(made)
        fields["name"] = value.name
        for name in internals.NODE_LISTS:
            fields[name] = internals.empty_like(vars(value)[name])
        return made

    def fill(self, source: Any) -> None:
        """Gives the shell of a layer, operation or model its attributes."""
        made = self.memo[id(source)]
        fields = vars(made)
        skipped = self._skipped.get(id(source), frozenset())
        if isinstance(source, keras.Function):
            skipped |= internals.GRAPH_FIELDS
        if isinstance(source, internals.Trainer):
            skipped |= internals.COMPILED_FIELDS
        for name, value in internals.live_attributes(source).items():
            if name in internals.NODE_LISTS:
                self._share_tracker(value, fields[name])
            elif name == internals.LOSS_IDS:
                fields[name] = {id(loss) for loss in fields[internals.LOSSES]}
            elif name not in skipped:
                try:
                    internals.set_attribute(made, name, self.copy(value))
                except Uncopyable as problem:
                    remade = self._remade_attribute(source, name, problem)
                    internals.set_attribute(made, name, remade)
            elif name in internals.COMPILED_FIELDS:
                fields[name] = None

    def _share_tracker(self, old: Any, new: Any) -> None:
        if isinstance(old, internals.TRACKED_COLLECTIONS):
            new.tracker = self.copy(old.tracker)

    def _remade_attribute(self, source: Any, name: str, problem: Uncopyable) -> Any:
        """Takes an attribute that cannot be copied from the layer made anew.

        Only an object that is the attribute itself: what sits deeper, in a list
        or another object, may have state around it that would be lost.
        """
        value = internals.live_attributes(source)[name]
        direct = type(value).__qualname__ == problem.kind
        if direct and problem.remakable and isinstance(source, keras.Layer):
            if id(source) not in self._donors:
                # From a side stream: a copy does not change what is drawn next.
                with internals.untouched_randomness():
                    self._donors[id(source)] = remake(source)
            donor = self._donors[id(source)]
            found = internals.live_attributes(donor).get(name) if donor else None
            if type(found) is type(value):
                return found
        noun = "model" if isinstance(source, keras.Model) else "layer"
        message = (
            f"{noun} '{source.name}' ({type(source).__name__}) cannot be copied: its "
            f"attribute '{name}' holds a {problem.kind}, which belongs to this one "
            "object alone; set the attribute to None before cloning, or create it "
            "in __init__ and write a get_config() from which the layer can be made "
            "again"
        )
        raise CopyError(message) from problem

    def _structural(self, value: Any) -> Any:
        made = object.__new__(type(value))
        self.memo[id(value)] = made
        for name, item in internals.live_attributes(value).items():
            internals.set_attribute(made, name, self.copy(item))
        return made

    def _stateful(self, value: Any) -> Any:
        """Copies an object whose variables are its own, also where weights are shared."""
        self._own_state += 1
        try:
            return self._structural(value)
        finally:
            self._own_state -= 1

    def _initializer(self, value: Any) -> Any:
        made = self._structural(value)
        if self._renew:
            internals.reset_initializer(made)
        return made

    def _optimizer(self, value: Any) -> Any:
        made = self._stateful(value)
        self.optimizers.append((value, made))
        return made

    def _rekey(self, old: Any, new: Any) -> None:
        """Finds an optimizer's slots under the keys of the new variables."""
        keys = {
            internals.variable_key(old, variable): internals.variable_key(new, copied)
            for variable, copied in self._variables
        }
        for name in internals.ID_KEYED_FIELDS & vars(new).keys():
            kept = vars(new)[name]
            if isinstance(kept, dict):
                items = {keys.get(key, key): item for key, item in kept.items()}
            else:
                items = {keys.get(key, key) for key in kept or ()}
            if kept is not None:
                kept.clear()
                kept.update(items)

    def _tracker(self, value: Any) -> Any:
        made = self._structural(value)
        vars(made)[internals.STORED_IDS] = {
            name: {id(item) for item in store}
            for name, (_, store) in made.config.items()
        }
        return made

    def _variable(self, value: Any) -> Any:
        if self._share and not self._own_state:
            return self.keep_variable(value)
        made = object.__new__(type(value))
        self.memo[id(value)] = made
        self._variables.append((value, made))
        fields = vars(made)
        for name, item in vars(value).items():
            if name != internals.VARIABLE_VALUE:
                fields[name] = self.copy(item)
        raw = vars(value)[internals.VARIABLE_VALUE]
        if raw is not None and id(raw) in self.memo:
            fields[internals.VARIABLE_VALUE] = self.memo[id(raw)]
        else:
            self.values.put(fields, internals.VARIABLE_VALUE, raw)
            if fields[internals.VARIABLE_VALUE] is not raw:
                self.memo[id(raw)] = fields[internals.VARIABLE_VALUE]
        return made

    def keep_variable(self, value: Any) -> Any:
        """Makes a variable and its value their own copies, so that they are shared."""
        raw = vars(value)[internals.VARIABLE_VALUE]
        self.memo[id(value)], self.memo[id(raw)] = value, raw
        return value

    # --- Other packages ---

    def _tensorflow(self, value: Any) -> Any:
        wrapper = internals.tensorflow_wrapper(value)
        if wrapper is not None:
            self._kept.append(wrapper)
            made = type(value)(self.copy(wrapper))
            return self.memo.setdefault(id(value), made)
        rebind = getattr(value, "_clone", None)
        if rebind is not None and hasattr(value, "python_function"):
            function = value.python_function
            if not functions.reaches_state(function):
                return value
            return self.memo.setdefault(id(value), rebind(self.copy(function)))
        if self._share and not self._own_state:
            return value
        made = copy_value(value)
        if made is value:
            made = copy_table(value)
        self._kept.append(value)
        return self.memo.setdefault(id(value), made)

    def _torch(self, value: Any) -> Any:
        if internals.is_torch_module(value):
            return self._structural(value)
        if not internals.is_torch_tensor(value):
            return self._by_reduction(value)
        if self._share and not self._own_state and internals.is_torch_parameter(value):
            return value
        return self.memo.setdefault(id(value), copy_value(value))

    def _by_reduction(self, value: Any) -> Any:
        """Copies any other object the way `copy.deepcopy` would, with this memo."""
        if hasattr(type(value), "__deepcopy__"):
            return self.memo.setdefault(id(value), value.__deepcopy__(self.memo))
        try:
            reduced = value.__reduce_ex__(4)
        except Exception as error:
            raise Uncopyable(value) from error
        if isinstance(reduced, str):
            return value
        function, args, state, items, pairs = (*reduced, None, None, None)[:5]
        self._kept.append(reduced)
        made = self.memo[id(value)] = function(*[self.copy(item) for item in args])
        if state is not None:
            internals.set_state(made, self.copy(state))
        for item in items or ():
            made.append(self.copy(item))
        for key, item in pairs or ():
            made[self.copy(key)] = self.copy(item)
        return made
