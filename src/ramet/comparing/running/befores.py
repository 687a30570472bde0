"""What edits start from, called on data: one model, one that is cut, or several that are joined."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet.comparing.running.outputs import OutputPath, Results, leaves_by_path, run
from ramet.comparing.running.samples import Sample, make_sample
from ramet.graph import Graph, Ref
from ramet.graph.edits.inline import flat
from ramet.graph.stages import Stage
from ramet.graph.tree import map_tree
from ramet.tracing.origin import is_edited, traced_model
from ramet.tracing.settled import built_aside
from ramet.tracing.trace import trace

_ENDS, _STARTS = "ends", "starts"


class Built:
    """A graph, and the model that it builds."""

    def __init__(self, graph: Graph, seed: int, *, apart: bool = False) -> None:
        """Build the model; the source is not built again, unless a model apart is asked for.

        Raises:
            Exception: Whatever building raises.
        """
        self.edited = graph
        is_built = apart or is_edited(graph)
        with internals.fixed_randomness(seed):
            self.model = built_aside(graph, apart=apart) if is_built else traced_model(graph)
        self.graph = trace(self.model)

    def call(self, sample: Sample, *, training: bool) -> Results:
        """Call the model without changing it."""
        with internals.room_for(self.model):
            return run(self.model, self.graph, sample, training=training)


Build = Callable[[Graph], Built]


@dataclass(frozen=True)
class Called:
    """What the models before an edit computed."""

    given: Sample
    """What the new model is to be called on."""
    outputs: Mapping[OutputPath, np.ndarray]
    """The outputs: by their places in the new model, unless `results` is set."""
    results: Results | None = None
    """All results of the model, if both models are called on the same data."""


class Before:
    """The model before an edit, which is called on the same data as the new one."""

    def __init__(self, stage: Stage, after: Built, build: Build) -> None:
        """Build the model."""
        self.after = after
        self.built = build(stage.graph)

    @property
    def models(self) -> Sequence[Built]:
        """The models for which data is generated; it must fit the first."""
        return self.built, self.after

    def sample(self, size: int, seed: int) -> Sample | None:
        """Make up data; `None` if the shapes of inputs are not known."""
        models = self.models
        return make_sample(
            [each.model for each in models], [each.graph for each in models], size, seed
        )

    def call(self, sample: Sample, *, training: bool) -> Called:
        """Call what was before the edit."""
        results = self.built.call(sample, training=training)
        return Called(sample, results.outputs, results)


class BeforeCut(Before):
    """The model that a part was cut out of; the part is called on its tensors at the cut."""

    def __init__(self, stage: Stage, after: Built, build: Build) -> None:
        """Build the model, with the tensors at the cut as outputs."""
        self.after = after
        self._starts = [*(stage.starts or {}).items()]
        self._ends = [*leaves_by_path(stage.ends)]
        outputs = {
            _ENDS: [ref for _, ref in self._ends],
            _STARTS: [ref for _, ref in self._starts],
        }
        self.built = build(replace(stage.cut or stage.graph, outputs=outputs))

    @property
    def models(self) -> Sequence[Built]:
        """The whole model."""
        return (self.built,)

    def call(self, sample: Sample, *, training: bool) -> Called:
        """Call the whole model."""
        found = self.built.call(sample, training=training).outputs
        values = {new: found[_STARTS, at] for at, (new, _) in enumerate(self._starts)}
        ends = {path: found[_ENDS, at] for at, (path, _) in enumerate(self._ends)}
        return Called(_sample(self.after.edited, values), ends)


class BeforeJoin(Before):
    """The models that were joined to one."""

    def __init__(self, stage: Stage, after: Built, build: Build) -> None:
        """Build the models."""
        self.after = after
        self._parts = [build(graph) for graph in stage.joined]
        self._in_turn = stage.in_turn
        self._ends = [*leaves_by_path(stage.ends)]

    @property
    def models(self) -> Sequence[Built]:
        """The joined model."""
        return (self.after,)

    def call(self, sample: Sample, *, training: bool) -> Called:
        """Call one model after the other: each on its inputs, or on what the one before returns."""
        tensors = keras.tree.flatten(sample.args)
        outputs: list[list[np.ndarray]] = []
        for part in self._parts:
            starts = flat(part.edited.inputs)
            if self._in_turn and outputs:
                values = outputs[-1]
            else:
                values, tensors = self._of_part(starts, tensors)
            given = _sample(part.edited, dict(zip(starts, values, strict=True)))
            outputs.append([*part.call(given, training=training).outputs.values()])
        ends = {path: outputs[int(ref.call)][ref.index] for path, ref in self._ends}
        return Called(sample, ends)

    def _of_part(self, starts: list[Ref], tensors: list[Any]) -> tuple[list[Any], list[Any]]:
        """Return the inputs of one part, and those that are left for the others."""
        mine, names = flat(self.after.edited.inputs), [ref.call for ref in starts]
        count = sum(len(flat(part.edited.inputs)) for part in self._parts)
        if not self._in_turn and len(mine) == count:
            return tensors[: len(starts)], tensors[len(starts) :]
        known = {ref.call: value for ref, value in zip(mine, tensors, strict=True)}
        if sorted(names) == sorted(known):
            return [known[name] for name in names], tensors
        return tensors, tensors


def before_edit(stage: Stage, after: Built, build: Build) -> Before:
    """Build what an edit started from."""
    kind = BeforeJoin if stage.joined else Before if stage.is_plain else BeforeCut
    return kind(stage, after, build)


def _sample(graph: Graph, values: Mapping[Ref, Any]) -> Sample:
    """Return data for a graph, from the values of its inputs."""

    def value(ref: Ref) -> Any:
        given, spec = values[ref], graph.calls[ref.call].outputs[ref.index]
        if not isinstance(given, np.ndarray) or given.dtype.kind in "OU":
            return given
        return keras.ops.convert_to_tensor(given, spec.dtype)

    return Sample((map_tree(value, graph.inputs),), {})
