"""`adopt`: adapters that Keras's own `enable_lora` made, turned into those of ramet."""

import random
from typing import Any

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet._arguments import check_flag, check_index
from ramet.adapt.adapting.freezing import Flags, Identity
from ramet.adapt.adapting.places import Place, places_of
from ramet.adapt.adapting.starts import first_factor
from ramet.adapt.adapting.steps import Add, Forget, put_on
from ramet.adapt.adapting.taken import check_new_name
from ramet.errors import GraphError, StateError
from ramet.graph import Graph
from ramet.graph.data import Step
from ramet.graph.names import counted, listed
from ramet.layers import Entry, Kernel, Target
from ramet.tracing.trace import trace

_FACTORS = (("lora_kernel_a", "lora_kernel_b"), ("lora_embeddings_a", "lora_embeddings_b"))
_SHOWN = 4
"""How many layers a message lists."""


def adopt(
    model: Any, *, name: str = "keras", revive: bool = False, seed: int | None = None
) -> Graph:
    """Convert adapters created by Keras's `enable_lora` into a ramet adapter with the same values.

    Keras merges its adapters into the kernels when it saves a model, and loads it with factors that
    are all zero, so that no gradient reaches them. Such a model is refused, unless `revive` starts
    new factors.

    Args:
        model: A model or graph with layers on which `enable_lora` was called.
        name: The name of the adapter.
        revive: Whether to start new factors in place of those that are all zero.
        seed: Makes new factors reproducible.

    Raises:
        GraphError: If there are no adapters, or one is not a product of two matrices.
        StateError: If factors are all zero.

    Examples:
        >>> tuned = ramet.clone(model)
        >>> tuned.get_layer("head").enable_lora(2)
        >>> adapted = ramet.adapt.adopt(tuned).build()
    """
    check_flag(revive, "revive")
    if seed is not None:
        check_index(seed, "seed")
    graph = trace(model)
    check_new_name(graph, name)
    found = _enabled(places_of(graph))
    if not found:
        message = f"no layer of graph '{graph.name}' has an adapter of Keras; add one with lora"
        raise GraphError(message)
    dead = [
        place.full(kernel)
        for place, kernels in found
        for kernel in kernels
        if _is_dead(kernel.owner)
    ]
    if dead and not revive:
        message = (
            f"the LoRA factors of {listed(dead, _SHOWN)} are all zero, so that training them does "
            "nothing: Keras merges them into the kernels when it saves, and loads zeros; pass "
            "revive=True to start new ones"
        )
        raise StateError(message)
    draw = np.random.default_rng(random.randrange(1 << 31) if seed is None else abs(seed))  # noqa: S311 no secret
    steps: dict[Identity, tuple[Step, ...]] = {}
    for place, kernels in found:
        steps[place.record.identity] = (Forget(), _adopted(place, kernels, name, draw))
    text = f"adopt adapters of Keras as '{name}': {counted(len(steps), 'layer')}"
    return put_on(graph, steps, Flags(), text, "equal")


def _enabled(places: list[Place]) -> list[tuple[Place, list[Kernel]]]:
    both = [
        (place, [each for each in place.kernels if getattr(each.owner, "lora_enabled", False)])
        for place in places
    ]
    return [(place, kernels) for place, kernels in both if kernels]


def _factors(owner: Any) -> tuple[np.ndarray, np.ndarray]:
    names = next(pair for pair in _FACTORS if internals.attribute_of(owner, pair[0]) is not None)
    first, second = (keras.ops.convert_to_numpy(getattr(owner, each)) for each in names)
    return first, second


def _is_dead(owner: Any) -> bool:
    return not any(np.any(factor) for factor in _factors(owner))


def _adopted(place: Place, kernels: list[Kernel], name: str, draw: np.random.Generator) -> Add:
    values: dict[str, np.ndarray] = {}
    targets: list[Target] = []
    for number, kernel in enumerate(kernels):
        first, second = _factors(kernel.owner)
        if kernel.outs != (len(kernel.shape) - 1,):
            message = (
                f"the adapter that Keras made for the kernel '{place.full(kernel)}' is not a "
                "product of two matrices; save the model with Keras, which merges it"
            )
            raise GraphError(message)
        rank, variable = first.shape[-1], kernel.variable.name
        target = Target(kernel.path, kernel.held, variable, kernel.shape, kernel.outs, rank)
        down = first.reshape(-1, rank)
        scale = kernel.owner.lora_alpha / kernel.owner.lora_rank
        if not np.any(down) and not np.any(second):
            down = first_factor("uniform", target, draw)
        values |= {f"{number}_down": down, f"{number}_up": second * scale}
        targets.append(target)
    return Add(Entry(name, tuple(targets)), values=values)
