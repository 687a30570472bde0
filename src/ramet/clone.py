"""`clone`, the same model twice; `clone_model`, Keras's own with its gaps closed."""

import sys
from collections.abc import Callable
from numbers import Integral
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.checks import check_model, check_options
from ramet.bridge.copies import copy_model
from ramet.errors import OptionError


def clone(
    model: Any,
    *,
    weights: str = "copy",
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Copies a Keras model exactly.

    The copy has the same class, names, configuration, attributes, sharing,
    state, optimizer and metrics, and gives the same numbers, bit by bit. Nothing
    that changes is shared with the source, and the source is not changed: it is
    read, never called. Variables lie on the devices where the source's lie; fresh
    ones as the `keras.distribution` in scope says, if there is one. Costs one copy
    of the weights, plus O(layers).

    Args:
        model: A Keras model of any kind, or a Graph.
        weights: `"copy"` gives every variable a copy of its value. `"share"`
            puts new layers on the same variables. `"fresh"` has the layers' own
            initializers make new values; optimizer slots, metrics and seeds
            start anew as well, and what `adapt` computed from data is kept.
        seed: Makes fresh weights reproducible; only with `weights="fresh"`.
        name: Name of the new model; the old one's by default. Layers and
            variables keep their names.

    Returns:
        The new model.

    Raises:
        ModelError: If it is not a Keras model.
        OptionError: If an option has a value that it cannot have.
        StateError: If there are no weights to copy or share yet, or a weight's
            initializer cannot be known.
        CopyError: If a layer holds something that cannot be copied.
    """
    check_options(weights, seed, name)
    if _is_graph(model):
        return model.build(weights=weights, seed=seed, name=name)
    check_model(model)
    return copy_model(model, weights=weights, seed=seed, name=name)


def clones(model: Any, n: int, *, weights: str = "copy", seed: int | None = None) -> list[Any]:
    """Copies a Keras model several times.

    Costs as much as to clone it as often: what a copy takes is the time to make its
    objects and to copy its values, and that is taken anew by each.

    Args:
        model: A Keras model of any kind, or a Graph.
        n: How many copies to make.
        weights: What becomes of the variables; see `clone`. With `"share"`, all copies
            have the variables of the source.
        seed: Makes fresh weights reproducible; only with `weights="fresh"`. The first
            copy is `clone(model, weights="fresh", seed=seed)`, the next has `seed + 1`.

    Returns:
        The new models, each independent of the others like of the source.

    Raises:
        OptionError: If `n` is no number of copies; and whatever `clone` raises.
    """
    check_options(weights, seed, None)
    if isinstance(n, bool) or not isinstance(n, Integral) or n < 0:
        message = f"n must be a number of copies, 0 or more, got {n!r}"
        raise OptionError(message)
    if not _is_graph(model):
        check_model(model)
    seeds = [None if seed is None else int(seed) + index for index in range(int(n))]
    made: list[Any] = []
    with internals.paused_collector():
        for each in seeds:
            # What an edit brought in may have drawn values of its own, once for all copies.
            source = made[0] if made and _is_graph(model) and weights != "fresh" else model
            made.append(clone(source, weights=weights, seed=each))
    return made


def clone_model(
    model: Any,
    input_tensors: Any = None,
    clone_function: Callable[[Any], Any] | None = None,
    call_function: Callable[..., Any] | None = None,
    recursive: bool = False,  # noqa: FBT001, FBT002 the signature is Keras's
) -> Any:
    """Does what `keras.models.clone_model` does, also where that refuses.

    The new model has freshly initialized weights. To copy them too, use
    `ramet.clone`.

    Args:
        model: A Keras model of any kind.
        input_tensors: Symbolic tensors to build the model on, in the structure of
            `model.input`. One that is not a Keras input is replaced by an input
            named `input_wrapper_for_<name>`.
        clone_function: Makes the new layer for a layer (not for inputs). It may
            return the layer itself. By default, a layer is made from its config,
            or copied if it has none.
        call_function: Calls a new layer: `call_function(layer, *args, **kwargs)`.
            It may call others before or after.
        recursive: Whether nested models are cloned by the same functions, instead
            of being handed to `clone_function`.

    Returns:
        A new model of the same class. A Sequential model whose layers no longer
        form a chain becomes a Functional one.

    Raises:
        ModelError: If it is not a Keras model.
        OptionError: If functions or inputs are given for a model that has no
            graph, or the inputs do not fit.
        GraphError: If a new layer lacks an output that is used.
    """
    check_model(model)
    changed = (input_tensors, clone_function, call_function)
    if all(option is None for option in changed):
        return clone(model, weights="fresh")
    from ramet.bridge.rerun import Rerun  # noqa: PLC0415 `clone` needs no graph, nor its modules

    rerun = Rerun(clone_function=clone_function, call_function=call_function, recursive=recursive)
    if internals.functional_of(model) is None and not isinstance(model, keras.Sequential):
        message = (
            f"model '{model.name}' ({type(model).__name__}) has no graph, so "
            "input_tensors, clone_function and call_function have nothing to work on; "
            "leave them out, or use a Functional or Sequential model"
        )
        raise OptionError(message)
    with internals.room_for(model):
        return rerun.clone(model, input_tensors)


def _is_graph(thing: Any) -> bool:
    """Tells whether a thing is a Graph; there is none as long as nobody has imported its class."""
    module = sys.modules.get("ramet.graph")
    return module is not None and isinstance(thing, module.Graph)
