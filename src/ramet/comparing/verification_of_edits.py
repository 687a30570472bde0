"""A model compared with what an edited graph builds: what the edits change is expected."""

from dataclasses import replace
from typing import Any

import keras

from ramet.comparing.alignment.align import align
from ramet.comparing.counterparts import pair
from ramet.comparing.reach import EditReach
from ramet.comparing.state import Variables, state_differences
from ramet.comparing.verification import Run, Verification
from ramet.graph import Graph
from ramet.graph.names import counted
from ramet.results.divergence import Divergence
from ramet.results.report import Check, Report
from ramet.tracing.origin import live_of


class EditedVerification:
    """Compares a model with what an edited graph builds: what edits change is expected."""

    def __init__(self, comparison: Verification, graph: Graph, side: int) -> None:
        self._comparison = comparison
        self._graph = graph
        self._side = side
        self._reach = EditReach(graph, side, comparison.pairs.alignment)

    def report(self) -> Report:
        """Compare all aspects, and the calls that no edit reaches."""
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

    def _untouched(self, result: Run) -> tuple[Check, Divergence | None]:
        """Compare the calls that no edit reaches."""
        comparison = self._comparison
        expected = self._reached() or frozenset({""})
        divergence = comparison.divergence(
            result, training=False, expected=expected, edited=self._side
        )
        count = counted(len(self._graph.calls) - len(self._reach.calls), "call")
        told = () if divergence is None else (str(divergence),)
        scope = f"{count} that no edit reaches"
        if result.sample is None:
            return Check("untouched", (), result.check.scope, done=False), None
        return Check("untouched", told, scope), divergence

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
        own = Verification(pair(*models), self._comparison.settings)
        known = {*own.lines(aspect)}
        return tuple(line for line in lines if line not in known)

    def _source(self) -> Any:
        read = live_of(self._graph).graph
        return None if read is None else live_of(read).model

    def _run(self, result: Run, *, training: bool) -> Check:
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
