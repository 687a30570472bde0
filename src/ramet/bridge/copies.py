"""From a model to a new one, by copying."""

import contextlib
from collections.abc import Generator
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.checks import check_has_values, check_options
from ramet.bridge.copier import Copier
from ramet.bridge.fresh import refresh, refresh_training


def copy_model(model: Any, *, weights: str, seed: int | None, name: str | None) -> Any:
    """Copies a model, with its graph if it has one."""
    check_options(weights, seed, name)
    check_has_values(model, weights)
    return Builder(weights).model(model, seed=seed, name=name)


class Builder:
    """Builds one model, with every model and layer inside it."""

    def __init__(self, weights: str) -> None:
        """Starts with nothing built."""
        self.weights = weights
        self.copier = Copier(share=weights == "share", renew=weights == "fresh")

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
        self.copier.begin(source)
        if self.weights == "share":
            self.copier.share(source)
        with internals.paused_collector():
            if self.weights == "copy" and keras.backend.backend() != "torch":
                # These backends copy them while the rest is put together; PyTorch does not.
                self.copier.values.begin(internals.values_from_last(source))
            made = self.copier.copy(source)
            self.copier.finish()
        return made


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
