"""Values of any backend, by their class: what may be shared, and how the rest is copied.

A value is what a variable holds (a `jax.Array`, a `tf.Variable`, a `torch.nn.Parameter`), or
a tensor that a layer keeps as an attribute.
"""

import functools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from ramet.backends import BACKENDS, backend_of
from ramet.backends.base import Backend, Batch, Copy


def copy_value(value: Any) -> Any:
    """Return an independent copy of a backend value; immutable values are kept."""
    return _copy_for(type(value))(value)


@functools.cache
def _copy_for(cls: type) -> Copy:
    return backend_of(cls).copy_for(cls)


class ValueCopies:
    """Copies of the values of a model's variables, in a batch for each backend."""

    def __init__(self) -> None:
        """Start without any value to copy."""
        self._batches: dict[Backend, Batch] = {}

    def begin(self, values: Iterable[Any]) -> None:
        """Start to copy values that will be put later, in the background."""
        groups: defaultdict[Backend, list[Any]] = defaultdict(list)
        for value in {id(value): value for value in values}.values():
            groups[backend_of(type(value))].append(value)
        for backend, group in groups.items():
            self._batch(backend).begin(group)

    def put(self, fields: dict[Any, Any], name: Any, value: Any) -> None:
        """Store a copy of a value under `fields[name]`, now or when finished."""
        self._batch(backend_of(type(value))).put(fields, name, value)

    def finish(self) -> None:
        """Complete the copies that were put off."""
        for batch in self._batches.values():
            batch.finish()

    def _batch(self, backend: Backend) -> Batch:
        batch = self._batches.get(backend)
        if batch is None:
            batch = self._batches[backend] = backend.batch()
        return batch


def written(value: Any) -> Any:
    """Return something that is another after a Keras variable with this value was written to.

    It holds as long as the value itself is alive. `None` if the variable has no value at the
    moment, as on JAX during an epoch of training.
    """
    return None if value is None else backend_of(type(value)).written(value)


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of any backend, or a NumPy array."""
    return backend_of(type(value)).is_tensor(value)


def is_symbolic(value: Any) -> bool:
    """Whether a tensor of any backend stands for a value in a trace and has none itself."""
    return backend_of(type(value)).is_symbolic(value)


def to_numpy(value: Any) -> Any:
    """Return the values of a tensor of any backend; strings and sparse ones too."""
    import keras

    if isinstance(value, keras.Variable):
        value = value.value
    return backend_of(type(value)).to_numpy(value)


def readable(value: Any) -> Any:
    """Return the values of a tensor or variable, only to be read, and only until it changes.

    They may lie in the memory of the tensor itself.
    """
    import keras

    if isinstance(value, keras.Variable):
        value = value.value
    array = backend_of(type(value)).readable(value).view()
    array.flags.writeable = False
    return array


def stand_in(value: Any) -> Any:
    """Return what stands for the value of a new variable, like another, until one is assigned."""
    return backend_of(type(value)).stand_in(value)


def same_bits(first: Any, second: Any) -> bool:
    """Whether two arrays have the same dtype, shape and bytes, or equal strings."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    if first.dtype.hasobject:  # its bytes are addresses
        return np.array_equal(first, second)
    return first.tobytes() == second.tobytes()


def is_backend_state(value: Any) -> bool:
    """Whether a value is a variable, parameter or module of a backend."""
    first, second, third = BACKENDS  # no loop: this is asked of everything that a function reaches
    return first.is_state(value) or second.is_state(value) or third.is_state(value)
