"""Functions of tensors that an edit puts into a graph, traced on tensors like those there."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet._arguments import check_depth
from ramet.building.trainable import traced_layers
from ramet.editing.inferred import Inferred
from ramet.errors import GraphError, OptionError
from ramet.graph import Graph, Layer, Ref, Spec
from ramet.graph.edits.resolve import TensorFunction
from ramet.graph.tree import Tree, leaves, map_tree
from ramet.tracing.trace import trace_between


def traced(function: TensorFunction, inner: Graph, args: Tree, kwargs: dict[str, Any]) -> Graph:
    """Return the calls that a function makes on some tensors of a graph, as a graph.

    Raises:
        OptionError: If it is neither a function of tensors nor one that makes a layer.
        GraphError: If it calls a layer of the model itself.
    """
    refs = [*dict.fromkeys(leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, Ref))]
    specs = Inferred(inner).specs(inner, refs)
    inputs = {ref: input_like(spec, inner) for ref, spec in zip(refs, specs, strict=True)}
    filled = map_tree(lambda leaf: inputs.get(leaf) if isinstance(leaf, Ref) else leaf, (args, {}))
    accepted = {
        key: map_tree(lambda leaf: inputs[leaf] if isinstance(leaf, Ref) else leaf, value)
        for key, value in kwargs.items()
        if _accepts(function, key, value)
    }
    shapes = ", ".join(str(spec.shape) for spec in specs)

    def call() -> Any:
        try:
            with internals.fresh_names():
                return function.function(*filled[0], **accepted)
        except Exception as error:
            raise _explained(function, error, shapes) from error

    known = traced_layers(function.graph)
    own = [layer for layer in all_layers(function.graph) if id(layer.origin) in known]
    return trace_call(call, [*inputs.values()], own, function.where)


def trace_call(
    call: Callable[[], Any], inputs: list[Any], own: Iterable[Layer], what: str
) -> Graph:
    """Trace a function of symbolic tensors, and leave the layers of the model as they are.

    Args:
        call: Calls the function.
        inputs: The symbolic tensors that it is called on.
        own: The layers of the model, which it must not call.
        what: How errors name the function.

    Raises:
        OptionError: If it returns something other than tensors.
        GraphError: If it calls a layer of the model itself, or uses an input of its own.
    """
    layers = {id(layer.origin): layer for layer in own}
    calls = {key: internals.count_calls(layer.origin) for key, layer in layers.items()}
    try:
        outputs = call()
        _check_tensors(outputs, what)
        graph = trace_between(inputs, outputs)
        _check_foreign(graph, layers, what)
        _check_strays(graph, what)
    except Exception:
        for key, layer in layers.items():
            internals.forget_calls(layer.origin, *calls[key])
        raise
    return graph


def all_layers(graph: Graph) -> list[Layer]:
    """List the layers of a graph and of those nested in it."""
    return [layer for visit in graph.walk() for layer in visit.graph.layers.values()]


def input_like(spec: Spec, graph: Graph) -> Any:
    """Return a symbolic input like a tensor of a graph.

    Keras records the product of a tensor and a number as sparse. It is not, unless an input is.
    """
    starts = [graph.calls[ref.call].outputs[ref.index] for ref in leaves(graph.inputs)]
    sparse = spec.sparse and any(start.sparse for start in starts)
    kinds = {"ragged": True} if spec.ragged else {}
    return keras.Input(batch_shape=spec.shape, dtype=spec.dtype, sparse=sparse, **kinds)


def _check_strays(graph: Graph, what: str) -> None:
    known = {ref.call for ref in leaves(graph.inputs)}
    for call in graph.calls.values():
        layer = None if call.layer is None else graph.layers[call.layer]
        if layer is not None and layer.is_input and call.name not in known:
            message = (
                f"{what} returns a tensor that depends on input '{call.layer}' of its own; let it "
                "compute with its parameters alone"
            )
            raise GraphError(message)


def _check_foreign(graph: Graph, own: Mapping[int, Layer], what: str) -> None:
    for layer in graph.layers.values():
        if id(layer.origin) in own:
            message = (
                f"{what} calls layer '{layer.name}' of the model itself; take it from a "
                "parameter `match` of a replacement, or make a new one"
            )
            raise GraphError(message)


def _check_tensors(outputs: Any, what: str) -> None:
    check_depth(outputs, f"what {what} returns")
    try:
        flat = keras.tree.flatten(outputs)
    except Exception as error:  # such as a dict with keys that cannot be sorted
        message = f"{what} returns a structure that Keras cannot read: {error}"
        raise OptionError(message) from error
    for output in flat:
        if not isinstance(output, keras.KerasTensor):
            message = (
                f"{what} returned {_shown(output)}; let it return tensors, or, where one layer is "
                "put in, that layer"
            )
            raise OptionError(message)


def _shown(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _accepts(function: TensorFunction, name: str, value: Any) -> bool:
    """Whether a function accepts a keyword argument of the call that it replaces."""
    try:
        parameters = inspect.signature(function.function).parameters.values()
    except (TypeError, ValueError):
        parameters = ()
    keywords = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(one.name == name and one.kind in keywords for one in parameters):
        return True
    if any(isinstance(leaf, Ref) for leaf in leaves(value)):
        message = (
            f"{function.where} is a function without a parameter '{name}', but a tensor is "
            f"passed under that name there; add that parameter to the function"
        )
        raise GraphError(message)
    return False


def _explained(function: TensorFunction, error: Exception, shapes: str) -> Exception:
    """Return what to raise for a function that failed on tensors.

    A function that was meant to return a layer fails on a missing attribute of a tensor. Then
    the error that it raised for the layer is the relevant one.
    """
    for_layer = isinstance(error, (AttributeError, TypeError)) and "KerasTensor" in str(error)
    if function.failure is not None and for_layer:
        function.failure.add_note(f"while making {function.where}")
        return function.failure
    if internals.raised_in_a_call(error):
        message = f"{function.where} cannot take {shapes}: {internals.reason_of(error)}"
        return GraphError(message)
    error.add_note(f"while calling {function.where} on tensors of shape {shapes}")
    return error
