"""A limit on the memory for new layers, checked before it is requested."""

import contextlib
import contextvars
import functools
import math
import re
import sys
from collections.abc import Generator
from typing import Any

import keras
from keras.src.backend.common.symbolic_scope import in_symbolic_scope
from keras.src.backend.common.variables import Variable

_TORCH = "keras.src.backend.torch.core"


class TooLargeError(Exception):
    """Variables need more memory than is allowed; the message says which and how much."""


class _Limit:
    def __init__(self, size: int, tensors: int) -> None:
        self.size, self.left, self.tensors = size, size, tensors

    def count_tensor(self) -> None:
        """Count a symbolic tensor."""
        self.tensors -= 1
        if self.tensors < 0:
            raise TooLargeError("its layers have more outputs than the config has calls for")

    def count(self, variable: Any, shape: tuple[int, ...]) -> None:
        """Count a variable that is about to be created."""
        self.left -= math.prod(shape) * _item_size(str(variable.dtype))
        if self.left < 0:
            shown = "x".join(f"{size:.3g}" for size in shape)
            message = (
                f"variable '{variable.path}' is to have {shown} values, and all variables together "
                f"more than {self.size} bytes"
            )
            raise TooLargeError(message)


_limit = contextvars.ContextVar[_Limit | None]("limit", default=None)


@contextlib.contextmanager
def limited_memory(size: int, tensors: int) -> Generator[None]:
    """Limit the memory of what layers create, in this thread.

    On PyTorch, Keras infers a shape by running a layer if nothing else works. No layer is run here.

    Args:
        size: How many bytes variables may take together.
        tensors: How many symbolic tensors there may be.

    Raises:
        TooLargeError: Before the memory for a variable is requested, or for too many tensors.
    """
    _count_variables()
    _count_tensors()
    if _TORCH in sys.modules:
        _keep_from_running()
    token = _limit.set(_Limit(size, tensors))
    try:
        yield
    finally:
        _limit.reset(token)


@functools.cache
def _count_variables() -> None:
    """Have Keras report each variable. It stays so: other threads may be creating variables."""
    kind: Any = Variable
    validate = kind._validate_shape

    @functools.wraps(validate)
    def counted(variable: Any, shape: Any) -> tuple[int, ...]:
        valid = validate(variable, shape)
        limit = _limit.get()
        if limit is not None and variable._shape is None:  # some backends ask twice
            limit.count(variable, valid)
        return valid

    kind._validate_shape = counted


@functools.cache
def _count_tensors() -> None:
    """Have Keras report each symbolic tensor. It stays so, as above."""
    kind: Any = keras.KerasTensor
    create = kind.__init__

    @functools.wraps(create)
    def counted(tensor: Any, *args: Any, **kwargs: Any) -> None:
        limit = _limit.get()
        if limit is not None:
            limit.count_tensor()
        create(tensor, *args, **kwargs)

    kind.__init__ = counted


@functools.cache
def _keep_from_running() -> None:
    """Have Keras infer shapes without values only. It stays so, as above."""
    core: Any = sys.modules[_TORCH]
    scope = core.device_scope

    def checked(device: Any) -> contextlib.AbstractContextManager[Any]:
        if _limit.get() is not None and in_symbolic_scope() and str(device) != "meta":
            raise MemoryError("a shape can only be inferred by running the layer")
        return scope(device)

    core.device_scope = checked


def _item_size(dtype: str) -> int:
    bits = re.search(r"\d+", dtype)
    return max(1, int(bits[0]) // 8) if bits else 1
