"""`verify`: whether two models are the same, and if not, where they diverge."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import keras
import numpy as np

from ramet import keras_internals as internals
from ramet.comparing.alignment.align import align
from ramet.comparing.arrays import Tolerance
from ramet.comparing.contents import partners_of, read, shared_objects
from ramet.comparing.counterparts import Pairs, pair
from ramet.comparing.divergence import Comparison, first_divergence
from ramet.comparing.options import (
    Aspect,
    check_inputs,
    check_seed,
    check_tolerances,
    checked_aspects,
)
from ramet.comparing.outputs import (
    Differs,
    Results,
    RunDifference,
    cut,
    failure,
    output_differences,
    run,
    run_differences,
)
from ramet.comparing.reach import EditReach
from ramet.comparing.samples import SIZES, Sample, make_sample
from ramet.comparing.state import (
    SIDES,
    Variables,
    sharing_differences,
    state_differences,
)
from ramet.comparing.structure import structure_differences
from ramet.errors import OptionError
from ramet.files import load
from ramet.graph import Graph
from ramet.graph.names import counted
from ramet.results.divergence import Divergence
from ramet.results.report import Check, Report
from ramet.tracing.options import check_model
from ramet.tracing.origin import is_edited, live_of


def verify(  # noqa: PLR0913 each is an option of its own
    first: Any,
    second: Any,
    *,
    only: Aspect | Sequence[Aspect] | None = None,
    inputs: Any = None,
    seed: int = 0,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> Report:
    """Compare two models in structure, sharing, state and numbers, bit for bit.

    Layers are paired by class and inputs, and variables by layer and role, not by position
    or automatic name. So models can be compared however they were made:
    `verify(model, folded, only="outputs", rtol=1e-5).ok` asks whether they compute the same.

    Both are called on the same data, for inference and for training, without changing
    either. The name of a model is not compared. Takes four calls; where outputs differ, each
    model is run at least twice more to find the call where they diverge.

    Args:
        first: A Keras model, a Graph, or the path of a `.keras` file.
        second: The model to compare with, of any of these types. Graphs are built. If one
            was edited, what the edits change is reported as expected.
        only: The aspects to compare; all by default: `"structure"` (classes, names,
            arguments, attributes, connections), `"sharing"` (which layers, variables and
            other objects are one), `"state"` (variables, also of metrics and optimizer),
            `"outputs"` and `"training"` (what a call returns, updates and adds to the loss).
            If set, everything that an edited Graph changes counts as a difference.
        inputs: Data to call the models with, in the structure of their inputs. By default
            it is generated with the shapes and dtypes of the inputs, integers within the
            vocabularies that they index.
        seed: Seed of the generated data.
        rtol: Relative tolerance for outputs and updated variables.
        atol: Absolute tolerance. Without either, bits are compared.

    Returns:
        A report: `report.ok`, `report.first_divergence`, `print(report)`,
        `report.raise_if_different()`.

    Raises:
        ModelError: If either is not a Keras model.
        FileError: If a file does not hold a model that can be loaded safely.
        OptionError: If an option has an invalid value, or both models fail on the given
            inputs.

    Examples:
        >>> report = ramet.verify(model, ramet.clone(model))
        >>> report.ok
        True
        >>> other = ramet.clone(model, weights="fresh", seed=1)
        >>> print(ramet.verify(model, other).title)
        classifier and classifier: different
    """
    aspects = checked_aspects(only)
    check_seed(seed)
    check_tolerances(rtol=rtol, atol=atol)
    check_inputs(inputs)
    models = [_loaded(each) for each in (first, second)]
    edited = [side for side in (0, 1) if _is_edited(models[side])]
    graph: Any = models[edited[0]] if len(edited) == 1 and only is None else None
    built = [each.build() if isinstance(each, Graph) else each for each in models]
    settings = _Settings(aspects, inputs, seed, Tolerance(rtol, atol).difference)
    with internals.room_for(*built):
        comparison = _Verification(pair(*built), settings)
        if graph is None:
            return comparison.report()
        return _Edited(comparison, graph, edited[0]).report()


def _loaded(given: Any) -> Any:
    """Return a model or a Graph."""
    model = load(given) if isinstance(given, (str, Path)) else given
    if not isinstance(model, Graph):
        check_model(model)
    return model


def _is_edited(model: Any) -> bool:
    return isinstance(model, Graph) and is_edited(model)


@dataclass(frozen=True, slots=True)
class _Settings:
    """What `verify` was asked for."""

    aspects: tuple[str, ...]
    inputs: Any
    seed: int
    differs: Differs


@dataclass(frozen=True, slots=True)
class _Run:
    """What became of calling both models."""

    check: Check
    """Whether they computed the same."""
    differences: tuple[RunDifference, ...] = ()
    """What they computed otherwise."""
    sample: Sample | None = None
    """What they were called with."""


class _Verification:
    """Compares two live models."""

    def __init__(self, pairs: Pairs, settings: _Settings) -> None:
        self.pairs = pairs
        self.models = pairs.first, pairs.second
        self.settings = settings
        self.contents = read(pairs)
        self.variables: Variables = self.contents.variables
        self._samples: dict[int, Sample | None] = {}
        """Made-up data, by the size of open dimensions."""

    def report(self) -> Report:
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
        result: _Run,
        *,
        training: bool,
        expected: frozenset[str] = frozenset(),
        edited: int = 1,
    ) -> Divergence | None:
        """Find the first call that returns something else, on the data of a run."""
        if result.sample is None:
            return None
        differs = self.settings.differs
        description = next(
            (each.text for each in result.differences if each.output is not None), ""
        )
        comparison = Comparison(
            self.pairs, result.sample, training, differs, expected, edited, description
        )
        return first_divergence(comparison)

    # --- runs ------------------------------------------------------------------------

    def run(self, *, training: bool) -> _Run:
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
                return _Run(Check(name, (), problem, done=False))
        return self._on_made_up(name, training=training)

    def _on_made_up(self, name: str, *, training: bool) -> _Run:
        """Call both models on the first made-up data that fits."""
        problem = "the shape of its inputs is not known; pass inputs"
        failed: _Run | None = None
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
        return failed or _Run(Check(name, (), problem, done=False))

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
    ) -> _Run:
        found = tuple(self._differences(results))
        lines = tuple(difference.text for difference in found)
        return _Run(Check(name, lines, scope), found, sample)

    def _unfit(self, results: list[Results | Exception]) -> OptionError:
        """Return an error that says how both models fail on the given inputs."""
        first, second = (self._failed(side, error) for side, error in enumerate(results))
        description = first if first == second else f"{first}, and{second}"
        error = OptionError(
            f"both models fail on the given inputs{description}; pass inputs that fit"
        )
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


class _Edited:
    """Compares a model with what an edited graph builds: what edits change is expected."""

    def __init__(self, comparison: _Verification, graph: Graph, side: int) -> None:
        self._comparison = comparison
        self._graph = graph
        self._side = side
        self._reach = EditReach(graph, side, comparison.pairs.alignment)

    def report(self) -> Report:
        comparison = self._comparison
        checks = [self._static(aspect) for aspect in ("structure", "sharing", "state")]
        runs = [comparison.run(training=training) for training in (False, True)]
        checks += [
            self._run(result, training=training)
            for training, result in zip((False, True), runs, strict=True)
        ]
        untouched, divergence = self._untouched(runs[0])
        journal = "; ".join(map(str, self._graph.journal))
        expected = Check("expected", (), f"may differ: {journal}")
        first, second = comparison.models
        return Report(first.name, second.name, (untouched, *checks, expected), divergence)

    def _untouched(self, result: _Run) -> tuple[Check, Divergence | None]:
        """Compare the calls that no edit reaches."""
        comparison = self._comparison
        expected = self._reached() or frozenset({""})
        divergence = comparison.divergence(
            result, training=False, expected=expected, edited=self._side
        )
        count = counted(len(self._graph.calls) - len(self._reach.calls), "call")
        description = () if divergence is None else (str(divergence),)
        scope = f"{count} that no edit reaches"
        if result.sample is None:
            return Check("untouched", (), result.check.scope, done=False), None
        return Check("untouched", description, scope), divergence

    def _reached(self) -> frozenset[str]:
        """Name the calls that edits reach as in the model: calls of one layer may be renumbered."""
        built = self._comparison.pairs.graphs[self._side]
        names = {} if built is None else align(self._graph, built, weights=False).calls
        return frozenset(names.get(call, call) for call in self._reach.calls)

    def _static(self, aspect: str) -> Check:
        check = self._comparison.check(aspect)
        if check.ok:
            return check
        if aspect == "state":
            edited = {key for key, layer in self._graph.layers.items() if layer.edit is not None}
            kept = [
                both
                for both in self._comparison.variables.pairs
                if both.noun == "variable"
                and (both.path, both.other)[self._side].partition("/")[0] not in edited
            ]
            lines = tuple(state_differences(Variables(kept)))
            flags = tuple(line for line in lines if " has trainable " in line)
            excused = {*flags} - {*self._unexpected(aspect, flags)}  # by `freeze`
            lines = tuple(line for line in lines if line not in excused)
        else:
            lines = self._unexpected(aspect, check.differences)
        return _divided(check, lines)

    def _unexpected(self, aspect: str, lines: tuple[str, ...]) -> tuple[str, ...]:
        """Return the differences that the unedited model of the graph does not have."""
        source = live_of(self._graph).model
        source = self._source() if source is None else source
        other = self._comparison.models[1 - self._side]
        if source is None or source is other:
            return ()
        models = [source, source]
        models[self._side] = self._comparison.models[self._side]
        own = _Verification(pair(*models), self._comparison.settings)
        known = {*own.lines(aspect)}
        return tuple(line for line in lines if line not in known)

    def _source(self) -> Any:
        read = live_of(self._graph).graph
        return None if read is None else live_of(read).model

    def _run(self, result: _Run, *, training: bool) -> Check:
        has_other_inputs = self._has_other_inputs()
        lines = tuple(
            difference.text
            for difference in result.differences
            if not (has_other_inputs or self._reach.explains(difference, training=training))
        )
        return _divided(result.check, lines)

    def _has_other_inputs(self) -> bool:
        """Whether an edit changed what goes in."""
        models = self._comparison.models
        counts = {len(keras.tree.flatten(getattr(model, "inputs", None))) for model in models}
        return len(counts) > 1


def _divided(check: Check, lines: tuple[str, ...]) -> Check:
    """Return a check in which all but some differences are expected."""
    expected = tuple(line for line in check.differences if line not in lines)
    return replace(check, differences=lines, expected=expected)
