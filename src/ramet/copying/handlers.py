"""Which handler copies the instances of which class.

A handler is a function `(copier, value) -> copy`. Each module of this package registers the
handlers of its own subject:

    copies = Registry()

    @copies(keras.Variable)              instances of the class and of its subclasses
    @copies.exactly(OrderedDict)         instances of the class, but not of its subclasses
    @copies.where(is_torch_tensor)       instances of each class that passes the test: for
                                         classes of backends, which are not imported here

`deep_copy.py` lists the registries in order. The handler of a class is the one registered for
exactly this class or, if there is none, the first that matches, registry by registry, and from
top to bottom in each. So the order of imports does not matter, and a class with several
registered bases has one handler too. A handler that would never be used is an error at import:
see `Handlers`.
"""

from collections.abc import Callable, Iterator
from typing import Any

from ramet import keras_internals as internals
from ramet.copying.core import Core, Handler

Test = Callable[[type], bool]


class Uncopyable(Exception):  # noqa: N818 not an error yet: the caller may have a fallback
    """An object that has no deep copy; raised by handlers."""

    def __init__(self, value: Any) -> None:
        """Record the type of the object."""
        super().__init__(type(value).__name__)
        self.class_name = type(value).__qualname__


class Registry:
    """The handlers of one subject, in the order in which they are tried."""

    def __init__(self) -> None:
        """Start without handlers."""
        self.exact: list[tuple[type, Handler]] = []
        self.general: list[tuple[type | Test, Handler]] = []

    def __call__(self, *classes: type) -> Callable[[Handler], Handler]:
        """Register a handler for the instances of some classes and of their subclasses."""
        return self._register(self.general, classes)

    def exactly(self, *classes: type) -> Callable[[Handler], Handler]:
        """Register a handler for the instances of some classes, but not of their subclasses."""
        return self._register(self.exact, classes)

    def where(self, test: Test) -> Callable[[Handler], Handler]:
        """Register a handler for the instances of each class that passes a test."""
        return self._register(self.general, (test,))

    @staticmethod
    def _register(entries: list[Any], keys: tuple[Any, ...]) -> Callable[[Handler], Handler]:
        def register(handler: Handler) -> Handler:
            entries.extend((key, handler) for key in keys)
            return handler

        return register


class Handlers(dict[type, Handler]):
    """Handlers by class. A class is looked up in the registries once, when it is first met."""

    def __init__(self, *registries: Registry, by_attributes: Handler) -> None:
        """Combine registries into one table.

        Args:
            registries: The handlers by subject; those of the first are tried first.
            by_attributes: The handler that copies the attributes of any object. For a
                class without slots, the core's own method replaces it, which is faster.

        Raises:
            TypeError: If a handler would never be used, since an earlier one is registered
                for the same class or a base of it.
        """
        super().__init__()
        self._by_attributes = by_attributes
        self._general = [entry for registry in registries for entry in registry.general]
        for cls, handler in (entry for registry in registries for entry in registry.exact):
            if cls in self:
                _refuse(cls, handler, cls, self[cls])
            self[cls] = handler
        classes = [(key, handler) for key, handler in self._general if isinstance(key, type)]
        for index, (cls, handler) in enumerate(classes):
            for base, earlier in classes[:index]:
                if issubclass(cls, base):
                    _refuse(cls, handler, base, earlier)

    def __missing__(self, cls: type) -> Handler:
        handler = next(self._matches(cls))
        if handler is self._by_attributes and not internals.slots_of(cls):
            handler = Core.copy_object
        self[cls] = handler
        return handler

    def _matches(self, cls: type) -> Iterator[Handler]:
        for key, handler in self._general:
            if issubclass(cls, key) if isinstance(key, type) else key(cls):
                yield handler


def _refuse(cls: type, handler: Handler, base: type, earlier: Handler) -> None:
    message = (
        f"{_name(handler)} would never copy a {cls.__qualname__}: {_name(earlier)} is registered "
        f"for {base.__qualname__} and tried before; register the more specific class first"
    )
    raise TypeError(message)


def _name(handler: Handler) -> str:
    return getattr(handler, "__name__", repr(handler))
