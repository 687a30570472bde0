"""A layer made again from its own config: new, built, and like on the first day.

The way for what has no structural copy, and the source of fresh weights.
"""

from typing import Any

import keras

from ramet.bridge import internals


def remake(layer: Any, *, built: bool = True) -> Any | None:
    """Makes a layer from its config and, if asked, builds it for the same shapes.

    Keras's counters of names are as before.

    Returns:
        The new layer, or `None` if the layer cannot tell its config, or cannot be
        made from it. An exception of the user's own code passes through, with a
        note that names the layer.
    """
    try:
        with internals.untouched_names():
            made = type(layer).from_config(layer.get_config())
            if built and layer.built:
                _build_alike(layer, made)
            return made
    except Exception as error:  # noqa: BLE001 a config fails in as many ways as there are authors
        raised = internals.unwrapped(error)
        if not internals.raised_by_user(raised) or isinstance(raised, NotImplementedError):
            return None
        noun = "layer" if isinstance(layer, keras.Layer) else type(layer).__name__
        raised.add_note(f"while making {noun} '{layer.name}' again from its config")
        raise raised from None


def _build_alike(layer: Any, made: Any) -> None:
    shapes = layer.get_build_config()
    if shapes and not made.built:
        made.build_from_config(shapes)
    if not made.built:
        made.build(**(internals.build_shapes(layer) or {}))
