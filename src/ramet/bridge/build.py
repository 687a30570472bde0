"""From a Graph, or a model, to a new Keras model."""

import contextlib
from collections.abc import Generator
from numbers import Integral
from typing import Any, Final

import keras

from ramet.bridge import internals
from ramet.bridge.copier import Copier
from ramet.bridge.fresh import refresh, refresh_training
from ramet.bridge.live import is_edited, live_of
from ramet.errors import GraphError, OptionError, StateError
from ramet.graph import Graph
from ramet.graph.names import did_you_mean

WEIGHTS: Final = ("copy", "share", "fresh")
"""What the variables of a new model can be."""


def build(graph: Graph, *, weights: str, seed: int | None, name: str | None) -> Any:
    """Makes a model of a graph that was traced from one; see `Graph.build`."""
    live = live_of(graph)
    check_options(weights, seed, name)
    if live.model is not None and internals.functional_of(live.model) is not live.function:
        message = f"model '{graph.name}' was rebuilt after it had been traced; trace it again"
        raise GraphError(message)
    if is_edited(graph):
        from ramet.bridge.edited import build_edited

        return build_edited(graph, weights=weights, seed=seed, name=name or graph.name)
    return copy_model(live.model, weights=weights, seed=seed, name=name or graph.name)


def copy_model(model: Any, *, weights: str, seed: int | None, name: str | None) -> Any:
    """Copies a model, with its graph if it has one."""
    check_options(weights, seed, name)
    check_has_values(model, weights)
    return Builder(weights).model(model, seed=seed, name=name)


def check_options(weights: Any, seed: Any, name: Any) -> None:
    """Checks the options that `build` and `clone` have in common.

    Raises:
        OptionError: If one has a value that it cannot have.
    """
    if not isinstance(weights, str) or weights not in WEIGHTS:
        known = ", ".join(f"'{word}'" for word in WEIGHTS)
        hint = did_you_mean(weights, WEIGHTS) if isinstance(weights, str) else ""
        message = f"unknown weights={weights!r}; expected one of {known}{hint}"
        raise OptionError(message)
    if seed is not None and weights != "fresh":
        message = (
            f"seed={seed!r} has no meaning with weights='{weights}', where nothing is "
            "drawn at random; leave it out, or ask for weights='fresh'"
        )
        raise OptionError(message)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, Integral)):
        message = f"seed must be an integer, got {seed!r}"
        raise OptionError(message)
    if name is not None and (not isinstance(name, str) or not name or "/" in name):
        message = f"name must be a string without '/', got {name!r}"
        raise OptionError(message)


def check_has_values(model: Any, weights: str) -> None:
    """Checks that a model has the values that are to be copied or shared.

    Raises:
        StateError: If it has not been built and has no weights yet.
    """
    if weights == "fresh" or model.built or model.weights:
        return
    layers = internals.all_layers(model)
    waiting = any(internals.may_create_weights(layer) for layer in layers[1:])
    if waiting or len(layers) == 1:
        message = (
            f"model '{model.name}' has not been built, so there are no weights to "
            f"{weights} yet; build it or call it on data first, or ask for "
            "weights='fresh'"
        )
        raise StateError(message)


class Builder:
    """Builds one model, with every model and layer inside it."""

    def __init__(self, weights: str) -> None:
        """Starts with nothing built."""
        self.weights = weights
        self.copier = Copier(
            on_function=self.give_graph, share=weights == "share", renew=weights == "fresh"
        )

    def model(self, source: Any, *, seed: int | None, name: str | None) -> Any:
        """Makes the new model."""
        with seeded(seed):
            made = self.copy(source)
            if self.weights == "fresh":
                old, new = internals.all_layers(source), internals.all_layers(made)
                refresh(zip(old, new, strict=True), duplicate)
                refresh_training(made, self.copier.optimizers)
        if name is not None:
            vars(made)["name"] = name
        return made

    def copy(self, source: Any) -> Any:
        """Copies a model or layer, with the graphs of all models inside."""
        if self.weights == "share":
            self.copier.share(source)
        with internals.paused_collector():
            made = self.copier.copy(source)
            self.copier.finish()
        return made

    def give_graph(self, source: Any, made: Any) -> bool:
        """Gives the copy of a model another graph than a copy of the source's; here, none."""
        del source, made
        return False


@contextlib.contextmanager
def seeded(seed: int | None) -> Generator[None]:
    """Lets everything that is drawn at random come from a seed, if there is one."""
    with contextlib.ExitStack() as stack:
        if seed is not None:
            stack.enter_context(internals.untouched_randomness())
            stack.enter_context(internals.untouched_names())
            internals.seed_globals(int(seed))
        yield


def copy_fresh(layer: Any) -> Any:
    """Copies one layer and gives it fresh weights."""
    made = duplicate(layer)
    if isinstance(layer, keras.Layer):
        pairs = zip(internals.all_layers(layer), internals.all_layers(made), strict=True)
        refresh(pairs, duplicate)
    return made


def duplicate(layer: Any) -> Any:
    """Makes a structural copy of a layer, for fresh weights."""
    return Builder("fresh").copy(layer)
