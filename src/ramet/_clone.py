"""`clone` and `clones`: exact copies; `clone_model`: a drop-in for the one of Keras."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

import keras

from ramet import keras_internals as internals
from ramet._arguments import check_count, check_depth, check_flag, check_function
from ramet._words import Weights
from ramet.copying.models import copy_model
from ramet.errors import OptionError
from ramet.tracing.failures import explained
from ramet.tracing.options import check_model, check_options

if TYPE_CHECKING:  # cloning a model does not import the graph modules
    from ramet.graph import Graph


Model = TypeVar("Model")

_MOST = 100_000
"""How many copies can be made at once."""


@overload
def clone(
    model: "Graph", *, weights: Weights = "copy", seed: int | None = None, name: str | None = None
) -> Any: ...
@overload
def clone(
    model: Model, *, weights: Weights = "copy", seed: int | None = None, name: str | None = None
) -> Model: ...
def clone(
    model: Any,
    *,
    weights: Weights = "copy",
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Copy a Keras model exactly.

    The copy has the same class, names, configuration, attributes, sharing,
    state, optimizer and metrics, and computes the same numbers, bit for bit. It shares
    no mutable state with the source, and the source is neither called nor changed.
    Variables are placed on the devices of the source's variables; fresh ones follow
    the `keras.distribution` in scope, if there is one. Takes one copy of the weights,
    plus O(layers).

    Args:
        model: A Keras model of any kind, or a Graph.
        weights: `"copy"` copies the value of every variable. `"share"` creates new
            layers on the same variables. `"fresh"` re-initializes the weights with the
            layers' own initializers, and resets optimizer slots, metrics and seeds;
            what `adapt` computed from data is kept.
        seed: Makes fresh weights reproducible; only with `weights="fresh"`.
        name: Name of the new model; by default that of the source. Layers and
            variables keep their names.

    Returns:
        A new model of the same class.

    Raises:
        ModelError: If the argument is not a Keras model.
        OptionError: If the value of an option is invalid.
        StateError: If there are no weights to copy or share yet, the initializer of a
            weight is unknown, or the model is being trained by another thread.
        CopyError: If a layer holds something that cannot be copied.

    Examples:
        >>> twin = ramet.clone(model)
        >>> bool(ramet.verify(model, twin))
        True
        >>> member = ramet.clone(model, weights="fresh", seed=7)
    """
    check_options(weights, seed, name)
    if _is_graph(model):
        return model.build(weights=weights, seed=seed, name=name)
    check_model(model)
    return copy_model(model, weights=weights, seed=seed, name=name)


@overload
def clones(
    model: "Graph", n: int, *, weights: Weights = "copy", seed: int | None = None
) -> list[Any]: ...
@overload
def clones(
    model: Model, n: int, *, weights: Weights = "copy", seed: int | None = None
) -> list[Model]: ...
def clones(model: Any, n: int, *, weights: Weights = "copy", seed: int | None = None) -> list[Any]:
    """Copy a Keras model several times. Takes as long as calling `clone` `n` times.

    Args:
        model: A Keras model of any kind, or a Graph.
        n: How many copies to make.
        weights: As in `clone`. With `"share"`, all copies have the variables of the
            source.
        seed: Makes fresh weights reproducible; only with `weights="fresh"`. The first
            copy is `clone(model, weights="fresh", seed=seed)`, the next has `seed + 1`.

    Returns:
        The new models, independent of one another and of the source.

    Raises:
        OptionError: If `n` is not a valid number of copies. `clone` may raise other errors.

    Examples:
        >>> ensemble = ramet.clones(model, 3, weights="fresh", seed=7)
        >>> [member.name for member in ensemble]
        ['classifier', 'classifier', 'classifier']
    """
    check_options(weights, seed, None)
    check_count(n, "n must be a number of copies", _MOST)
    if not _is_graph(model):
        check_model(model)
    seeds = [None if seed is None else int(seed) + index for index in range(int(n))]
    copies: list[Any] = []
    with internals.paused_collector():
        for each in seeds:
            # Layers that an edit adds draw their values once, for all copies.
            source = copies[0] if copies and _is_graph(model) and weights != "fresh" else model
            copies.append(clone(source, weights=weights, seed=each))
    return copies


def clone_model(
    model: Any,
    input_tensors: Any = None,
    clone_function: Callable[[Any], Any] | None = None,
    call_function: Callable[..., Any] | None = None,
    recursive: bool = False,  # noqa: FBT001, FBT002 the signature is Keras's
) -> Any:
    """Clone a model as `keras.models.clone_model` does, even where that fails.

    The new model has freshly initialized weights. To copy them too, use
    `ramet.clone`.

    Args:
        model: A Keras model of any kind.
        input_tensors: Symbolic tensors to build the model on, in the structure of
            `model.input`. One that is not a Keras input is replaced by an input
            named `input_wrapper_for_<name>`.
        clone_function: Returns the new layer for a layer (not called for inputs). It may
            return the layer itself. By default, a layer is re-created from its config,
            or copied if it has none.
        call_function: Calls a new layer: `call_function(layer, *args, **kwargs)`.
            It may call other layers before or after.
        recursive: Whether to clone nested models with the same functions, instead of
            passing them to `clone_function`.

    Returns:
        A new model of the same class. A Sequential model whose layers no longer
        form a chain becomes a Functional one.

    Raises:
        ModelError: If the argument is not a Keras model.
        OptionError: If functions or inputs are passed for a model that has no
            graph, or the inputs do not fit.
        GraphError: If a new layer lacks an output that is used.

    Examples:
        >>> twin = ramet.clone_model(model)  # with fresh weights, as in Keras
        >>> twin.get_layer("conv") is model.get_layer("conv")
        False
    """
    check_model(model)
    _check_functions(clone_function, call_function)
    check_flag(recursive, "recursive")
    _check_structure(input_tensors)
    changed = (input_tensors, clone_function, call_function)
    if all(option is None for option in changed):
        return clone(model, weights="fresh")
    # `clone` needs no graph, and none of what imports it.
    from ramet.building.clone_model import LayerwiseClone  # noqa: PLC0415 see above

    layerwise = LayerwiseClone(
        clone_function=clone_function, call_function=call_function, recursive=recursive
    )
    if internals.functional_of(model) is None and not isinstance(model, keras.Sequential):
        message = (
            f"model '{model.name}' ({type(model).__name__}) has no graph, so "
            "input_tensors, clone_function and call_function have nothing to work on; "
            "leave them out, or use a Functional or Sequential model"
        )
        raise OptionError(message)
    with explained(model), internals.room_for(model):
        return layerwise.clone(model, input_tensors)


def _check_structure(input_tensors: Any) -> None:
    check_depth(input_tensors, "input_tensors")
    try:
        keras.tree.flatten(input_tensors)
    except Exception as error:  # such as a dict with keys that cannot be sorted
        message = f"input_tensors has a structure that Keras cannot read: {error}"
        raise OptionError(message) from error


def _check_functions(clone_function: Any, call_function: Any) -> None:
    if clone_function is not None:
        check_function(clone_function, "clone_function", 1, "a layer")
    if call_function is not None:
        check_function(call_function, "call_function", 2, "a layer and what it is called on")


def _is_graph(thing: Any) -> bool:
    """Whether something is a Graph: there is none before its class is imported."""
    module = sys.modules.get("ramet.graph")
    return module is not None and isinstance(thing, module.Graph)
