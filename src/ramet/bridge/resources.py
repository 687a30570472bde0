"""Variables, tables and generators of TensorFlow, and copies of them.

TensorFlow is never imported here: an object of it can only exist if somebody else did.
"""

import contextlib
import functools
import importlib
import sys
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple, cast

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
"""What a TensorFlow variable holds that was made eagerly and by nobody special."""


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
"""Types that TensorFlow surely can copy. In the background, an error comes too late."""


class _Known(NamedTuple):
    """Parts of TensorFlow without a public name."""

    anonymous: str
    """Its name for what has none."""
    number: Callable[[], int]
    """Its counter."""
    new_executor: Callable[..., Any]
    """Makes a thread that runs operations."""
    executor_scope: Callable[[Any], contextlib.AbstractContextManager[None]]
    """Has operations run by such a thread."""
    is_async: Callable[[], bool]
    """Tells whether one runs them already."""


@functools.cache
def _known() -> _Known | None:
    """Returns parts of TensorFlow that have no public name, if they are as known."""
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
    """Tells whether a value is a TensorFlow variable of which all fields are known."""
    return (
        type(value).__name__ == "ResourceVariable"
        and value.__dict__.keys() <= _VARIABLE_FIELDS
        and not value.__dict__.get("_in_graph_mode", True)
        and value.__dict__.get("_cached_value") is None
        and _known() is not None
    )


class VariableCopies:
    """Copies of TensorFlow's plain variables.

    Values that are asked for in time are copied in the background, by a thread of
    TensorFlow's own, while the rest of a model is put together.
    """

    def __init__(self) -> None:
        """Starts without any variable to copy."""
        self._begun: dict[int, tuple[Any, Any]] = {}
        self._made: list[tuple[Any, Any, Any]] = []
        self._late: defaultdict[str, list[tuple[Any, Any]]] = defaultdict(list)
        self._executor: Any = None

    def begin(self, values: list[Any]) -> None:
        """Has values copied in the background, of variables that will be copied."""
        if len(values) < _BATCH or cast("_Known", _known()).is_async():
            return  # With a thread of the user's as well, the order would be lost.
        groups: defaultdict[str, list[Any]] = defaultdict(list)
        for value in values:
            if value.dtype.name in _COPIED_BLINDLY:
                groups[value.device].append(value)
        for device, group in groups.items():
            for start in range(0, len(group) if "CPU" in device else 0, _BATCH):
                batch = group[start : start + _BATCH]
                handles = _copy_values(device, batch, self._background)
                self._begun.update({id(v): (v, h) for v, h in zip(batch, handles, strict=True)})

    def copy(self, value: Any) -> Any:
        """Returns a copy of a variable. Until all is finished, it has the source's value."""
        made = object.__new__(type(value))
        made.__dict__.update(value.__dict__)
        _, handle = self._begun.pop(id(value), (value, None))
        if handle is None:
            self._late[value.device].append((value, made))
        else:
            self._made.append((value, made, handle))
        return made

    def finish(self) -> None:
        """Gives all copies values of their own."""
        for device, pairs in self._late.items():
            handles = _copy_values(device, [value for value, _ in pairs], contextlib.nullcontext)
            self._made += [(*pair, handle) for pair, handle in zip(pairs, handles, strict=True)]
        self._late.clear()
        if self._executor is not None:
            self._executor.wait()
        for value, made, handle in self._made:
            _give_handle(value, made, handle)
        self._made.clear()

    def _background(self) -> contextlib.AbstractContextManager[None]:
        """Has operations run by another thread."""
        known = cast("_Known", _known())
        if self._executor is None:
            self._executor = known.new_executor(enable_async=True)
        return known.executor_scope(self._executor)


def _copy_values(device: str, values: list[Any], scope: Callable[[], Any]) -> list[Any]:
    """Copies values of variables on one device, and returns the handles of their copies."""
    tensorflow = sys.modules["tensorflow"]
    with tensorflow.init_scope(), tensorflow.device(device):
        # Before all else: with a handle that is not there yet, TensorFlow waits.
        handles = [_new_handle(tensorflow, value) for value in values]
        with scope():
            for value, handle in zip(values, handles, strict=True):
                _copy_into(tensorflow, value, handle)
    return handles


def _new_handle(tensorflow: Any, value: Any) -> Any:
    """Makes a place for the value of a variable's copy."""
    return tensorflow.raw_ops.VarHandleOp(
        dtype=value.dtype,
        shape=value.shape,
        shared_name=cast("_Known", _known()).anonymous,
        debug_name=_base_name(value),
    )


def _base_name(value: Any) -> str:
    return value.__dict__["_handle_name"].partition(":")[0]


def _copy_into(tensorflow: Any, value: Any, handle: Any) -> None:
    """Copies the value of a variable to a place."""
    raw = tensorflow.raw_ops
    tensor = raw.ReadVariableOp(resource=value.handle, dtype=value.dtype)
    raw.AssignVariableOp(resource=handle, value=_copy_tensor(tensorflow, tensor))


def _give_handle(value: Any, made: Any, handle: Any) -> None:
    """Gives a copy of a variable the place where its value is.

    With this all is done that `tf.Variable(value)` does, in a quarter of the time.
    """
    old, fields = value.handle, made.__dict__
    unique = f"{_base_name(value)}_{cast('_Known', _known()).number()}"
    handle._handle_data = old._handle_data  # noqa: SLF001 what a trace knows of it
    handle._parent_trackable = weakref.ref(made)  # noqa: SLF001 the same
    handle._name, handle._unique_id = old._name, unique  # noqa: SLF001 the same
    fields["_handle"], fields["_unique_id"] = handle, unique


def _copy_tensor(tensorflow: Any, tensor: Any) -> Any:
    """Copies a tensor to memory of its own; a variable would take over what it is given."""
    try:
        return tensorflow.raw_ops.DeepCopy(x=tensor)
    except tensorflow.errors.OpError:  # There is no kernel for some types.
        return tensorflow.constant(tensor.numpy(), dtype=tensor.dtype)


def copy_variable(value: Any) -> Any:
    """Returns a copy of any variable of TensorFlow's."""
    if is_plain_variable(value):
        copies = VariableCopies()
        made = copies.copy(value)
        copies.finish()
        return made
    tensorflow = sys.modules["tensorflow"]
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
