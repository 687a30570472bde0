"""JAX: arrays are immutable, but training deletes those of variables, so all are copied."""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ramet.backends.base import Backend, Batch, Copy
from ramet.backends.memory import aligned_like

_BATCH = 64
"""How many arrays JAX copies at once."""

_HUGE = 1 << 27
"""From how many bytes on JAX takes twice as long with memory of its own as with NumPy's."""


class Jax(Backend):
    """Arrays, and references to them."""

    packages = ("jax", "jaxlib")
    copies_ahead = True
    has_layouts = True

    def copy_for(self, cls: type) -> Copy:
        """Return a function that copies arrays or references of a class."""
        if is_jax_array(cls):
            return lambda value: value if value.is_deleted() else _copy_arrays([value])[0]
        if is_jax_reference(cls):
            return lambda value: self.package.new_ref(_copy_arrays([value[...]])[0])
        return super().copy_for(cls)

    def batch(self) -> Batch:
        """Return copies of arrays, made many at once."""
        return _Arrays(self)

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is an array, dense or sparse, or a reference to one."""
        cls = type(value)
        return is_jax_array(cls) or is_jax_reference(cls) or hasattr(value, "todense")

    def is_symbolic(self, value: Any) -> bool:
        """Whether a value is a tracer."""
        return isinstance(value, self.package.core.Tracer)

    def to_numpy(self, value: Any) -> Any:
        """Return the values of an array; of keys of random numbers, their data."""
        if is_jax_reference(type(value)):
            value = value[...]
        if is_jax_array(type(value)) and self.package.dtypes.issubdtype(
            value.dtype, self.package.dtypes.prng_key
        ):
            value = self.package.random.key_data(value)
        return super().to_numpy(value)

    def readable(self, value: Any) -> Any:
        """Return the values of an array on the host in their own memory."""
        plain = is_jax_array(type(value)) and value.dtype.kind in "fiub"
        return np.asarray(value) if plain else self.to_numpy(value)

    def assign(self, variable: Any, array: np.ndarray) -> None:
        """Assign an array; its memory is taken over if it is aligned."""
        variable.assign(self.package.device_put(array, may_alias=True))

    def stand_in(self, value: Any) -> Any:
        """Return the array itself, which is immutable."""
        return value if is_jax_array(type(value)) else super().stand_in(value)

    def is_deleted(self, variable: Any) -> bool:
        """Whether the array of a variable was deleted, or donated to a computation."""
        value = variable.value
        return is_jax_array(type(value)) and value.is_deleted()

    def wait_for(self, values: list[Any]) -> None:
        """Wait until arrays are computed."""
        self.package.block_until_ready([value for value in values if self.is_tensor(value)])

    def gradients(self, function: Callable[[list[Any]], Any], values: list[Any]) -> list[Any]:
        """Return the gradients of a function of arrays, which returns a number."""
        return self.package.grad(function)(values)

    def sparse_tensor(self, values: np.ndarray) -> Any:
        """Return a sparse array with one batch dimension."""
        from jax.experimental import sparse

        return sparse.BCOO.fromdense(values, n_batch=1)


@functools.cache
def is_jax_array(cls: type) -> bool:
    """Whether a class is one of JAX arrays that hold data, not of traced ones."""
    if cls.__module__.partition(".")[0] not in Jax.packages:
        return False
    jax = sys.modules["jax"]
    return issubclass(cls, jax.Array) and not issubclass(cls, jax.core.Tracer)


@functools.cache
def is_jax_reference(cls: type) -> bool:
    """Whether a class is that of JAX's references to arrays, which can be changed."""
    jax = sys.modules.get("jax")
    return issubclass(cls, getattr(jax, "Ref", ()))


_PLAIN_OPTIONS = ("static_argnums", "static_argnames", "donate_argnums", "keep_unused", "inline")
"""Options of `jax.jit` that can be read from what it returns."""


def jax_options(compiled: Any) -> dict[str, Any]:
    """Return the options that a function was compiled with, as far as they can be read."""
    info = getattr(compiled, "_jit_info", None)  # there is no public way to the options
    return {name: getattr(info, name) for name in _PLAIN_OPTIONS if hasattr(info, name)}


def compile_alike(compiled: Any) -> Callable[[Any], Any] | None:
    """Return what compiles another function like a compiled one; `None` if that is not known."""
    options = getattr(compiled, "_jit_info", None)  # there is no public way to the options
    names = (*_PLAIN_OPTIONS, "in_shardings_leaves", "out_shardings_leaves", "device", "backend")
    if options is None or not all(hasattr(options, name) for name in names):
        return None
    shardings = (*options.in_shardings_leaves, *options.out_shardings_leaves)
    layouts = (
        *getattr(options, "in_layouts_leaves", ()),
        *getattr(options, "out_layouts_leaves", ()),
    )
    special = (options.device, options.backend, *layouts)
    if any(value is not None for value in special):
        return None
    if any(type(value).__name__ != "UnspecifiedValue" for value in shardings):
        return None
    if getattr(options, "compiler_options_kvs", ()):
        return None
    plain = {name: getattr(options, name) for name in _PLAIN_OPTIONS}
    return functools.partial(sys.modules["jax"].jit, **plain)


def is_derivative_rule(value: Any) -> bool:
    """Whether a value is a function with a derivative of its own, an object that holds both."""
    jax = sys.modules["jax"]
    return isinstance(value, (jax.custom_jvp, jax.custom_vjp))


class _Arrays(Batch):
    """Copies of arrays. JAX makes them in the background, while the rest is put together."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._begun: dict[int, tuple[Any, Any]] = {}
        self._waiting: list[tuple[dict[Any, Any], Any, Any]] = []

    def begin(self, values: list[Any]) -> None:
        """Start to copy arrays; huge ones are copied when they are put."""
        arrays = [value for value in values if is_jax_array(type(value)) and not _is_huge(value)]
        for start in range(0, len(arrays), _BATCH):
            batch = arrays[start : start + _BATCH]
            pairs = zip(batch, _copy_arrays(batch), strict=True)
            self._begun.update({id(value): (value, copied) for value, copied in pairs})

    def put(self, fields: dict[Any, Any], name: Any, value: Any) -> None:
        """Store the copy of an array. Until there is a batch of them, it is the array itself."""
        if not is_jax_array(type(value)):
            super().put(fields, name, value)
        elif id(value) in self._begun:
            fields[name] = self._begun.pop(id(value))[1]
        elif _is_huge(value):
            fields[name] = _copy_huge(value)
        else:
            fields[name] = value
            self._waiting.append((fields, name, value))
            if len(self._waiting) >= _BATCH:
                self.finish()

    def finish(self) -> None:
        """Copy what waits."""
        if self._waiting:
            copies = _copy_arrays([value for _, _, value in self._waiting])
            for (fields, name, _), copied in zip(self._waiting, copies, strict=True):
                fields[name] = copied
            self._waiting.clear()


def _copy_arrays(values: Sequence[Any]) -> list[Any]:
    jax = sys.modules["jax"]
    # may_alias=False: training donates its buffers, so a shared one would be
    # deleted under the other model.
    return jax.device_put(list(values), may_alias=False)


def _is_huge(value: Any) -> bool:
    """Whether an array is huge, and an ordinary one in the host's memory."""
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
    """Copy a huge array in the host's memory into memory that NumPy allocates.

    NumPy asks for large pages and JAX does not. The memory is not shared with anything else.
    """
    source = np.from_dlpack(value)
    copied = aligned_like(source)
    np.copyto(copied, source)
    return sys.modules["jax"].device_put(copied, may_alias=True)
