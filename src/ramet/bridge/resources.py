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
"""How many variables TensorFlow is asked to copy at once."""

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
    """Copies of TensorFlow's plain variables, made in batches.

    Their values are copied in the background, by a thread of TensorFlow's own, while the
    rest of a model is put together.
    """

    def __init__(self) -> None:
        """Starts without any variable to copy."""
        self._waiting: defaultdict[str, list[tuple[Any, Any]]] = defaultdict(list)
        self._executor: Any = None

    def copy(self, value: Any) -> Any:
        """Returns a copy of a variable. It has a value when all is finished."""
        made = object.__new__(type(value))
        made.__dict__.update(value.__dict__)
        pairs = self._waiting[value.device]
        pairs.append((value, made))
        if len(pairs) >= _BATCH:
            self._give_values(value.device, pairs)
        return made

    def finish(self) -> None:
        """Gives all copies their values."""
        for device, pairs in self._waiting.items():
            self._give_values(device, pairs)
        if self._executor is not None:
            self._executor.wait()

    def _give_values(self, device: str, pairs: list[tuple[Any, Any]]) -> None:
        """Gives copies of variables on one device memory of their own, and values."""
        tensorflow = sys.modules["tensorflow"]
        blindly: list[tuple[Any, Any]] = []
        others: list[tuple[Any, Any]] = []
        with tensorflow.init_scope(), tensorflow.device(device):
            # Before all else: with a handle that is not there yet, TensorFlow waits.
            for value, made in pairs:
                _give_handle(tensorflow, value, made)
                known = value.dtype.name in _COPIED_BLINDLY
                (blindly if known else others).append((value, made))
            with self._background(device, len(pairs)):
                for value, made in blindly:
                    _give_value(tensorflow, value, made)
            for value, made in others:
                _give_value(tensorflow, value, made)
        pairs.clear()

    def _background(self, device: str, count: int) -> contextlib.AbstractContextManager[None]:
        """Has operations on the host run by another thread, if they are many.

        Unless a thread of the user's runs them already: two would not keep the order.
        """
        known = cast("_Known", _known())
        if count < _BATCH or "CPU" not in device or known.is_async():
            return contextlib.nullcontext()
        if self._executor is None:
            self._executor = known.new_executor(enable_async=True)
        return known.executor_scope(self._executor)


def _give_handle(tensorflow: Any, value: Any, made: Any) -> None:
    """Gives a copy of a variable a place for its value.

    Does what `tf.Variable(value)` does, without what takes it four times as long.
    """
    known = cast("_Known", _known())
    old, fields = value.handle, made.__dict__
    base = fields["_handle_name"].partition(":")[0]
    handle = tensorflow.raw_ops.VarHandleOp(
        dtype=value.dtype,
        shape=value.shape,
        shared_name=known.anonymous,
        debug_name=base,
    )
    unique = f"{base}_{known.number()}"
    handle._handle_data = old._handle_data  # noqa: SLF001 what a trace knows of it
    handle._parent_trackable = weakref.ref(made)  # noqa: SLF001 the same
    handle._name, handle._unique_id = old._name, unique  # noqa: SLF001 the same
    fields["_handle"], fields["_unique_id"] = handle, unique


def _give_value(tensorflow: Any, value: Any, made: Any) -> None:
    raw = tensorflow.raw_ops
    tensor = raw.ReadVariableOp(resource=value.handle, dtype=value.dtype)
    raw.AssignVariableOp(resource=made.handle, value=_copy_tensor(tensorflow, tensor))


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
