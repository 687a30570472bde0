"""The options of `verify`, checked before anything is compared."""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Literal, cast, get_args

import numpy as np

from ramet._arguments import check_word, shown
from ramet.errors import OptionError

Aspect = Literal["structure", "sharing", "state", "outputs", "training"]
"""In what two models can be compared."""

ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
"""All of them, in the order in which they are reported."""

_BOOL = (bool, np.bool_)


def checked_aspects(only: object) -> tuple[str, ...]:
    """Return the aspects to compare, in their order."""
    if only is None:
        return ASPECTS
    is_several = isinstance(only, Sequence) and not isinstance(only, (str, bytes))
    chosen = cast("Sequence[Any]", only) if is_several else (only,)
    for word in chosen:
        check_word(word, "only", ASPECTS)
    if not chosen:
        message = "only=() leaves nothing to compare; leave it out to compare everything"
        raise OptionError(message)
    return tuple(aspect for aspect in ASPECTS if aspect in chosen)


def check_seed(seed: object) -> None:
    """Check the seed of generated data."""
    if isinstance(seed, _BOOL) or not isinstance(seed, Integral) or seed < 0:
        message = f"seed must be an integer of at least 0, got {shown(seed)}; pass one, such as 0"
        raise OptionError(message)


def check_tolerances(**tolerances: object) -> None:
    """Check numbers by which results may differ."""
    for name, value in tolerances.items():
        if not _is_tolerance(value):
            message = (
                f"{name} must be a number of at least 0, got {shown(value)}; pass one that is not "
                "infinite, such as 1e-5"
            )
            raise OptionError(message)


def _is_tolerance(value: object) -> bool:
    if isinstance(value, _BOOL) or not isinstance(value, Real):
        return False
    try:
        return 0 <= float(value) < math.inf
    except OverflowError:  # an integer too large for a float
        return False


def check_inputs(inputs: Any) -> None:
    """Check that there is anything in the data to call the models with."""
    if inputs is None:
        return
    # Everything else here needs no Keras, and is checked before it is imported.
    import keras  # noqa: PLC0415 see above

    from ramet.comparing.running.data import check_data  # noqa: PLC0415 it imports Keras

    check_data(inputs, "inputs")
    if any(0 in np.shape(leaf) for leaf in keras.tree.flatten(inputs) if leaf is not None):
        message = "inputs= has no samples, on which all models are the same; pass at least one"
        raise OptionError(message)
