"""Where variables lie: on which devices, and how they are cut, under `keras.distribution`."""

import contextlib
from collections.abc import Generator, Iterable
from typing import Any

import keras
from keras.src.distribution.distribution_lib import Distribution, TensorLayout


def _layout(variable: Any) -> Any:
    return getattr(variable, "_layout", None)


class _Alike(Distribution):
    """Lays variables out like those of the same path; others are on all devices alike."""

    def __init__(self, mesh: Any, layouts: dict[str, Any]) -> None:
        super().__init__(mesh)
        self._layouts = layouts

    def get_variable_layout(self, variable: Any) -> Any:
        """Returns the layout that a variable gets."""
        layout = _layout(variable) or self._layouts.get(variable.path)
        if layout is None or not _fits(layout, variable):
            return TensorLayout([None] * len(variable.shape), self.device_mesh)
        return layout

    def get_tensor_layout(self, path: Any) -> None:
        """Leaves tensors where they are."""
        del path


def _scope() -> Any:
    """Returns the user's distribution in scope; JAX's variables alone know of it."""
    scope = keras.distribution.distribution() if keras.backend.backend() == "jax" else None
    return None if isinstance(scope, _Alike) else scope


@contextlib.contextmanager
def distributed_like(variables: Iterable[Any]) -> Generator[None]:
    """Lets new variables be distributed like others, if no distribution is in scope.

    So a model that was made under a scope can be made anew outside of it, without a
    variable that has to fit on one device, and without some on one device and some on all.
    """
    before, layouts = keras.distribution.distribution(), dict[str, Any]()
    if keras.backend.backend() == "jax" and _scope() is None:
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
    """Lays a variable out as the user's scope would if it were new, or like another one."""
    scope = _scope()
    if scope is not None:
        variable._layout = None
        _move(variable, scope.get_variable_layout(variable) if like is None else _layout(like))


def keep_layout(old: Any, new: Any) -> None:
    """Lays a variable out like the one whose place it takes, unless the user's scope tells how."""
    layout = _layout(old)
    if layout is not None and _scope() is None and _fits(layout, new):
        _move(new, layout)


def _fits(layout: Any, variable: Any) -> bool:
    """Tells whether a variable has as many axes, and can be cut into as many parts."""
    try:
        getattr(layout, "backend_layout", layout).shard_shape(tuple(variable.shape))
    except ValueError:
        return False
    return len(getattr(layout, "axes", variable.shape)) == len(variable.shape)


def _move(variable: Any, layout: Any) -> None:
    variable._layout = layout
    variable._direct_assign(variable._value)
