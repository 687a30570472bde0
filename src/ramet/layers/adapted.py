"""A layer with adapters: the class of the layer, with kernels that are read as adapted.

The class of an adapted Dense is `AdaptedDense`, a subclass of `Adapted` and of Dense. While such
a layer is called, its kernels are read as `kernel + update`, wherever they are inside it; nothing
else of the layer is different. All such classes are registered under one name: what the class is
made of stands in the config.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import keras

from ramet import keras_internals as internals
from ramet._words import ADAPTED
from ramet.layers.adapters import Adapters
from ramet.layers.kernels import kernel_at


class Adapted:
    """A layer with adapters; see `attach`."""

    if TYPE_CHECKING:
        adapters: Adapters
        name: str

    base_class: type = keras.layers.Layer
    """The class of the layer without adapters."""

    @property
    def trainable(self) -> bool:
        """Whether the adapters, and the layer if it trains with them, train."""
        return super().trainable  # type: ignore[misc] the class is made on demand  # that of the layer

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self.base_class.trainable.fset(self, value)  # type: ignore[attr-defined]  # a property
        self.settle()

    def settle(self) -> None:
        """Freeze what belongs to the layer, unless it trains with its adapters."""
        adapters = internals.attribute_of(self, "adapters")
        if adapters is None:
            return
        internals.set_paths(self, adapters)
        adapters.settle()
        if not vars(self).get("trains_base", False):
            own = {id(variable) for variable in adapters.variables}
            for variable in self.variables:  # type: ignore[attr-defined]  # that of a layer
                if id(variable) not in own:
                    variable.trainable = False

    def get_config(self) -> dict[str, Any]:
        """Return what the layer is without adapters, and the adapters."""
        base = super().get_config()  # type: ignore[misc] the class is made on demand  # that of the layer
        return {
            "name": self.name,
            "base": internals.described_as(self.base_class, base),
            "adapters": [entry.to_dict() for entry in self.adapters.entries],
            "trains_base": vars(self).get("trains_base", False),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Return a layer with adapters.

        Args:
            config: What `get_config` returns; other entries are arguments of the layer.

        Raises:
            TypeError: If it describes no layer.
        """
        rest = dict(config)
        base, entries = rest.pop("base"), rest.pop("adapters")
        trains_base = bool(rest.pop("trains_base", False))
        plain = keras.saving.deserialize_keras_object(
            {**base, "config": {**base["config"], **rest}}
        )
        if not isinstance(plain, keras.Layer):
            raise TypeError(f"adapters are of a layer, not of a {type(plain).__name__}")
        made = adapted_class(type(plain))
        layer = super(Adapted, made).from_config(internals.live_config(plain))  # type: ignore[misc] the class is made on demand
        return _with_adapters(layer, Adapters(entries), trains_base=trains_base)


def _check_kernels(layer: Any) -> None:
    """Check that a layer has the kernels that its adapters are for.

    Raises:
        ValueError: If it has others, since its config was changed or comes from a stranger.
    """
    for entry in layer.adapters.entries:
        for target in entry.targets:
            found = kernel_at(layer, target.held, target.variable)
            if found is None or internals.unpacked_shape(*found) != target.shape:
                message = (
                    f"adapter '{entry.name}' of layer '{layer.name}' is for a kernel "
                    f"'{target.path}' of shape {target.shape}, which the layer does not have"
                )
                raise ValueError(message)


@functools.cache
def adapted_class(base: type) -> type:
    """Return the class of a layer of some class with adapters."""
    if issubclass(base, Adapted):
        return base

    def adapted(method: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that reads the kernels as adapted."""

        @functools.wraps(method)
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            with self.adapters.applied(self) as instead:
                outputs = (instead or functools.partial(method, self))(*args, **kwargs)
            if internals.in_symbolic_scope():  # where a layer may make what its `build` did not
                _check_kernels(self)
                self.settle()
            return outputs

        return call

    layer: Any = base

    @functools.wraps(layer.build)
    def build(self: Any, *args: Any, **kwargs: Any) -> None:
        layer.build(self, *args, **kwargs)
        if all(part.built for part in internals.all_layers(self)):
            _check_kernels(self)
        self.settle()

    methods = {
        "__doc__": f"A {base.__name__} with adapters; see `ramet.adapt`.",
        "__module__": __name__,
        "base_class": base,
        "build": build,
        "call": adapted(layer.call),
        "quantized_call": adapted(layer.quantized_call),
    }
    cls = type(f"Adapted{base.__name__}", (Adapted, base), methods)
    keras.saving.register_keras_serializable(*ADAPTED.split(">"))(cls)
    return cls


adapted_class(keras.layers.Dense)  # so that the name is registered


def attach(layer: Any, adapters: Adapters, *, trains_base: bool = False) -> None:
    """Turn a built layer into one with adapters. Its variables stay what they are."""
    object.__setattr__(layer, "__class__", adapted_class(type(layer)))
    _with_adapters(layer, adapters, trains_base=trains_base)


def detach(layer: Any) -> None:
    """Turn a layer with adapters into what it was without."""
    internals.release(layer, "adapters")
    vars(layer).pop("trains_base", None)
    object.__setattr__(layer, "__class__", layer.base_class)


def _with_adapters(layer: Any, adapters: Adapters, *, trains_base: bool) -> Any:
    internals.hold_first(layer, "adapters", adapters)
    vars(layer)["trains_base"] = trains_base
    layer.settle()
    return layer
