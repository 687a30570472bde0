"""Variables, tables and generators of TensorFlow, and copies of them.

TensorFlow is never imported here: its objects can only exist if the program imported it.
"""

import contextlib
import functools
import importlib
import sys
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from ramet.backends.base import Backend, Batch

_BATCH = 64
"""How many variables TensorFlow is asked to copy at once, and from how many on by a thread."""

_VARIABLE_FIELDS = frozenset(
    {
        "_aggregation",
        "_cached_shape_as_list",
        "_cached_value",
        "_caching_device",
        "_constraint",
        "_distribute_strategy",
        "_dtype",
        "_graph_element",
        "_graph_key",
        "_handle",
        "_handle_name",
        "_in_graph_mode",
        "_initial_value",
        "_initializer_op",
        "_is_initialized_op",
        "_save_slice_info",
        "_shape",
        "_synchronization",
        "_trainable",
        "_unique_id",
        "_validate_shape",
        "_variable_read",
        "_xla_sharding",
    }
)
"""Attributes of a TensorFlow variable that was created eagerly, outside of any strategy."""


_COPIED_BLINDLY = frozenset(
    {
        "bfloat16",
        "bool",
        "float16",
        "float32",
        "float64",
        "int16",
        "int32",
        "int64",
        "int8",
        "uint8",
    }
)
"""Types that TensorFlow is known to copy. In the background, an error would come too late."""


class _Known(NamedTuple):
    """Parts of TensorFlow without a public name."""

    anonymous: str
    """Its name for resources that have none."""
    number: Callable[[], int]
    """Counts up, for unique names."""
    new_executor: Callable[..., Any]
    """Create a thread that runs operations."""
    executor_scope: Callable[[Any], contextlib.AbstractContextManager[None]]
    """Let such a thread run operations."""
    is_async: Callable[[], bool]
    """Whether one runs them already."""


@functools.cache
def _known() -> _Known | None:
    """Return the parts of TensorFlow that have no public name, or None if some are missing."""
    try:
        context = importlib.import_module("tensorflow.python.eager.context")
        executor = importlib.import_module("tensorflow.python.eager.executor")
        ops = importlib.import_module("tensorflow.python.framework.ops")
        return _Known(
            anonymous=context.anonymous_name(),
            number=ops.uid,
            new_executor=executor.new_executor,
            executor_scope=context.executor_scope,
            is_async=context.is_async,
        )
    except (ImportError, AttributeError):
        return None


def is_plain_variable(value: Any) -> bool:
    """Whether a value is a TensorFlow variable all of whose attributes are known."""
    return (
        type(value).__name__ == "ResourceVariable"
        and value.__dict__.keys() <= _VARIABLE_FIELDS
        and not value.__dict__.get("_in_graph_mode", True)
        and value.__dict__.get("_cached_value") is None
        and _known() is not None
    )


class VariableCopies(Batch):
    """Copies of variables.

    Values that are known in time are copied in the background, by a thread of TensorFlow's
    own, while the rest of a model is put together.
    """

    def __init__(self, backend: Backend) -> None:
        """Start without any variable to copy."""
        super().__init__(backend)
        self._begun: dict[int, tuple[Any, Any]] = {}
        self._copied: list[tuple[Any, Any, Any]] = []
        self._late: defaultdict[str, list[tuple[Any, Any]]] = defaultdict(list)
        self._executor: Any = None

    def begin(self, values: list[Any]) -> None:
        """Start to copy the values of plain variables in the background."""
        plain = [value for value in values if is_plain_variable(value)]
        if len(plain) < _BATCH or cast("_Known", _known()).is_async():
            return  # With a thread of the user's as well, the order would be lost.
        groups: defaultdict[str, list[Any]] = defaultdict(list)
        for value in plain:
            if value.dtype.name in _COPIED_BLINDLY:
                groups[value.device].append(value)
        for device, group in groups.items():
            for start in range(0, len(group) if "CPU" in device else 0, _BATCH):
                batch = group[start : start + _BATCH]
                handles = _copy_values(device, batch, self._background)
                self._begun.update({id(v): (v, h) for v, h in zip(batch, handles, strict=True)})

    def put(self, fields: dict[Any, Any], name: Any, value: Any) -> None:
        """Store a copy of a variable. Until `finish`, a plain one has the source's value."""
        if is_plain_variable(value):
            fields[name] = self._copy_plain(value)
        else:
            super().put(fields, name, value)

    def finish(self) -> None:
        """Give all copies values of their own."""
        for device, pairs in self._late.items():
            handles = _copy_values(device, [value for value, _ in pairs], contextlib.nullcontext)
            self._copied += [(*pair, handle) for pair, handle in zip(pairs, handles, strict=True)]
        self._late.clear()
        if self._executor is not None:
            self._executor.wait()
        for value, copied, handle in self._copied:
            _set_handle(value, copied, handle)
        self._copied.clear()

    def _copy_plain(self, value: Any) -> Any:
        copied = _plain_copy(value)
        _, handle = self._begun.pop(id(value), (value, None))
        if handle is None:
            self._late[value.device].append((value, copied))
        else:
            self._copied.append((value, copied, handle))
        return copied

    def _background(self) -> contextlib.AbstractContextManager[None]:
        """Let another thread run operations."""
        known = cast("_Known", _known())
        if self._executor is None:
            self._executor = known.new_executor(enable_async=True)
        return known.executor_scope(self._executor)


