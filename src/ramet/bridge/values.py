"""Values on their backends: what may be shared, and how the rest is copied.

A value is what a variable holds (a `jax.Array`, a `tf.Variable`, a
`torch.nn.Parameter`), or a tensor that a layer keeps as an attribute. A backend
is never imported here: an object of it can only exist if somebody else did.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np


def package_of(kind: type) -> str:
    """Returns the top-level package that a class comes from."""
    return kind.__module__.partition(".")[0]


class ValueCopies:
    """Copies of backend values; many small JAX values are copied in one batch."""

    def __init__(self) -> None:
        """Starts without any value to copy."""
        self._waiting: list[tuple[dict[str, Any], str, Any]] = []

    def put(self, fields: dict[str, Any], name: str, value: Any) -> None:
        """Stores a copy of `value` under `fields[name]`, now or when finished."""
        if package_of(type(value)) in ("jax", "jaxlib") and is_concrete(value):
            fields[name] = value
            self._waiting.append((fields, name, value))
        else:
            fields[name] = copy_value(value)

    def finish(self) -> None:
        """Makes the copies that were put off."""
        if self._waiting:
            copies = _copy_jax([value for _, _, value in self._waiting])
            for (fields, name, _), made in zip(self._waiting, copies, strict=True):
                fields[name] = made
            self._waiting.clear()


def is_concrete(value: Any) -> bool:
    """Tells whether a JAX value holds data rather than standing for a trace."""
    jax = sys.modules["jax"]
    return isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)


def _copy_jax(values: Sequence[Any]) -> list[Any]:
    jax = sys.modules["jax"]
    # may_alias=False: training donates its buffers, so a shared one would be
    # deleted under the other model.
    return jax.device_put(list(values), may_alias=False)


def copy_value(value: Any) -> Any:
    """Returns an independent copy of a backend value; immutable ones as they are."""
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    package = package_of(type(value))
    if package == "torch" or _is_torch(value):
        return _copy_torch(value)
    if package in ("jax", "jaxlib"):
        return _copy_jax([value])[0] if is_concrete(value) else value
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is not None and isinstance(value, tensorflow.Variable):
        return _copy_tensorflow(tensorflow, value)
    return value


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _copy_torch(value: Any) -> Any:
    torch = sys.modules["torch"]
    if value.is_meta:
        return value
    with torch.no_grad():
        made = value.detach().clone()
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=value.requires_grad)
    return made.requires_grad_(value.requires_grad) if value.is_leaf else made


def _copy_tensorflow(tensorflow: Any, value: Any) -> Any:
    # tf.identity would keep the buffer alive until the first write; a variable
    # always takes its own.
    distributed = isinstance(value, tensorflow.distribute.DistributedValues)
    place = value.distribute_strategy.scope() if distributed else tensorflow.device(value.device)
    with tensorflow.init_scope(), place:
        return tensorflow.Variable(
            value.read_value(),
            trainable=value.trainable,
            name=value.name.partition(":")[0],
            dtype=value.dtype,
            shape=value.shape,
            aggregation=value.aggregation,
            synchronization=value.synchronization,
        )


def copy_resource(value: Any) -> Any:
    """Returns a copy of a TensorFlow lookup table or generator of random numbers.

    A static table never changes after it was made, so it is shared; a mutable
    one, in which a layer counts while it adapts, is copied.
    """
    tensorflow = sys.modules["tensorflow"]
    if isinstance(value, tensorflow.random.Generator):
        return tensorflow.random.Generator.from_state(value.state, value.algorithm)
    tables = tensorflow.lookup.experimental
    if not isinstance(value, (tables.MutableHashTable, tables.DenseHashTable)):
        return value
    extra: dict[str, Any] = {}
    if isinstance(value, tables.DenseHashTable):
        extra = {
            "empty_key": value._empty_key,  # noqa: SLF001 no public way to read it
            "deleted_key": value._deleted_key,  # noqa: SLF001 the same
        }
    made = type(value)(
        key_dtype=value.key_dtype,
        value_dtype=value.value_dtype,
        default_value=value._default_value,  # noqa: SLF001 the same
        **extra,
    )
    made.insert(*value.export())
    return made


def same_bits(first: Any, second: Any) -> bool:
    """Tells whether two arrays have the same dtype, shape and bytes."""
    return (
        first.dtype == second.dtype
        and first.shape == second.shape
        and first.tobytes() == second.tobytes()
    )
