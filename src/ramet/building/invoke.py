"""Call one layer on symbolic tensors, with errors that name the edit to blame."""

from collections.abc import Callable
from typing import Any

import keras

from ramet import backends
from ramet import keras_internals as internals
from ramet.building.remedy import remedy
from ramet.errors import GraphError
from ramet.graph import Call, Graph
from ramet.graph.journal import cause_of
from ramet.tracing.mask_slots import masked_arguments

_TIME_RANK = 2
"""Rank of a mask that says which steps of a sequence count."""


def invoke(  # noqa: PLR0913, PLR0917 the call, and what its errors name
    graph: Graph,
    call: Call,
    layer: Any,
    args: Any,
    kwargs: Any,
    path: Callable[[], str] | None = None,
) -> list[Any]:
    """Call a layer and returns its outputs, flat.

    Args:
        graph: The graph of the call.
        call: The call.
        layer: The live layer.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        path: Returns the path of the layer from the outermost graph, for messages.

    Raises:
        GraphError: If the layer cannot be called on these arguments. An exception from
            user code passes through, with a note that names the layer.
    """
    _check_masks(graph, call, layer, args, kwargs)
    try:
        with internals.whole_tracebacks():
            outputs = layer(*args, **kwargs)
    except Exception as error:
        where = f"layer '{layer.name}' ({type(layer).__name__}) of '{graph.name}'"
        if not internals.raised_in_a_call(error):
            error.add_note(f"while calling {where}{_blame(graph, call)}")
            raise
        shapes = _shapes((args, kwargs))
        before = "" if call.origin is None else _shapes(call.origin.node.input_tensors)
        expected = f" where it took {before}" if before and before != shapes else ""
        reason = internals.reason_of(error)
        if 'contain "."' in reason:
            reason = backends.current().why_not_named(layer.name) or reason
        place = layer.name if path is None else path()
        advice = remedy(graph, call, layer, (args, kwargs), place) if expected else ""
        message = f"{where} cannot take {shapes}{expected}: {reason}{advice}{_blame(graph, call)}"
        raise GraphError(message) from error
    return keras.tree.flatten(outputs)


def _blame(graph: Graph, call: Call) -> str:
    cause = cause_of(graph, call)
    return "" if cause is None else f"; this comes from edit {cause}"


def _shapes(tree: Any) -> str:
    tensors = [leaf for leaf in keras.tree.flatten(tree) if isinstance(leaf, keras.KerasTensor)]
    return ", ".join(str(tuple(tensor.shape)) for tensor in tensors) or "no tensors"


def _check_masks(graph: Graph, call: Call, layer: Any, args: Any, kwargs: Any) -> None:
    """Check that masks are as long as what they mask.

    On PyTorch a mask of another length would change the numbers without an error.
    """
    for name, tensor, mask in masked_arguments(layer, args, kwargs):
        if not (isinstance(mask, keras.KerasTensor) and isinstance(tensor, keras.KerasTensor)):
            continue
        shapes = tuple(mask.shape), tuple(tensor.shape)
        if _fits(layer, *shapes):
            continue
        sources = [internals.producer(t) for t in (mask, tensor)]
        maker, data = (s[0].operation.name if s else "an input" for s in sources)
        message = (
            f"the mask that '{maker}' makes for '{name}' of layer '{call.name}' in "
            f"'{graph.name}' has shape {shapes[0]}, but what it masks, made by '{data}', has "
            f"shape {shapes[1]}; pass a mask of that length, or none{_blame(graph, call)}"
        )
        raise GraphError(message)


def _fits(layer: Any, mask: tuple[int | None, ...], tensor: tuple[int | None, ...]) -> bool:
    own = backends.is_of_keras(type(layer))
    if own and len(mask) > len(tensor):
        return False
    if not own and len(mask) != _TIME_RANK:
        return True  # Only the user's layer knows what such a mask means.
    return all(
        size in (None, 1) or other is None or size == other
        for size, other in zip(mask, tensor, strict=False)
    )
