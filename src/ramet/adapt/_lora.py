"""`lora`: low-rank adapters for the layers that you name."""

import random
from collections.abc import Mapping
from typing import Any

from ramet._arguments import check_index, check_number, check_word, shown
from ramet._words import Promise, weakest
from ramet.adapt.adapting.dropouts import dropouts
from ramet.adapt.adapting.freezing import Flags, trained_also
from ramet.adapt.adapting.places import At, Place, check_ranks, check_supported, chosen, places_of
from ramet.adapt.adapting.starts import Init, check_init
from ramet.adapt.adapting.steps import Add, put_on
from ramet.adapt.adapting.taken import check_new_name, names_in
from ramet.errors import OptionError
from ramet.graph import Graph
from ramet.graph.names import counted, listed
from ramet.layers import Entry, Target
from ramet.layers.entries import VARIANTS, Variant
from ramet.tracing.trace import trace


def lora(  # noqa: PLR0913 each is another property of the adapter
    model: Any,
    at: At,
    *,
    rank: int = 8,
    alpha: float | None = None,
    name: str = "default",
    variant: Variant = "lora",
    init: Init | Any = "uniform",
    dropout: float | Mapping[Any, float] = 0.0,
    train_also: At | None = None,
    seed: int | None = None,
) -> Graph:
    """Add a low-rank adapter to layers, and freeze everything else.

    While a layer is called, its kernel reads as `kernel + scale * A @ B`. B starts at zero, so that
    the new model computes the same bits as the old one. Otherwise the layers stay what they are,
    and the new model is a plain Keras model that can be saved, loaded and trained further.

    Args:
        model: A model or a graph. A model that already has adapters gets another one, and the
            others are switched off.
        at: Which layers: a glob of paths (`"encoder/*"`; `**` stands for any number of steps, a
            name without `/` for the last step), a compiled regular expression, a selection of
            the graph, a list of these, or a dict of them with ranks, of which the last that
            matches counts. Layers inside other layers have paths too: `"block/mha/query"`,
            `"**/lstm_cell/recurrent_kernel"`.
        rank: The rank of the updates.
        alpha: How strong the updates are, by `alpha / rank`; the rank by default.
        name: The name of the adapter.
        variant: `"lora"`; `"rslora"`, which divides by the root of the rank; or `"dora"`, which
            learns the lengths of a kernel's columns apart from their directions.
        init: How A starts: `"uniform"`, `"normal"` or an initializer.
        dropout: How many of the inputs that the updates read are dropped in training; or a dict of
            patterns like those in `at` with rates. Dense, EinsumDense, convolutions and the
            projections inside attention can have it.
        train_also: Layers that train besides, named like those in `at`.
        seed: Makes A reproducible.

    Returns:
        A graph; `build` it to get the model.

    Raises:
        GraphError: If `at` matches nothing, or there is already an adapter of that name.
        OptionError: If an option has an invalid value, or a rank is larger than a kernel.

    Examples:
        >>> graph = ramet.adapt.lora(model, "head", rank=2)
        >>> print(graph.journal)
        1. add adapter 'default' to 1 kernel of 1 layer, rank 2; 2 layers frozen ...
        >>> [tuple(v.shape) for v in graph.build().trainable_variables]
        [(4, 2), (2, 3)]
        >>> graph = ramet.adapt.lora(model, {"conv": 4, "head": 2}, train_also="norm")
    """
    _check_options(alpha, variant, init, seed)
    graph = trace(model)
    check_new_name(graph, name)
    places = places_of(graph)
    ranks = chosen(graph, places, at, rank)
    check_ranks(places, ranks)
    check_supported(places, ranks, variant)
    rates = dropouts(graph, places, ranks, dropout)
    also = trained_also(graph, train_also)
    adapted = [
        place for place in places if any(place.full(each) in ranks for each in place.kernels)
    ]
    flags = Flags.of(graph, {place.record.identity for place in adapted}, also)
    start = random.randrange(1 << 31) if seed is None else seed  # noqa: S311 no secret
    steps = {
        place.record.identity: (
            Add(
                Entry(
                    name,
                    _targets(place, ranks, rates),
                    None if alpha is None else float(alpha),
                    variant,
                    froze=() if number else flags.froze,
                    thawed=() if number else flags.thawed,
                ),
                init,
                (start, number),
                trains_base=place.record.identity in also,
            ),
        )
        for number, place in enumerate(adapted)
    }
    others = names_in(graph)
    text = _words(name, variant, ranks, adapted) + _off(others) + flags.text
    rounds = variant == "dora" or any(rates.values())
    promises: list[Promise] = [flags.promise, "equal" if rounds else "exact"]
    if others:
        promises.append("changed")
    return put_on(graph, steps, flags, text, weakest(promises))


def _check_options(alpha: Any, variant: Any, init: Any, seed: Any) -> None:
    if alpha is not None:
        check_number(alpha, "alpha")
        if alpha <= 0:
            raise OptionError(f"alpha must be positive, got {shown(alpha)}")
    check_word(variant, "variant", VARIANTS)
    check_init(init)
    if seed is not None:
        check_index(seed, "seed")
        if seed < 0:
            raise OptionError(f"seed must not be negative, got {shown(seed)}")


def _off(others: list[str]) -> str:
    names = listed([f"'{name}'" for name in others])
    return f"; {names} {'is' if len(others) == 1 else 'are'} switched off" if others else ""


def _targets(place: Place, ranks: dict[str, int], rates: dict[str, float]) -> tuple[Target, ...]:
    return tuple(
        Target(
            kernel.path,
            kernel.held,
            kernel.variable.name,
            kernel.shape,
            kernel.outs,
            ranks[place.full(kernel)],
            rates.get(place.full(kernel), 0.0),
        )
        for kernel in place.kernels
        if place.full(kernel) in ranks
    )


def _words(name: str, variant: str, ranks: dict[str, int], adapted: list[Place]) -> str:
    used = ", ".join(map(str, sorted(set(ranks.values()))))
    kernels, layers = counted(len(ranks), "kernel"), counted(len(adapted), "layer")
    noun = "adapter" if variant == "lora" else f"{variant} adapter"
    return f"add {noun} '{name}' to {kernels} of {layers}, rank {used}"
