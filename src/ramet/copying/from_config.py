"""Layers re-created from their own configs: new, built, and with initial weights.

They provide fresh weights, and the locks that cannot be copied.
"""

from typing import Any

import keras

from ramet import keras_internals as internals


def remake(layer: Any, *, built: bool = True) -> Any | None:
    """Create a layer from its config and, if asked, build it for the same shapes.

    Keras's name counters are restored.

    Returns:
        The new layer, or `None` if the layer has no config, or cannot be created from it.
        Exceptions of user code pass through, with a note that names the layer.
    """
    try:
        # A function that was pickled into the config would have other globals.
        with internals.untouched_names(), internals.safe_deserialization():
            twin = type(layer).from_config(internals.live_config(layer))
            if built and layer.built:
                _build_alike(layer, twin)
            return twin
    except Exception as error:  # noqa: BLE001 a config fails in as many ways as there are authors
        raised = internals.unwrapped(error)
        if not internals.raised_by_user(raised) or isinstance(raised, NotImplementedError):
            return None
        noun = "layer" if isinstance(layer, keras.Layer) else type(layer).__name__
        raised.add_note(f"while re-creating {noun} '{layer.name}' from its config")
        raise raised from None


def _build_alike(layer: Any, twin: Any) -> None:
    shapes = layer.get_build_config()
    if shapes and not twin.built:
        twin.build_from_config(shapes)
    if not twin.built:
        twin.build(**(internals.build_shapes(layer) or {}))