def _plain_copy(value: Any) -> Any:
    """Return a copy of a plain variable that has the source's value."""
    copied = object.__new__(type(value))
    copied.__dict__.update(value.__dict__)
    return copied


def _copy_values(device: str, values: list[Any], scope: Callable[[], Any]) -> list[Any]:
    """Copy the values of variables on one device, and return the handles of the copies."""
    tensorflow = sys.modules["tensorflow"]
    with tensorflow.init_scope(), tensorflow.device(device):
        # First of all: with a handle that is not there yet, TensorFlow waits.
        handles = [_new_handle(tensorflow, value) for value in values]
        with scope():
            for value, handle in zip(values, handles, strict=True):
                _copy_into(tensorflow, value, handle)
    return handles


def _new_handle(tensorflow: Any, value: Any) -> Any:
    """Return a handle for the value of a variable's copy."""
    return tensorflow.raw_ops.VarHandleOp(
        dtype=value.dtype,
        shape=value.shape,
        shared_name=cast("_Known", _known()).anonymous,
        debug_name=_base_name(value),
    )


def _base_name(value: Any) -> str:
    return value.__dict__["_handle_name"].partition(":")[0]


def _copy_into(tensorflow: Any, value: Any, handle: Any) -> None:
    """Copy the value of a variable to that of a handle."""
    raw = tensorflow.raw_ops
    tensor = raw.ReadVariableOp(resource=value.handle, dtype=value.dtype)
    raw.AssignVariableOp(resource=handle, value=_copy_tensor(tensorflow, tensor))


def _set_handle(value: Any, copied: Any, handle: Any) -> None:
    """Set the handle of the value of a variable's copy.

    This completes all that `tf.Variable(value)` does, in a quarter of the time.
    """
    old, fields = value.handle, copied.__dict__
    unique = f"{_base_name(value)}_{cast('_Known', _known()).number()}"
    handle._handle_data = old._handle_data  # noqa: SLF001 what a trace knows of it
    handle._parent_trackable = weakref.ref(copied)  # noqa: SLF001 the same
    handle._name, handle._unique_id = old._name, unique  # noqa: SLF001 the same
    fields["_handle"], fields["_unique_id"] = handle, unique


def _copy_tensor(tensorflow: Any, tensor: Any) -> Any:
    """Copy a tensor to memory of its own; a variable would share that of a tensor."""
    try:
        return tensorflow.raw_ops.DeepCopy(x=tensor)
    except tensorflow.errors.OpError:  # There is no kernel for some types.
        return tensorflow.constant(tensor.numpy(), dtype=tensor.dtype)


def stand_in(value: Any) -> Any:
    """Return a plain variable like another, without a value."""
    tensorflow = sys.modules["tensorflow"]
    copied = _plain_copy(value)
    with tensorflow.init_scope(), tensorflow.device(value.device):
        handle = _new_handle(tensorflow, value)
    _set_handle(value, copied, handle)
    return copied


def copy_variable(value: Any) -> Any:
    """Return a copy of any variable."""
    tensorflow = sys.modules["tensorflow"]
    if is_plain_variable(value):
        copied = _plain_copy(value)
        (handle,) = _copy_values(value.device, [value], contextlib.nullcontext)
        _set_handle(value, copied, handle)
        return copied
    distributed = isinstance(value, tensorflow.distribute.DistributedValues)
    place = value.distribute_strategy.scope() if distributed else tensorflow.device(value.device)
    with tensorflow.init_scope(), place:
        return tensorflow.Variable(
            _copy_tensor(tensorflow, value.read_value()),
            trainable=value.trainable,
            name=value.name.partition(":")[0],
            dtype=value.dtype,
            shape=value.shape,
            aggregation=value.aggregation,
            synchronization=value.synchronization,
        )


def copy_resource(value: Any) -> Any:
    """Return a copy of a lookup table or generator of random numbers; any other value unchanged.

    A static table never changes after it was created, so it is shared; a mutable
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
    table = type(value)(
        key_dtype=value.key_dtype,
        value_dtype=value.value_dtype,
        default_value=value._default_value,  # noqa: SLF001 the same
        **extra,
    )
    table.insert(*value.export())
    return table
