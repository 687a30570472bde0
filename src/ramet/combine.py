"""Several models made into one: side by side, or end to end."""

from collections.abc import Sequence
from typing import Any

from ramet.bridge.trace import trace
from ramet.errors import OptionError
from ramet.graph import Graph, combine


def merge(
    models: Sequence[Any], *, inputs: str = "shared", outputs: Any = None, name: str | None = None
) -> Graph:
    """Puts models side by side.

    A layer whose name is taken by another model's gets the name of its own model
    before it; the journal says so. A layer that two models share stays one.

    Args:
        models: Models or graphs.
        inputs: `"shared"` puts all on the inputs of the first; `"separate"` keeps every
            model's own, in a list.
        outputs: Which outputs, as a structure of the models' names, or a layer that makes
            one of all, such as `keras.layers.Average()`, or a function of the list of all,
            such as `lambda y: y[0] - y[1]`; a list of all by default.
        name: Name of the new model; all names in a row by default.

    Returns:
        A graph, to be edited on or built.

    Raises:
        GraphError: If inputs cannot be shared, since their shapes differ.
    """
    return combine.merge(_graphs(models), inputs, outputs, name)


def chain(*models: Any, name: str | None = None) -> Graph:
    """Puts models end to end: each takes what the one before it gives.

    Args:
        *models: Models or graphs.
        name: Name of the new model; all names in a row by default.

    Returns:
        A graph, to be edited on or built.

    Raises:
        GraphError: If one gives another number of tensors than the next one takes.
    """
    return combine.chain(_graphs(models), name)


def _graphs(models: Sequence[Any]) -> list[Graph]:
    if not isinstance(models, (list, tuple)):
        message = f"models must be a list of models, got a {type(models).__name__}"
        raise OptionError(message)
    if not models:
        message = "there are no models to put together; name at least one"
        raise OptionError(message)
    return [trace(model) for model in models]
