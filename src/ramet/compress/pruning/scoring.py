"""How much channels matter, by a criterion that is chosen by name."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ramet import keras_internals as internals
from ramet.comparing.running.data import check_data
from ramet.compress.channels.arrange import Arrangement
from ramet.compress.channels.follow import Channels
from ramet.compress.pruning.criteria import STATIC, Array, Values
from ramet.compress.pruning.sensitivity import activations, check_pair, gradients
from ramet.errors import OptionError
from ramet.results.groups import Group
from ramet.tracing.origin import live_of

_BY_LOSS = ("taylor", "hessian", "obd")

CRITERIA = (*STATIC, "random", "activation", *_BY_LOSS)
"""All criteria, by name."""


def check_data_for(by: str, data: Any) -> None:
    """Check that a criterion has the data that it needs.

    Raises:
        OptionError: If it has none, or other data.
    """
    if by == "activation" or by in _BY_LOSS:
        if data is None:
            what = "data=inputs" if by == "activation" else "data=(inputs, targets)"
            message = f"by='{by}' runs the model, so it needs data; pass {what}"
            raise OptionError(message)
        if by in _BY_LOSS:
            check_pair(data, by)
        check_data(data, "data")
    elif data is not None:
        message = f"by='{by}' needs no data; leave data= out, or use by='activation' or by='taylor'"
        raise OptionError(message)


@dataclass(frozen=True)
class Scoring:
    """Scores the channels of groups."""

    channels: Channels
    """The channels of a graph."""
    arrangement: Arrangement
    """Their groups."""
    by: str
    """The criterion."""
    data: Any
    """The data that it needs, if any."""
    loss: Any
    """The loss that it needs, if any."""
    numbers: np.random.Generator
    """What random scores are drawn from."""

    def of(self, groups: list[Group]) -> dict[str, Array]:
        """Return how much each channel matters, by group; groups without a score are left out."""
        if self.by == "random":
            return {group.name: self.numbers.random(group.size) for group in groups}
        if self.by == "activation":
            return activations(self.channels, self.arrangement.places, groups, self.data)
        if self.by in _BY_LOSS:
            squared = self.by != "taylor"
            loss = self._known_loss()
            return gradients(self.channels, groups, self.data, loss, squared=squared)
        values, scores = Values(self.channels), dict[str, Array]()
        for group in groups:
            score = STATIC[self.by](group, values)
            if score is not None:
                scores[group.name] = score
        return scores

    def _known_loss(self) -> Any:
        if self.loss is not None:
            return self.loss
        known = internals.compile_arguments(live_of(self.channels.graph).model) or {}
        loss = known.get("loss")
        if loss is None:
            message = (
                f"by='{self.by}' needs a loss, and the model is not compiled with one; pass "
                "loss=, such as 'mse'"
            )
            raise OptionError(message)
        return loss
