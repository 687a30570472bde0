"""Two live models compared aspect by aspect: what they are, hold and compute."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ramet.comparing.contents import partners_of, read, shared_objects
from ramet.comparing.counterparts import Pairs
from ramet.comparing.running.divergence import Comparison, first_divergence
from ramet.comparing.running.outputs import (
    Differs,
    Results,
    RunDifference,
    cut,
    failure,
    output_differences,
    run,
    run_differences,
)
from ramet.comparing.running.samples import SIZES, Sample, make_sample
from ramet.comparing.state import (
    SIDES,
    Variables,
    sharing_differences,
    state_differences,
)
from ramet.comparing.structure import structure_differences
from ramet.errors import OptionError
from ramet.graph.names import counted
from ramet.results.divergence import Divergence
from ramet.results.report import Check, Report


@dataclass(frozen=True, slots=True)
class Settings:
    """What `verify` was asked for."""

    aspects: tuple[str, ...]
    inputs: Any
    seed: int
    differs: Differs


@dataclass(frozen=True, slots=True)
class Run:
    """What became of calling both models."""

    check: Check
    """Whether they computed the same."""
    differences: tuple[RunDifference, ...] = ()
    """What they computed otherwise."""
    sample: Sample | None = None
    """What they were called with."""


class Verification:
    """Compares two live models."""

    def __init__(self, pairs: Pairs, settings: Settings) -> None:
        self.pairs = pairs
        self.models = pairs.first, pairs.second
        self.settings = settings
        self.contents = read(pairs)
        self.variables: Variables = self.contents.variables
        self._samples: dict[int, Sample | None] = {}
        """Made-up data, by the size of open dimensions."""

    def report(self) -> Report:
        """Compare all aspects; find the first call that diverges."""
        checks: list[Check] = []
        divergence: Divergence | None = None
        for aspect in self.settings.aspects:
            if aspect in ("outputs", "training"):
                result = self.run(training=aspect == "training")
                checks.append(result.check)
                if divergence is None and not result.check.ok:
                    divergence = self.divergence(result, training=aspect == "training")
            else:
                checks.append(self.check(aspect))
        first, second = self.models
        return Report(first.name, second.name, tuple(checks), divergence)

    def check(self, aspect: str) -> Check:
        """Compare the models without calling them."""
        layers = counted(len(self.pairs.first.layers), "layer")
        olds = {id(both.old) for both in self.variables.pairs}
        variables = counted(len(olds) + len(self.variables.alone[0]), "variable")
        scopes = {"structure": layers, "sharing": f"{layers}, {variables}", "state": variables}
        skipped = tuple(self.contents.skipped) if aspect == "structure" else ()
        return Check(aspect, tuple(self.lines(aspect)), scopes[aspect], not_compared=skipped)

    def lines(self, aspect: str) -> Iterator[str]:
        """Yield how the models differ in structure, sharing or state."""
        if aspect == "structure":
            return structure_differences(self.pairs, self.contents)
        if aspect == "sharing":
            layers = sharing_differences(self.pairs, self.variables)
            return chain(layers, shared_objects(self.contents))
        return state_differences(self.variables, partners_of(self.pairs, self.variables))

    def divergence(
        self,
        result: Run,
        *,
        training: bool,
        expected: frozenset[str] = frozenset(),
        edited: int = 1,
    ) -> Divergence | None:
        """Find the first call that returns something else, on the data of a run."""
        if result.sample is None:
            return None
        differs = self.settings.differs
        told = next((each.text for each in result.differences if each.output is not None), "")
        comparison = Comparison(
            self.pairs, result.sample, training, differs, expected, edited, told
        )
        return first_divergence(comparison)

    # --- runs ------------------------------------------------------------------------

    def run(self, *, training: bool) -> Run:
        """Call both models on the same data."""
        name = "training" if training else "outputs"
        if self.settings.inputs is not None:
            sample = Sample((self.settings.inputs,), {})
            results = [self._called(side, sample, training=training) for side in (0, 1)]
            if all(isinstance(each, Exception) for each in results):
                raise self._unfit(results)
            return self._compared(name, results, "on the given inputs", sample)
        for side, model in zip(SIDES, self.models, strict=True):
            if not model.built:
                problem = f"the {side} model has not been built; pass inputs"
                return Run(Check(name, (), problem, done=False))
        return self._on_made_up(name, training=training)

    def _on_made_up(self, name: str, *, training: bool) -> Run:
        """Call both models on the first made-up data that fits."""
        problem = "the shape of its inputs is not known; pass inputs"
        failed: Run | None = None
        for size in SIZES:
            try:
                sample = self._made_up(size)
            except Exception as error:  # noqa: BLE001 whatever a vocabulary or shape may raise
                problem = f"inputs cannot be generated; pass inputs ({_first_line(error)})"
                continue
            if sample is None:
                break
            results = [self._called(side, sample, training=training) for side in (0, 1)]
            errors = [each for each in results if isinstance(each, Exception)]
            if len(errors) == len(results):
                problem = f"both models fail on random inputs{self._failed(0, errors[0])}"
                continue
            if not errors and not any(map(_says_something, results)):
                problem = "both models return nothing but NaN on random inputs; pass inputs"
                continue
            compared = self._compared(name, results, "on random inputs", sample)
            if errors:  # Perhaps only because the data is small.
                failed = failed or compared
                continue
            # A backend may compute nonsense from data that is too small to make sense.
            is_same = compared.check.ok
            side = None if is_same else self._changeable(results, sample, training=training)
            if side is None:
                return compared
            problem = f"the {side} model gives different results from call to call; pass inputs"
        return failed or Run(Check(name, (), problem, done=False))

    def _made_up(self, size: int) -> Sample | None:
        if size not in self._samples:
            seed = self.settings.seed
            self._samples[size] = make_sample(self.models, self.pairs.graphs, size, seed)
        return self._samples[size]

    def _called(self, side: int, sample: Sample, *, training: bool) -> Results | Exception:
        try:
            return run(self.models[side], self.pairs.graphs[side], sample, training=training)
        except Exception as error:  # noqa: BLE001 a model may raise anything
            return error

    def _compared(
        self, name: str, results: list[Results | Exception], scope: str, sample: Sample
    ) -> Run:
        found = tuple(self._differences(results))
        lines = tuple(difference.text for difference in found)
        return Run(Check(name, lines, scope), found, sample)

    def _unfit(self, results: list[Results | Exception]) -> OptionError:
        """Return an error that says how both models fail on the given inputs."""
        first, second = (self._failed(side, error) for side, error in enumerate(results))
        told = first if first == second else f"{first}, and{second}"
        error = OptionError(f"both models fail on the given inputs{told}; pass inputs that fit")
        error.__cause__ = results[0] if isinstance(results[0], Exception) else None
        return error

    def _failed(self, side: int, result: Any) -> str:
        return failure(result, self._paths(side))

    def _differences(self, results: list[Results | Exception]) -> Iterator[RunDifference]:
        """Yield how two runs differ, if one fails how it does."""
        for side, result in enumerate(results):
            if isinstance(result, Exception):
                yield RunDifference(f"the {SIDES[side]} model fails{self._failed(side, result)}")
                return
        old, new = results
        assert isinstance(old, Results)  # noqa: S101 neither is an exception
        assert isinstance(new, Results)  # noqa: S101 the same
        yield from run_differences(old, new, self.pairs, self.variables, self.settings.differs)

    def _paths(self, side: int) -> dict[int, str]:
        """Return where each layer of a model is."""
        paths = {id(layer): path for path, layer in self.pairs.alone[side]}
        for both in self.pairs.layers:
            path, layer = ((both.path, both.old), (both.other, both.new))[side]
            paths.setdefault(id(layer), path)
        return paths

    def _changeable(
        self, results: list[Results | Exception], sample: Sample, *, training: bool
    ) -> str | None:
        """Return which of the models does not compute the same twice."""
        for side, result in enumerate(results):
            again = self._called(side, sample, training=training)
            if isinstance(again, Exception) or isinstance(result, Exception):
                return SIDES[side]
            if any(output_differences(result, again, self.settings.differs)):
                return SIDES[side]
        return None


def _says_something(results: Any) -> bool:
    """Whether what a model computed tells it from others: not if all of it is empty or NaN."""
    return any(
        array.size and not (array.dtype.kind == "f" and np.isnan(array).all())
        for array in (*results.outputs.values(), *results.updated.values())
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {cut(lines[0])}" if lines else type(error).__name__
