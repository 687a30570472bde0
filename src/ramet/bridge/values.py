"""Values on their backends: what may be shared, and how the rest is copied.

A value is what a variable holds (a `jax.Array`, a `tf.Variable`, a
`torch.nn.Parameter`), or a tensor that a layer keeps as an attribute. A backend
is never imported here: an object of it can only exist if somebody else did.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ramet.bridge.memory import LARGE, aligned_like, ask_for_large_pages
from ramet.bridge.resources import VariableCopies, copy_variable, is_plain_variable


def package_of(kind: type) -> str:
    """Returns the top-level package that a class comes from."""
    return kind.__module__.partition(".")[0]


_BATCH = 64
"""How many arrays JAX is given at once."""

_HUGE = 1 << 27
"""From how many bytes on JAX takes twice as long with memory of its own as with NumPy's."""


class ValueCopies:
    """Copies of backend values; those of JAX and TensorFlow are made in batches."""

    def __init__(self) -> None:
        """Starts without any value to copy."""
        self._begun: dict[int, tuple[Any, Any]] = {}
        self._arrays: list[tuple[dict[Any, Any], Any, Any]] = []
        self._variables = VariableCopies()

    def begin(self, values: Iterable[Any]) -> None:
        """Has JAX and TensorFlow copy values in the background that will be asked for."""
        known = [*{id(value): value for value in values}.values()]
        arrays = [value for value in known if is_array(type(value)) and not _is_huge(value)]
        for start in range(0, len(arrays), _BATCH):
            batch = arrays[start : start + _BATCH]
            made = zip(batch, _copy_jax(batch), strict=True)
            self._begun.update({id(value): (value, copy) for value, copy in made})
        self._variables.begin([value for value in known if is_plain_variable(value)])

    def put(self, fields: dict[Any, Any], name: Any, value: Any) -> None:
        """Stores a copy of `value` under `fields[name]`, now or when finished."""
        if is_array(type(value)):
            if id(value) in self._begun:
                fields[name] = self._begun.pop(id(value))[1]
                return
            if _is_huge(value):
                fields[name] = _copy_huge(value)
                return
            fields[name] = value
            self._arrays.append((fields, name, value))
            if len(self._arrays) >= _BATCH:
                self._copy_arrays()
        elif is_plain_variable(value):
            fields[name] = self._variables.copy(value)
        else:
            fields[name] = copy_value(value)

    def finish(self) -> None:
        """Makes the copies that were put off."""
        self._copy_arrays()
        self._variables.finish()

    def _copy_arrays(self) -> None:
        """Has JAX copy what waits. It does so in the background, while the rest is put together."""
        if self._arrays:
            copies = _copy_jax([value for _, _, value in self._arrays])
            for (fields, name, _), made in zip(self._arrays, copies, strict=True):
                fields[name] = made
            self._arrays.clear()


@functools.cache
def is_array(kind: type) -> bool:
    """Tells whether a class is one of JAX arrays that hold data, not of traced ones."""
    if package_of(kind) not in ("jax", "jaxlib"):
        return False
    jax = sys.modules["jax"]
    return issubclass(kind, jax.Array) and not issubclass(kind, jax.core.Tracer)


@functools.cache
def is_reference(kind: type) -> bool:
    """Tells whether a class is that of JAX's references to arrays, which can be changed."""
    jax = sys.modules.get("jax")
    return issubclass(kind, getattr(jax, "Ref", ()))


def _copy_jax(values: Sequence[Any]) -> list[Any]:
    jax = sys.modules["jax"]
    # may_alias=False: training donates its buffers, so a shared one would be
    # deleted under the other model.
    return jax.device_put(list(values), may_alias=False)


def _is_huge(value: Any) -> bool:
    """Tells whether an array of JAX is huge, in the host's memory, and nothing special."""
    if value.size < _HUGE // 8:
        return False
    jax = sys.modules["jax"]
    sharding = value.sharding
    if value.nbytes < _HUGE or type(sharding) is not jax.sharding.SingleDeviceSharding:
        return False
    (device,) = sharding.device_set
    usual = jax.config.jax_default_device is None and device == jax.devices()[0]
    plain = value.dtype.kind in "fiu" and not value.weak_type
    return plain and usual and not value.committed and device.platform == "cpu"


def _copy_huge(value: Any) -> Any:
    """Copies a huge array of JAX in the host's memory, into memory that NumPy asks for.

    NumPy asks for large pages and JAX does not. Nobody else has that memory.
    """
    source = np.from_dlpack(value)
    made = aligned_like(source)
    np.copyto(made, source)
    return sys.modules["jax"].device_put(made, may_alias=True)


def copy_value(value: Any) -> Any:
    """Returns an independent copy of a backend value; immutable ones as they are."""
    return _way_to_copy(type(value))(value)


@functools.cache
def _way_to_copy(kind: type) -> Callable[[Any], Any]:
    """Returns what copies the values of a class."""
    torch, tensorflow = sys.modules.get("torch"), sys.modules.get("tensorflow")
    if issubclass(kind, np.ndarray):
        return functools.partial(kind.copy, order="K")
    if torch is not None and issubclass(kind, torch.Tensor):
        return _copy_parameter if kind is torch.nn.Parameter else _copy_torch
    if is_array(kind):
        return lambda value: value if value.is_deleted() else _copy_jax([value])[0]
    if is_reference(kind):
        return lambda value: sys.modules["jax"].new_ref(_copy_jax([value[...]])[0])
    if tensorflow is not None and issubclass(kind, tensorflow.Variable):
        return copy_variable
    return lambda value: value


def _copy_parameter(value: Any) -> Any:
    data = value.detach()
    made = _copy_large(data) if value.numel() >= LARGE // 16 and _is_large(data) else data.clone()
    return type(value)(made, requires_grad=value.requires_grad)


def _is_large(value: Any) -> bool:
    """Tells whether a tensor of PyTorch is large, and in the host's memory in one piece."""
    strided = value.is_cpu and value.layout is sys.modules["torch"].strided
    return strided and value.nbytes >= LARGE and value.is_contiguous()


def _copy_large(value: Any) -> Any:
    """Copies a contiguous tensor of PyTorch in the host's memory."""
    made = sys.modules["torch"].empty_like(value)
    ask_for_large_pages(made.data_ptr(), made.nbytes)
    return made.copy_(value)


def _copy_torch(value: Any) -> Any:
    torch = sys.modules["torch"]
    made = value.detach().clone()
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=value.requires_grad)
    return made.requires_grad_(value.requires_grad) if value.is_leaf else made


def same_bits(first: Any, second: Any) -> bool:
    """Tells whether two arrays have the same dtype, shape and bytes."""
    return (
        first.dtype == second.dtype
        and first.shape == second.shape
        and first.tobytes() == second.tobytes()
    )
