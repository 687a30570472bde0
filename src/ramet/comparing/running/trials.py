"""Two graphs built and called on the same data, to measure what an edit does."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from ramet import keras_internals as internals
from ramet.comparing.counterparts import Pairs, pair
from ramet.comparing.objects.arrays import Tolerance
from ramet.comparing.running.befores import Build, Built, Called, before_edit
from ramet.comparing.running.divergence import Comparison, first_divergence
from ramet.comparing.running.measures import Measure, measure
from ramet.comparing.running.outputs import (
    Results,
    cut,
    effect_differences,
    failure,
)
from ramet.comparing.running.samples import SIZES, Sample
from ramet.comparing.running.training import trained_otherwise
from ramet.comparing.state import pair_variables
from ramet.graph import Graph
from ramet.graph.paths import layer_paths
from ramet.graph.stages import Stage
from ramet.graph.tree import leaves
from ramet.results.divergence import Divergence


@dataclass(frozen=True)
class Trial:
    """What came of calling two models."""

    found: Measure = field(default_factory=Measure)
    """How far the outputs that both have are apart."""
    text: str = ""
    """How they differ, in words."""
    problem: str = ""
    """Why they could not be compared; empty if they were."""
    failed: bool = False
    """Whether the new model fails on what the old one computes."""
    sample: Sample | None = None
    """What both were called on, if that was the same."""


class Trials:
    """Calls the models before and after an edit on the same data."""

    def __init__(self, stage: Stage, after: Built, build: Build) -> None:
        """Build what the edit started from."""
        self.is_plain = stage.is_plain
        self.after = after
        self._before = before_edit(stage, after, build)

    @property
    def graphs(self) -> list[Graph]:
        """The graphs of all models that are called."""
        return [each.graph for each in (*self._before.models, self.after)]

    def run(self, data: Any, seed: int, *, training: bool) -> Trial:
        """Call both models: on data, or on made-up data if that is `None`."""
        if data is not None:
            return self._tried(Sample((data,), {}), training=training)
        problem = "the shape of its inputs is not known"
        for size in SIZES:
            try:
                sample = self._before.sample(size, seed)
            except Exception as error:  # noqa: BLE001 whatever a vocabulary or shape may raise
                problem = f"inputs cannot be generated ({_first_line(error)})"
                continue
            if sample is None:
                break
            trial = self._tried(sample, training=training)
            if not (trial.problem or trial.failed):
                return trial
            problem = trial.problem or problem
            if trial.failed and size == SIZES[-1]:
                return trial
        return Trial(problem=problem)

    def _tried(self, sample: Sample, *, training: bool) -> Trial:
        try:
            old = self._before.call(sample, training=training)
        except Exception as error:  # noqa: BLE001 a model may raise anything
            return Trial(problem=f"the model before it fails{failure(error, {})}")
        try:
            new = self.after.call(old.given, training=training)
        except Exception as error:  # noqa: BLE001 the same
            paths = {id(layer.origin): path for path, layer in layer_paths(self.after.graph)}
            text = f"the new model fails{failure(error, paths)}"
            if self.is_plain and self._has_other_inputs():
                return Trial(problem=f"{text}: its inputs are others")
            return Trial(text=text, failed=True)
        pairs = [*_paired(old, new)]
        if not pairs:
            return Trial(problem="the models have no output in common")
        if all(_says_nothing(array) for _, array, _ in pairs):
            return Trial(problem="all outputs are NaN or empty on this data")
        found = Measure()
        for name, a, b in pairs:
            one = measure(a, b)
            found = found.worse(replace(one, text=f"{name} {one.text}" if one.text else ""))
        text = found.text
        if found.same and training and old.results is not None:
            text = self._effects(old.results, new)
            found = replace(found, same=not text)
        return Trial(found, text, sample=sample)

    def _has_other_inputs(self) -> bool:
        graphs = self._before.built.graph, self.after.graph
        shapes = [[shape for _, shape in input_shapes(graph)] for graph in graphs]
        return shapes[0] != shapes[1]

    def is_steady(self, sample: Sample, *, training: bool) -> bool:
        """Whether the models compute the same twice."""
        olds = [self._before.call(sample, training=training) for _ in range(2)]
        news = [self.after.call(olds[0].given, training=training) for _ in range(2)]
        return all(
            measure(one.outputs[path], other.outputs[path]).same
            for one, other in (olds, news)
            for path in one.outputs
        )

    def divergence(self, trial: Trial, *, training: bool, allowed: float) -> Divergence | None:
        """Return the first call that returns something else, by more than is allowed."""
        if trial.sample is None or not self.is_plain:
            return None

        def differs(old: np.ndarray, new: np.ndarray) -> str:
            found = measure(old, new)
            return "" if found.same or (found.relative <= allowed and allowed) else found.text

        with internals.room_for(self._before.built.model, self.after.model):
            comparison = Comparison(
                self._pairs(), trial.sample, training, differs, description=trial.text
            )
            return first_divergence(comparison)

    def _pairs(self) -> Pairs:
        return pair(self._before.built.model, self.after.model)

    def _effects(self, old: Results, new: Results) -> str:
        """Return how the updates and losses of two calls in training differ, in words."""
        pairs = self._pairs()
        variables, differs = pair_variables(pairs), Tolerance(0, 0).difference
        found = effect_differences(old, new, pairs, variables, differs)
        texts = (difference.text for difference in found)
        return next(chain(texts, trained_otherwise(variables)), "")


def _paired(old: Called, new: Results) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the outputs that both models have: of one place, or else in their order."""
    common = [path for path in old.outputs if path in new.outputs]
    if common:
        yield from ((new.names[path], old.outputs[path], new.outputs[path]) for path in common)
        return
    names = (new if old.results is None else old.results).names.values()
    yield from zip(names, old.outputs.values(), new.outputs.values(), strict=False)


def input_shapes(graph: Graph) -> list[tuple[str, Any]]:
    """List the inputs of a graph by name, with their shapes."""
    specs = [(ref, graph.calls[ref.call].outputs[ref.index]) for ref in leaves(graph.inputs)]
    return [(ref.call, spec.shape) for ref, spec in specs]


def _says_nothing(array: np.ndarray) -> bool:
    return not array.size or (array.dtype.kind == "f" and bool(np.isnan(array).all()))


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {cut(lines[0])}" if lines else type(error).__name__
