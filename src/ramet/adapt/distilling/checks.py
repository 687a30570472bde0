"""What users pass to `taps`."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import keras

from ramet._arguments import check_mapping, check_text, shown
from ramet.errors import OptionError

_MOST = 1e30
"""The largest weight of a loss."""


def check_pairs(pairs: Any) -> list[tuple[str, str]]:
    """Return the pairs of places, of the teacher and of the student.

    Raises:
        OptionError: If they are not a dict of places, or there are none.
    """
    check_mapping(pairs, "pairs", "places of the student by places of the teacher")
    if not pairs:
        message = "pairs is an empty dict; name places of the student by those of the teacher"
        raise OptionError(message)
    for place, other in cast("Mapping[str, Any]", pairs).items():
        check_text(other, f"the student's place for '{place[:60]}'")
    return [*cast("Mapping[str, str]", pairs).items()]


def check_losses(losses: Any, count: int) -> list[Any] | None:
    """Return one loss for each pair; `None` if there are to be no losses.

    Raises:
        OptionError: If something is not a loss, or there are more or fewer than pairs.
    """
    if losses is None:
        return None
    several = cast("Sequence[Any]", losses if isinstance(losses, (list, tuple)) else [losses])
    if not isinstance(losses, (list, tuple)):
        several = [*several] * count
    if len(several) != count:
        message = f"losses has {len(several)} items for {count} pairs; pass one for each, or one"
        raise OptionError(message)
    for loss in several:
        _check_loss(loss)
    return [*several]


def _check_loss(loss: Any) -> None:
    if isinstance(loss, str):
        try:
            keras.losses.get(loss)
        except ValueError:
            message = f"losses holds {shown(loss)}, which is not a Keras loss; try 'mse'"
            raise OptionError(message) from None
        return
    kinds = (keras.losses.Loss, keras.distillation.DistillationLoss)
    if not isinstance(loss, kinds):
        message = (
            "losses must be names of losses, or objects of keras.losses or keras.distillation, "
            f"got {shown(loss)}"
        )
        raise OptionError(message)


def check_weights(weights: Any, losses: Any, count: int) -> list[float]:
    """Return one factor for each loss.

    Raises:
        OptionError: If they are not numbers, or there are more or fewer than pairs.
    """
    if weights is None:
        return [1.0] * count
    if losses is None:
        raise OptionError("weights are factors of losses, and there are none; pass losses too")
    if not isinstance(weights, (list, tuple)) or len(cast("list[Any]", weights)) != count:
        message = (
            f"weights must be a list of {count} numbers, one for each pair, got {shown(weights)}"
        )
        raise OptionError(message)
    for weight in cast("list[Any]", weights):
        if type(weight) not in (int, float) or not 0 <= weight <= _MOST:
            message = f"a weight must be a number from 0 to {_MOST:.0e}, got {shown(weight)}"
            raise OptionError(message)
    return [float(weight) for weight in cast("list[Any]", weights)]
