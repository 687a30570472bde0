"""Copies of what layers hold of their backend: values, modules, wrappers, functions."""

from collections.abc import Callable
from typing import Any

from ramet.bridge import functions, internals
from ramet.bridge.core import Handler
from ramet.bridge.plain import Uncopyable
from ramet.bridge.resources import copy_resource
from ramet.bridge.tracked import TrackedCopier
from ramet.bridge.values import copy_value, is_array, is_reference, package_of


class ForeignCopier(TrackedCopier):
    """Copies objects of JAX, TensorFlow and PyTorch."""

    def __init__(self, *, share: bool) -> None:
        """Starts with nothing copied.

        Args:
            share: Whether the variables of layers are kept instead of copied.
        """
        super().__init__()
        self._share = share
        self.own_state = 0
        """Inside how many objects a copy is that have variables of their own."""
        self.met_own_state = False
        """Whether there has been such an object."""
        self.kept_kinds: set[type] = set()

    def keeps_state(self) -> bool:
        """Tells whether variables are kept, where the copy is just now."""
        return self._share and not self.own_state

    def keep_kind(self, kind: type) -> None:
        """Keeps all variables of a class, as long as none has to be copied."""
        if not self.met_own_state:
            self.kept_kinds.add(kind)
            self.atoms.add(kind)

    @classmethod
    def handler_for(cls, kind: type) -> Handler:
        """Returns the way to copy a kind of object; asked once per kind."""
        package = package_of(kind)
        if package == "tensorflow":  # before all else: some of its wrappers are tuples
            return cls._handler_for_tensorflow(kind)
        handler = super().handler_for(kind)
        if handler is not cls._by_reduction:
            return handler
        if internals.is_torch_tensor_class(kind):
            return cls._torch
        return cls._handler_by_package(kind, package)

    @classmethod
    def _handler_by_package(cls, kind: type, package: str) -> Handler:
        if package == "keras":
            return cls.by_attributes
        if package in ("jax", "jaxlib"):
            if is_array(kind) or is_reference(kind):
                return cls._jax_value
            return cls._foreign_callable if issubclass(kind, Callable) else cls._same
        if package == "torch":
            return cls.by_attributes if internals.is_torch_module(kind) else cls._torch
        return cls._by_reduction

    @classmethod
    def _handler_for_tensorflow(cls, kind: type) -> Handler:
        if internals.is_tensorflow_structure(kind):
            return cls.by_attributes
        return cls._list_wrapper if internals.is_list_wrapper(kind) else cls._tensorflow

    def _list_wrapper(self, value: Any) -> Any:
        """Copies a list that TensorFlow wrapped.

        Not by its constructor, which tracks what it is given: shells have no tracker yet.
        """
        made = self.memo[id(value)] = internals.empty_like(value)
        for name, item in value.__dict__.items():
            if name != internals.SENTINEL:
                made.__dict__[name] = self.copy(item)
        return made

    def _tensorflow(self, value: Any) -> Any:
        wrapper = internals.tensorflow_wrapper(value)
        if wrapper is not None:
            self._kept.append(wrapper)
            made = internals.wrap_alike(value, self.copy(wrapper))
            return self.memo.setdefault(id(value), made)
        if internals.is_bound_tensorflow(value):
            raise Uncopyable(value)
        rebind = getattr(value, "_clone", None)
        if rebind is not None and hasattr(value, "python_function"):
            function = value.python_function
            if not functions.reaches_state(function):
                return value
            return self.memo.setdefault(id(value), rebind(self.copy(function)))
        if self.keeps_state():
            return value
        made = copy_value(value)
        if made is value:
            made = copy_resource(value)
        self._kept.append(value)
        return self.memo.setdefault(id(value), made)

    def _jax_value(self, value: Any) -> Any:
        """Copies an array. It may be a variable's, and training the source would delete it."""
        self._kept.append(value)
        return self.memo.setdefault(id(value), copy_value(value))

    def _torch(self, value: Any) -> Any:
        if not internals.is_torch_tensor(value):
            return self._by_reduction(value)
        if self.keeps_state() and internals.is_torch_parameter(value):
            if internals.is_parameter_class(type(value)):
                self.keep_kind(type(value))
            return value
        if package_of(type(value)) != "torch":
            return self._by_reduction(value)
        return self.memo.setdefault(id(value), copy_value(value))

    def _foreign_callable(self, value: Any) -> Any:
        """Keeps a backend's compiled function unless it is bound to the source."""
        inner = getattr(value, "__wrapped__", None)
        if inner is not None and functions.reaches_state(inner):
            raise Uncopyable(value)
        return value
