"""TensorFlow: variables are resources, layers track their attributes, and lists are wrapped."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ramet.backends.base import Backend, Batch, Copy
from ramet.backends.memory import ALIGNMENT
from ramet.backends.resources import (
    VariableCopies,
    copy_resource,
    copy_variable,
    is_plain_variable,
    stand_in,
)

# --- the wrappers that TensorFlow puts around lists, dicts and tuples of layers -----------

SENTINEL = "_self_attribute_sentinel"
"""The attribute of wrapped lists that says whom to notify of changes."""


def is_record(name: str) -> bool:
    """Whether an attribute of a layer is TensorFlow's own record of others."""
    return str(name).startswith("_self_")


def is_list_wrapper(cls: type) -> bool:
    """Whether a class is that of wrapped lists."""
    return cls.__name__ == "ListWrapper" and _is_tensorflow(cls)


def _is_tensorflow(cls: type) -> bool:
    return cls.__module__.startswith("tensorflow.")


def tensorflow_content(value: Any) -> Any | None:
    """Return the plain content of a wrapped dict or tuple, or None if it is not wrapped."""
    plain = {"_DictWrapper": dict, "_TupleWrapper": tuple}
    cls = plain.get(type(value).__name__) if _is_tensorflow(type(value)) else None
    return None if cls is None else cls(value)


def wrap_alike(wrapper: Any, content: Any) -> Any:
    """Wrap a dict or tuple like another one, with its record of changes."""
    wrapped = type(wrapper)(content)
    for name in ("_self_non_string_key", "_self_external_modification"):
        if hasattr(wrapper, name):
            setattr(wrapped, name, getattr(wrapper, name))
    return wrapped


def replace_items(table: Any, items: Any) -> None:
    """Replace the items of a dict or set, which may be wrapped."""
    plain = getattr(table, "__wrapped__", table)
    plain.clear()
    plain.update(items)
    if plain is not table:
        table._update_snapshot()  # noqa: SLF001 else saving takes it for a change by the user


def is_tensorflow_variable(value: Any) -> bool:
    """Whether a value is a variable of TensorFlow's own."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(value, tensorflow.Variable)


_LISTED = "_self_unconditional_checkpoint_dependencies"
_BY_NAME = "_self_unconditional_dependency_names"


def records_without(fields: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Return the records that checkpoints go by, without those of some attributes."""
    if _LISTED not in fields or _BY_NAME not in fields:
        return {}
    return {
        _LISTED: [record for record in fields[_LISTED] if record.name not in names],
        _BY_NAME: {name: item for name, item in fields[_BY_NAME].items() if name not in names},
    }


# --- objects that hold others -------------------------------------------------------------


def is_bound_tensorflow(value: Any) -> bool:
    """Whether a value of TensorFlow's is bound to the variables of one model."""
    tensorflow = sys.modules["tensorflow"]
    if isinstance(value, (tensorflow.train.Checkpoint, tensorflow.train.CheckpointManager)):
        return True
    traced = isinstance(value, tensorflow.types.experimental.ConcreteFunction)
    return traced and bool(value.variables)


def is_tensorflow_structure(cls: type) -> bool:
    """Whether instances of a TensorFlow class only hold others: modules, dependencies."""
    named = cls.__name__ == "TrackableReference"
    return named or issubclass(cls, sys.modules["tensorflow"].Module)


class TensorFlow(Backend):
    """Tensors, variables, lookup tables and generators."""

    packages = ("tensorflow",)
    copies_ahead = True
    has_strings = True

    def copy_for(self, cls: type) -> Copy:
        """Return a function that copies variables, tables or generators; tensors are immutable."""
        return copy_variable if issubclass(cls, self.package.Variable) else copy_resource

    def batch(self) -> Batch:
        """Return copies of variables, made in the background."""
        return VariableCopies(self)

    def written(self, value: Any) -> Any:
        """Return the value of a counter; other variables do not reveal when they are written to."""
        is_counter = value.shape.rank == 0 and value.dtype.is_integer
        return int(value.numpy()) if is_counter else id(value)  # a mirrored one is no number

    def is_tensor(self, value: Any) -> bool:
        """Whether a value is a tensor, sparse and ragged ones included, or a variable."""
        return self.package.is_tensor(value)

    def is_symbolic(self, value: Any) -> bool:
        """Whether a value is a tensor in the graph of a function."""
        return isinstance(value, self.package.Tensor) and not hasattr(value, "numpy")

    def to_numpy(self, value: Any) -> Any:
        """Return the values of a tensor; of a ragged one, those of the padded tensor."""
        if isinstance(value, self.package.SparseTensor):
            value = self.package.sparse.to_dense(value)
        if isinstance(value, self.package.RaggedTensor):
            value = value.to_tensor()
        return value.numpy() if self.is_tensor(value) else super().to_numpy(value)

    def readable(self, value: Any) -> Any:
        """Return the values of a variable or tensor on the host in their own memory."""
        if is_plain_variable(value):
            value = value.read_value()
        try:
            return np.asarray(memoryview(value))
        except (TypeError, ValueError):  # on a device, or of a type that NumPy does not know
            return self.to_numpy(value)

    def assign(self, variable: Any, array: np.ndarray) -> None:
        """Assign an array; its memory is taken over if it is aligned."""
        if array.ctypes.data % ALIGNMENT or array.dtype.kind not in "fiu":
            super().assign(variable, array)
        else:
            dlpack = self.package.experimental.dlpack
            variable.assign(dlpack.from_dlpack(array.__dlpack__()))

    def stand_in(self, value: Any) -> Any:
        """Return a variable without value."""
        return stand_in(value) if is_plain_variable(value) else super().stand_in(value)

    def wait_for(self, values: list[Any]) -> None:
        """Wait until the devices are done."""
        if any(self.is_tensor(value) for value in values):
            self.package.test.experimental.sync_devices()

    def is_state(self, value: Any) -> bool:
        """Whether a value is a variable or module."""
        tensorflow = sys.modules.get("tensorflow")
        return tensorflow is not None and isinstance(
            value, (tensorflow.Variable, tensorflow.Module)
        )

    def gradients(self, function: Callable[[list[Any]], Any], values: list[Any]) -> list[Any]:
        """Return the gradients of a function of tensors, which returns a number."""
        tensors = [self.package.convert_to_tensor(value) for value in values]
        with self.package.GradientTape() as tape:
            tape.watch(tensors)
            number = function(tensors)
        slopes = tape.gradient(number, tensors)
        convert = self.package.convert_to_tensor  # those of an Embedding are sparse
        return [None if slope is None else convert(slope) for slope in slopes]

    def sparse_tensor(self, values: np.ndarray) -> Any:
        """Return a sparse tensor."""
        return self.package.sparse.from_dense(values)

    def set_attribute(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute in the record that checkpoints go by, if the owner has one."""
        tracked = self.package.__internal__.tracking.AutoTrackable
        if isinstance(owner, tracked):
            vars(owner).pop(name, None)
            tracked.__setattr__(owner, name, value)
        else:
            super().set_attribute(owner, name, value)


_OPTIONS = ("_jit_compile", "_reduce_retracing", "_autograph")


def tensorflow_options(compiled: Any) -> dict[str, Any]:
    """Return the options that a function was compiled with, as far as they can be read."""
    fields = getattr(compiled, "__dict__", {})
    options = {name.lstrip("_"): fields[name] for name in _OPTIONS if name in fields}
    signature = fields.get("_function_type")
    return options | ({} if signature is None else {"signature": str(signature)})
