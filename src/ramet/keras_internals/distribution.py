"""Layouts of variables under `keras.distribution`: on which devices, and how they are sharded."""

import contextlib
from collections.abc import Generator, Iterable
from typing import Any

import keras
from keras.src.distribution.distribution_lib import Distribution, TensorLayout

from ramet import backends


def _layout(variable: Any) -> Any:
    return getattr(variable, "_layout", None)


class _Alike(Distribution):
    """Lays variables out like those of the same path; replicates all others."""

    def __init__(self, mesh: Any, layouts: dict[str, Any]) -> None:
        super().__init__(mesh)
        self._layouts = layouts

    def get_variable_layout(self, variable: Any) -> Any:
        """Return the layout of a new variable."""
        layout = _layout(variable) or self._layouts.get(variable.path)
        if layout is None or not _fits(layout, variable):
            return TensorLayout([None] * len(variable.shape), self.device_mesh)
        return layout

    def get_tensor_layout(self, path: Any) -> None:
        """Leave tensors where they are."""
        del path


def _scope() -> Any:
    """Return the user's distribution in scope, if the backend knows of any."""
    scope = keras.distribution.distribution() if backends.current().has_layouts else None
    return None if isinstance(scope, _Alike) else scope


@contextlib.contextmanager
def distributed_like(variables: Iterable[Any]) -> Generator[None]:
    """Distribute new variables like others, if no distribution is in scope.

    So a model that was created under a scope can be re-created outside of it: no variable has
    to fit on one device, and all are distributed.
    """
    before, layouts = keras.distribution.distribution(), dict[str, Any]()
    if backends.current().has_layouts and _scope() is None:
        layouts = {v.path: _layout(v) for v in variables if isinstance(_layout(v), TensorLayout)}
    if not layouts:
        yield
        return
    mesh = next(iter(layouts.values())).device_mesh
    keras.distribution.set_distribution(_Alike(mesh, layouts))
    try:
        yield
    finally:
        keras.distribution.set_distribution(before)


def lay_out(variable: Any, like: Any = None) -> None:
    """Lay a variable out as the user's scope would lay out a new one, or like another variable."""
    scope = _scope()
    if scope is not None:
        variable._layout = None
        _move(variable, scope.get_variable_layout(variable) if like is None else _layout(like))


def keep_layout(old: Any, new: Any) -> None:
    """Lay a variable out like the one that it replaces, unless a scope of the user's decides."""
    layout = _layout(old)
    if layout is not None and _scope() is None and _fits(layout, new):
        _move(new, layout)


def _fits(layout: Any, variable: Any) -> bool:
    """Whether a layout has as many axes as a variable, and divides its shape."""
    try:
        getattr(layout, "backend_layout", layout).shard_shape(tuple(variable.shape))
    except ValueError:
        return False
    return len(getattr(layout, "axes", variable.shape)) == len(variable.shape)


def _move(variable: Any, layout: Any) -> None:
    variable._layout = layout
    variable._direct_assign(variable._value)
