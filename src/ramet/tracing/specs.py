"""Specs of symbolic tensors, and inputs created from specs."""

from collections.abc import Mapping
from typing import Any, cast

import keras

from ramet import keras_internals as internals
from ramet._arguments import check_flag, shown
from ramet.errors import OptionError
from ramet.graph import Spec
from ramet.graph.names import did_you_mean
from ramet.graph.names import shown as texted


def unknown_tensor() -> Any:
    """Return a symbolic tensor of which nothing is known. No layer can be called on it."""
    return _Unknown((None, None), "float32")


class _Unknown(keras.KerasTensor):
    """A symbolic tensor of which nothing is known."""


def spec_of(tensor: Any) -> Spec:
    """Return the spec of a symbolic tensor, without its mask."""
    if isinstance(tensor, _Unknown):
        return Spec((), "", tensor.name, known=False)
    return Spec(
        shape=tuple(tensor.shape),
        dtype=str(tensor.dtype),
        name=tensor.name,
        sparse=bool(tensor.sparse),
        **internals.ragged_spec(tensor),
    )


def make_input(spec: Spec, options: Mapping[str, Any]) -> Any:
    """Create a symbolic input like a spec, except for some options of `keras.Input`.

    Raises:
        OptionError: If `keras.Input` does not accept them.
    """
    known = ("shape", "batch_size", "dtype", "sparse", "ragged", "optional", "name")
    for name in options:
        if name not in known:
            message = f"an input has no option '{name}'{did_you_mean(name, known)}; it has: {known}"
            raise OptionError(message)
    sizes = options.get("shape", spec.shape[1:])
    if not isinstance(sizes, (tuple, list)):
        what = shown(sizes)
        message = f"shape of an input must be a tuple of sizes without the batch, got {what}"
        raise OptionError(message)
    shape = tuple(cast("tuple[int | None, ...]", sizes))
    batch = options.get("batch_size", spec.shape[0] if spec.shape else None)
    kinds: dict[str, Any] = {"dtype": spec.dtype, "sparse": spec.sparse, "name": spec.name}
    if spec.ragged:
        kinds["ragged"] = True
    kinds |= {k: v for k, v in options.items() if k not in ("shape", "batch_size")}
    for key in kinds.keys() & {"sparse", "ragged", "optional"}:
        check_flag(kinds[key], f"{key} of an input")
    try:
        return keras.Input(batch_shape=(batch, *shape), **kinds)
    except Exception as error:
        texts = ", ".join(f"{key}={texted(value)}" for key, value in options.items())
        message = f"keras.Input does not accept {texts}: {internals.reason_of(error)}"
        raise OptionError(message) from error
