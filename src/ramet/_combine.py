"""`merge` and `chain`: combine several models into one graph."""

from collections.abc import Sequence
from typing import Any, Literal

from ramet.errors import OptionError
from ramet.graph import Graph
from ramet.graph.edits import combine
from ramet.tracing.trace import trace


def merge(
    models: Sequence[Any],
    *,
    inputs: Literal["shared", "separate"] = "shared",
    outputs: Any = None,
    name: str | None = None,
) -> Graph:
    """Combine models side by side.

    Layers that have the same name in two models are prefixed with the name of their model; the
    journal says so. A layer that two models share stays one layer.

    Args:
        models: Models or graphs.
        inputs: `"shared"` connects all models to the inputs of the first; `"separate"`
            keeps the inputs of each model, in a list.
        outputs: Which outputs to return, as a structure of model names; or a layer that
            combines all outputs, such as `keras.layers.Average()`; or a function of the list
            of all outputs, such as `lambda y: y[0] - y[1]`. By default, a list of all.
        name: Name of the new model; by default all names, joined.

    Returns:
        A graph, to edit further or to build.

    Raises:
        GraphError: If inputs cannot be shared because their shapes differ.

    Examples:
        >>> first, second = ramet.clones(model, 2, weights="fresh", seed=1)
        >>> second.name = "other"
        >>> ensemble = ramet.merge([first, second], outputs=layers.Average()).build()
        >>> ensemble.output_shape
        (None, 3)
    """
    return combine.merge(_graphs(models), inputs, outputs, name)


def chain(*models: Any, name: str | None = None) -> Graph:
    """Chain models end to end: the outputs of each are the inputs of the next.

    Args:
        *models: Models or graphs.
        name: Name of the new model; by default all names, joined.

    Returns:
        A graph, to edit further or to build.

    Raises:
        GraphError: If a model has a different number of outputs than the next one has inputs.

    Examples:
        >>> head = keras.Sequential([keras.Input((3,)), layers.Softmax()], name="softmax")
        >>> ramet.chain(model, head).build().output_shape
        (None, 3)
    """
    return combine.chain(_graphs(models), name)


def _graphs(models: Sequence[Any]) -> list[Graph]:
    if not isinstance(models, (list, tuple)):
        message = f"models must be a list of models, got a {type(models).__name__}"
        raise OptionError(message)
    if not models:
        message = "there are no models to combine; pass at least one"
        raise OptionError(message)
    return [trace(model) for model in models]
