"""Copies of what layers hold of their backend: values, modules, wrappers, functions.

No backend is imported: its objects can only exist if the program imported it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ramet import keras_internals as internals
from ramet.backends import package_of
from ramet.backends.jax import (
    Jax,
    compile_alike,
    is_derivative_rule,
    is_jax_array,
    is_jax_reference,
)
from ramet.backends.tensorflow import (
    SENTINEL,
    is_bound_tensorflow,
    is_list_wrapper,
    is_tensorflow_structure,
    tensorflow_content,
    wrap_alike,
)
from ramet.backends.torch import (
    is_parameter_class,
    is_torch_module,
    is_torch_parameter,
    is_torch_tensor,
    is_torch_tensor_class,
)
from ramet.backends.values import copy_value
from ramet.copying.any_object import copy_by_attributes, copy_by_reduction
from ramet.copying.functions import reaches_state
from ramet.copying.handlers import Registry, Uncopyable
from ramet.copying.immutable import keep
from ramet.copying.keras_state import keep_instances

if TYPE_CHECKING:
    from ramet.copying.deep_copy import Copier

# --- TensorFlow -------------------------------------------------------------------------

copies_tensorflow = Registry()


def _is_tensorflow(cls: type) -> bool:
    return package_of(cls) == "tensorflow"


@copies_tensorflow.where(lambda cls: _is_tensorflow(cls) and is_list_wrapper(cls))
def copy_list_wrapper(copier: "Copier", value: Any) -> Any:
    """Copy a list that TensorFlow wrapped.

    Not by its constructor, which tracks the items: shells have no tracker yet.
    """
    twin = copier.memo[id(value)] = internals.empty_like(value)
    for name, item in value.__dict__.items():
        if name != SENTINEL:
            twin.__dict__[name] = copier.copy(item)
    return twin


copies_tensorflow.where(lambda cls: _is_tensorflow(cls) and is_tensorflow_structure(cls))(
    copy_by_attributes
)


@copies_tensorflow.where(_is_tensorflow)
def copy_tensorflow(copier: "Copier", value: Any) -> Any:
    """Copy any other object of TensorFlow."""
    wrapper = tensorflow_content(value)
    if wrapper is not None:
        copier.alive.append(wrapper)
        twin = wrap_alike(value, copier.copy(wrapper))
        return copier.memo.setdefault(id(value), twin)
    if is_bound_tensorflow(value):
        raise Uncopyable(value)
    rebind = getattr(value, "_clone", None)
    if rebind is not None and hasattr(value, "python_function"):
        function = value.python_function
        if not reaches_state(function):
            return value
        return copier.memo.setdefault(id(value), rebind(copier.copy(function)))
    if copier.state.is_kept():
        return value
    copier.alive.append(value)
    return copier.memo.setdefault(id(value), copy_value(value))


# --- JAX --------------------------------------------------------------------------------

copies_jax = Registry()


def _is_jax(cls: type) -> bool:
    return package_of(cls) in Jax.packages


@copies_jax.where(lambda cls: _is_jax(cls) and (is_jax_array(cls) or is_jax_reference(cls)))
def copy_jax_value(copier: "Copier", value: Any) -> Any:
    """Copy an array. It may be a variable's, and training the source would delete it."""
    copier.alive.append(value)
    return copier.memo.setdefault(id(value), copy_value(value))


@copies_jax.where(lambda cls: _is_jax(cls) and issubclass(cls, Callable))
def copy_jax_function(copier: "Copier", value: Any) -> Any:
    """Keep a compiled function, unless it is bound to the source: then compile it for the copy."""
    inner = getattr(value, "__wrapped__", None)
    if is_derivative_rule(value):
        held = [*vars(value).values()]
        return copy_by_attributes(copier, value) if any(map(reaches_state, held)) else value
    if inner is None or not reaches_state(inner):
        return value
    compile_function = compile_alike(value)
    if compile_function is None:
        raise Uncopyable(value)
    return copier.memo.setdefault(id(value), compile_function(copier.copy(inner)))


copies_jax.where(_is_jax)(keep)

# --- PyTorch ----------------------------------------------------------------------------

copies_torch = Registry()


def _is_torch(cls: type) -> bool:
    return package_of(cls) == "torch"


copies_torch.where(lambda cls: _is_torch(cls) and is_torch_module(cls))(copy_by_attributes)


@copies_torch.where(lambda cls: _is_torch(cls) or is_torch_tensor_class(cls))
def copy_torch(copier: "Copier", value: Any) -> Any:
    """Copy a tensor, also one of a user's class, or any other object of PyTorch."""
    if not is_torch_tensor(value):
        return copy_by_reduction(copier, value)
    if copier.state.is_kept() and is_torch_parameter(value):
        if is_parameter_class(type(value)):
            keep_instances(copier, type(value))
        return value
    if package_of(type(value)) != "torch":
        return copy_by_reduction(copier, value)
    return copier.memo.setdefault(id(value), copy_value(value))
