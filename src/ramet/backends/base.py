"""The interface to a backend. Each is implemented in the module of its name.

A model may hold values of a package that Keras does not run on, such as a tensor of PyTorch in a
layer on JAX. So values are dispatched by their class; only questions about new layers and
variables go to the backend in use. No implementation imports its package: objects of it can only
exist if the program imported it. Keras is imported only when it is needed.
"""

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Copy = Callable[[Any], Any]
"""Copies one value."""


class Batch:
    """Copies of values of one backend. Some backends copy many values at once faster."""

    def __init__(self, backend: "Backend") -> None:
        """Start without any value to copy."""
        self._backend = backend
        self._copies: dict[type, Copy] = {}

    def begin(self, values: list[Any]) -> None:
        """Start to copy values that will be put later, as far as the backend can."""

    def put(self, fields: dict[Any, Any], name: Any, value: Any) -> None:
        """Store a copy of a value under `fields[name]`, now or in `finish`."""
        cls = type(value)
        copy = self._copies.get(cls)
        if copy is None:
            copy = self._copies[cls] = self._backend.copy_for(cls)
        fields[name] = copy(value)

    def finish(self) -> None:
        """Complete the copies that were put off."""


class Backend:
    """A package that Keras runs on, or whose values a model holds.

    The base class handles everything that belongs to no backend: NumPy arrays, plain objects.
    """

    packages: tuple[str, ...] = ()
    """Top-level packages that its classes come from."""

    copies_ahead = False
    """Whether it copies values in the background once they are known (see `Batch.begin`)."""

    has_strings = False
    """Whether it has tensors of strings."""

    has_layouts = False
    """Whether Keras lays its variables out over devices, under `keras.distribution`."""

    has_modules = False
    """Whether Keras layers are modules of the backend, which list their parameters by path."""

    def __init__(self, name: str) -> None:
        """Name the backend as Keras does, and as its package is called."""
        self.name = name

    @property
    def package(self) -> Any:
        """The package itself. Raises KeyError unless it is imported."""
        return sys.modules[self.name]

    @property
    def is_loaded(self) -> bool:
        """Whether the package is imported."""
        return sys.modules.get(self.name) is not None

    # --- values of its classes --------------------------------------------------------

    def copy_for(self, cls: type) -> Copy:
        """Return a function that copies the values of a class; immutable values are kept."""
        if issubclass(cls, np.ndarray):
            return functools.partial(cls.copy, order="K")
        return _same

    def batch(self) -> Batch:
        """Return an empty batch of copies."""
        return Batch(self)

    def written(self, value: Any) -> Any:
        """Return something that is another after a variable with this value was written to."""
        return id(value)

    def is_tensor(self, value: Any) -> bool:
        """Whether a value of one of its classes holds numbers or strings in an array."""
        return isinstance(value, np.ndarray)

    def is_symbolic(self, value: Any) -> bool:
        """Whether a tensor stands for a value in a trace and has none itself."""
        del value
        return False

    def to_numpy(self, value: Any) -> Any:
        """Return the values of a tensor; of a sparse one, those of the dense tensor."""
        import keras

        return keras.ops.convert_to_numpy(value.todense() if hasattr(value, "todense") else value)

    def readable(self, value: Any) -> Any:
        """Return the values of a tensor in its own memory if possible, only to be read."""
        return self.to_numpy(value)

    def assign(self, variable: Any, array: np.ndarray) -> None:
        """Assign a packed array to a Keras variable, which takes over its memory if possible."""
        variable.assign(array)

    def stand_in(self, value: Any) -> Any:
        """Return what stands for the value of a new variable until one is assigned.

        It is like the value of another variable; what it contains is of no interest.
        """
        return self.copy_for(type(value))(value)

    def is_deleted(self, variable: Any) -> bool:
        """Whether the array of a variable no longer exists."""
        del variable
        return False

    # --- state ------------------------------------------------------------------------

    def is_state(self, value: Any) -> bool:
        """Whether any value is a variable, parameter or module of the backend, loaded or not."""
        del value
        return False

    def random_state(self) -> Any:
        """Return the state of its global generators, for `set_random_state`. It is loaded."""

    def set_random_state(self, state: Any) -> None:
        """Restore the state of its global generators."""

    def wait_for(self, values: list[Any]) -> None:
        """Wait until some values are computed, for backends that compute in the background."""

    def seed(self, seed: int) -> None:
        """Seed its global generators, which initializers may draw from. It is loaded."""

    # --- as the one that Keras runs on ------------------------------------------------

    def sparse_tensor(self, values: np.ndarray) -> Any:
        """Return a sparse tensor of the values of a dense array, or a dense one if it has none."""
        import keras

        return keras.ops.convert_to_tensor(values)

    def why_not_named(self, name: str) -> str | None:
        """Return why no layer of that name can hold weights, with the remedy, or None."""
        del name
        return None

    def copy_gradients(self, model: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Copy the gradients that the next step of training adds to; of a model and values."""
        del model, pairs

    def set_attribute(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a layer past Keras's tracker, in the records of the backend too."""
        vars(owner)[name] = value

    def gradients(self, function: Callable[[list[Any]], Any], values: list[Any]) -> list[Any]:
        """Return the gradients of a function of tensors, which returns a number; or `None`s."""
        raise NotImplementedError


def _same(value: Any) -> Any:
    return value
