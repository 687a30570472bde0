"""Whether a model without some channels computes what the model before does with them masked.

To mask a channel is to set to zero what belongs to it in all variables that make or carry it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import keras
import numpy as np

from ramet.building.weights.roles import roles_of
from ramet.comparing.running.befores import Build, Built
from ramet.comparing.running.measures import Measure, tolerance_of
from ramet.comparing.running.trials import Trial, Trials
from ramet.errors import GraphError
from ramet.graph import Graph
from ramet.graph.names import counted
from ramet.graph.paths import layer_paths
from ramet.graph.stages import Removed, Stage, Zeros


@dataclass(frozen=True)
class MaskTrial:
    """What came of comparing models without channels with the models before, masked."""

    claim: str
    """What they are compared with, in words; and why they are not the same, if they are lossy."""
    is_exact: bool
    """Whether the models have to be equal."""
    trial: Trial
    """The largest difference."""
    allowed: float
    """The largest relative difference that is rounding."""
    is_steady: Callable[[], bool]
    """Whether the models compute the same twice."""


def masked(graph: Graph, zeros: Sequence[Zeros], seed: int) -> Built:
    """Build a graph on variables of its own, some of which are partly zero.

    Raises:
        GraphError: If the model has no such variable.
    """
    built = Built(graph, seed, apart=True)
    live = {path: layer.origin for path, layer in layer_paths(built.graph)}
    changed: dict[int, Any] = {}
    for each in zeros:
        layer = live.get(each.layer)
        roles = {} if layer is None else roles_of(layer)
        variables = {".".join(role): variable for role, variable in roles.items()}
        if each.variable not in variables:
            message = (
                f"'{built.model.name}' has no variable {each.variable} of '{each.layer}' to be "
                "masked; build the graph before, and prune the model"
            )
            raise GraphError(message)
        _set_to_zero(variables[each.variable], each)
        changed[id(layer)] = layer
    for layer in changed.values():
        if hasattr(layer, "finalize_state"):  # Normalization keeps arrays of its variables.
            layer.finalize_state()
    return built


def _set_to_zero(variable: Any, zeros: Zeros) -> None:
    stays = np.ones(variable.shape[zeros.axis], bool)
    stays[[*zeros.indices]] = False
    shape = [1] * len(variable.shape)
    shape[zeros.axis] = len(stays)
    value = keras.ops.convert_to_tensor(variable)
    stays = keras.ops.convert_to_tensor(stays.reshape(shape))
    variable.assign(keras.ops.where(stays, value, keras.ops.zeros_like(value)))


def mask_trial(
    removed: Sequence[Removed], after: Built, build: Build, data: Any, seed: int
) -> MaskTrial:
    """Compare each step of a removal with the model before the step, masked.

    Groups that are exact are compared without the others. Only if there are none, the others are.

    Args:
        removed: The channels that were removed, step by step.
        after: The model after the last step.
        build: Builds graphs.
        data: What to call the models on; made up if it is `None`.
        seed: The seed of made-up data.
    """
    exact = any(step.exact[0] for step in removed)
    worst, trials = Trial(), list[Trials]()
    for step, result in _steps(removed, after, build, exact=exact):
        before = masked(step.graph, step.zeros(exact=exact), seed)
        trials.append(Trials(Stage(step.graph), result, lambda _, before=before: before))
        worst = _worse(worst, trials[-1].run(data, seed, training=False))
        if worst.problem or worst.failed:
            break
    graphs = [graph for each in trials for graph in each.graphs]

    def is_steady() -> bool:
        sample = worst.sample
        return sample is None or all(each.is_steady(sample, training=False) for each in trials)

    claim = _claim(removed, exact=exact)
    return MaskTrial(claim, exact, worst, tolerance_of(graphs), is_steady)


def _steps(
    removed: Sequence[Removed], after: Built, build: Build, *, exact: bool
) -> Iterator[tuple[Removed, Built]]:
    """Yield each step that removes channels which are compared, with the model after it."""
    for step, following in pairwise((*removed, None)):
        if step is None or (exact and not step.exact[0]):
            continue
        if exact and step.lossy[0]:
            yield step, build(step.without_exact())
        else:
            yield step, after if following is None else build(following.graph)


def _worse(first: Trial, second: Trial) -> Trial:
    if second.problem or second.failed:
        return second
    found = first.found.worse(second.found)
    text = (second if second.found.relative >= first.found.relative else first).text
    return Trial(found, text, sample=second.sample)


def _claim(removed: Sequence[Removed], *, exact: bool) -> str:
    parts = [step.exact if exact else step.lossy for step in removed]
    channels = sum(count for count, _ in parts)
    if len(removed) > 1:
        masked = f"{counted(channels, 'channel')} masked, in {counted(len(removed), 'step')}"
    else:
        masked = f"{counted(channels, 'channel')} of {counted(parts[0][1], 'group')} masked"
    reasons = [*dict.fromkeys(reason for step in removed for reason in step.reasons)]
    more = f", and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    if exact:
        lossy = f"; lossy and not compared: {reasons[0]}{more}" if reasons else ""
        return f"equal to the model before it with {masked}{lossy}"
    return f"not equal to the model before it with {masked}, since lossy: {reasons[0]}{more}"


def words(found: Measure) -> str:
    """Return a difference in words."""
    return f"{found.absolute:.1e} ({found.relative:.1e})" if found.absolute else "0"
