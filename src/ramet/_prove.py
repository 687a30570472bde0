"""`prove`: whether what the edits of a graph promised is true."""

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import keras
import numpy as np

import ramet
from ramet import backends
from ramet import keras_internals as internals
from ramet._arguments import shown
from ramet._words import Promise, weakest
from ramet.comparing.fingerprint import fingerprint
from ramet.comparing.options import check_seed, check_tolerances
from ramet.comparing.running.befores import Build, Built
from ramet.comparing.running.data import check_data, explained_failures
from ramet.comparing.running.masked import MaskTrial, mask_trial, words
from ramet.comparing.running.measures import tolerance_of
from ramet.comparing.running.samples import Sample
from ramet.comparing.running.spans import Span, spans, whole_span
from ramet.comparing.running.trials import Trial, Trials, input_shapes
from ramet.errors import OptionError
from ramet.graph import Graph
from ramet.graph.stages import Removed
from ramet.results.proof import Judgement, Proof, Proven
from ramet.tracing.origin import live_of
from ramet.tracing.trace import trace

_OTHER_INPUTS = "it starts from other tensors; see the edits"


def prove(graph: Any, data: Any = None, *, rtol: float | None = None, seed: int = 0) -> Proof:
    """Measure whether the edits of a graph keep their promises, edit by edit and as a whole.

    Builds the graph as it was before and after each edit, and calls both models on the same
    data: at inference, and where the promise is `exact`, in training mode too. No model is changed.
    Outputs that both have are compared: those at the same place, or for a part the tensors that
    it was cut out of. If the graph of an edit can only be built after a later edit, both are
    proven together.

    Takes one build and two to four calls per edit.

    Args:
        graph: The edited graph.
        data: Data to call the models with, in the structure of the source's inputs: an array, or
            a list or dict of them. By default it is generated, with the shapes and dtypes of the
            inputs, and integers within the vocabularies that they index. An edit that changes the
            inputs is proven on generated data.
        rtol: The difference that counts as rounding, relative to the largest value of an output.
            By default 1e-5 where everything is computed in float32, 1e-2 with float16, 5e-2 with
            bfloat16. `exact` always means the same bits.
        seed: Seed of the generated data, and of the weights that an edit initializes.

    Returns:
        A proof: `proof.ok`, `print(proof)`, `proof.raise_if_broken()`, `proof.to_json()`.

    Raises:
        ModelError: If the argument is neither a graph nor a model.
        GraphError: If the graph was written by hand or unpickled.
        OptionError: If an option has an invalid value, or the source cannot be called on the data.

    Examples:
        >>> graph = ramet.trace(model).insert_after("pool", layers.Dropout(0.2, name="more"))
        >>> proof = ramet.prove(graph.rename({"head": "logits"}))
        >>> proof.ok, [edit.promised for edit in proof.edits]
        (True, ['inference-equal', 'exact'])
        >>> proof.raise_if_broken()
    """
    graph = trace(graph)
    live_of(graph)
    check_seed(seed)
    if rtol is not None:
        check_tolerances(rtol=rtol)
    if data is not None:
        _check_data(data)
    return _Prover(graph, data, rtol, int(seed)).proof()


def _check_data(data: Any) -> None:
    check_data(data, "data")
    if any(0 in np.shape(leaf) for leaf in keras.tree.flatten(data) if leaf is not None):
        message = "data has no samples, on which all models are the same; pass at least one"
        raise OptionError(message)


class _Prover:
    """Measures one edit after the other."""

    def __init__(self, graph: Graph, data: Any, rtol: float | None, seed: int) -> None:
        self._graph = graph
        self._data = data
        self._rtol = rtol
        self._seed = seed
        self._built: dict[int, Built] = {}
        """The models before and after an edit, by the ids of their graphs."""

    def proof(self) -> Proof:
        self._build(self._graph)  # If it cannot be built, that is said at once.
        whole = whole_span(self._graph)
        source = _source(whole)
        if self._data is not None and source is not None:
            model = self._build(source).model
            with explained_failures(model, self._data):
                self._build(source).call(Sample((self._data,), {}), training=False)
        edits = tuple(self._proven(span, source) for span in spans(self._graph, self._can_build))
        given = "on generated" if self._data is None else "on given"
        seed = f", seed {shown(self._seed)}" if self._data is None else ""
        return Proof(
            name=self._graph.name,
            edits=edits,
            whole=self._whole(whole, edits, source),
            data=f"{given} data{seed}",
            fingerprint="" if source is None else fingerprint(source),
            versions=_versions(),
        )

    def _build(self, graph: Graph) -> Built:
        if id(graph) not in self._built:
            while len(self._built) > 2:  # noqa: PLR2004 the result, and the last before and after
                del self._built[next(key for key in self._built if key != id(self._graph))]
            self._built[id(graph)] = Built(graph, self._seed)
        return self._built[id(graph)]

    def _can_build(self, graph: Graph) -> bool:
        try:
            self._build(graph)
        except Exception:  # noqa: BLE001 Keras may raise anything; what it repairs may come later
            return False
        return True

    def _whole(self, span: Span, edits: tuple[Proven, ...], source: Graph | None) -> Proven:
        """Measure the source and the result."""
        text = "the source and the result"
        if len(edits) == 1 and edits[0].edits == span.numbers:
            one = edits[0]
            return Proven(
                one.edits, text, one.promised, one.judgement, one.absolute, one.relative,
                one.allowed, divergence=one.divergence, detail=one.detail, claim=one.claim,
            )  # fmt: skip
        if not span.edits:
            return Proven((), text, "exact", "kept", 0.0, 0.0, 0.0, detail="there are no edits")
        if source is None or span.has_cut or not (span.stage and span.stage.is_plain):
            promised = weakest(edit.promise for edit in span.edits)
            return Proven(span.numbers, text, promised, "not measured", detail=_OTHER_INPUTS)
        return self._proven(span, source, text)

    def _proven(self, span: Span, source: Graph | None, text: str = "") -> Proven:
        promised = weakest(edit.promise for edit in span.edits)
        note = "" if text or len(span.edits) == 1 else _why_together(span)
        text = text or "; ".join(map(str, span.edits))
        if span.stage is None or span.has_cut:
            reason = _OTHER_INPUTS if span.stage else "the graph before it is not kept"
            return Proven(span.numbers, text, promised, "not measured", detail=reason)
        try:
            trials = Trials(span.stage, self._build(span.after), self._build)
        except Exception as error:  # noqa: BLE001 Keras may raise anything
            reason = f"the graph before it cannot be built: {internals.reason_of(error)}"
            return Proven(span.numbers, text, promised, "not measured", detail=reason)
        data = self._data if self._fits(span.stage.graph, source) else None
        judge = _Judge(span, text, note, promised, trials, self._rtol)
        removed = span.stage.removed if len(span.edits) == 1 else ()
        if not removed:
            return judge.judge(data, self._seed)
        return judge.judge_removed(removed, self._build, data, self._seed)

    def _fits(self, graph: Graph, source: Graph | None) -> bool:
        """Whether a graph has the inputs of the source, which the given data is for."""
        if source is None:
            return graph.journal.stages == ()
        return input_shapes(graph) == input_shapes(source)


class _Judge:
    """Judges one edit by what its models compute."""

    def __init__(  # noqa: PLR0913, PLR0917 all of it is one judgement
        self,
        span: Span,
        text: str,
        note: str,
        promised: Promise,
        trials: Trials,
        rtol: float | None,
    ) -> None:
        self._numbers = span.numbers
        self._text = text
        self._promised: Promise = promised
        self._trials = trials
        self._rtol = rtol
        self._allowed = tolerance_of(trials.graphs) if rtol is None else rtol
        if promised == "exact":
            self._allowed = 0.0
        self._note = note

    def judge(self, data: Any, seed: int) -> Proven:
        trial = self._trials.run(data, seed, training=False)
        if trial.problem:
            return self._said("not measured", trial, trial.problem)
        if self._promised == "changed":
            return self._said("changed", trial, trial.text)
        if not self._holds(trial):
            return self._broken(trial, training=False)
        if self._promised == "exact" and self._trials.is_plain:
            trained = self._trials.run(data, seed, training=True)
            if trained.problem:
                return self._said("kept", trial, f"not measured in training: {trained.problem}")
            if not self._holds(trained):
                return self._broken(trained, training=True)
        return self._said("kept", trial, "")

    def judge_removed(
        self, removed: Sequence[Removed], build: Build, data: Any, seed: int
    ) -> Proven:
        """Judge an edit that removed channels: is the model the one before, with them masked?"""
        trial = self._trials.run(data, seed, training=False)
        try:
            masks = mask_trial(removed, self._trials.after, build, data, seed)
        except Exception as error:  # noqa: BLE001 Keras may raise anything
            reason = f"a masked model cannot be built: {internals.reason_of(error)}"
            return self._said("not measured", Trial(), reason, claim="equal to a masked model")
        if not masks.is_exact:
            return self._lossy(trial, masks)
        self._allowed = masks.allowed if self._rtol is None else self._rtol
        measured = masks.trial
        detail = f"outputs changed by {words(trial.found)}"
        judgement: Judgement = "kept"
        if measured.problem:
            judgement, detail = "not measured", measured.problem
        elif not self._holds(measured):
            judgement, detail = "broken", measured.text
            if not masks.is_steady():
                judgement, detail = "not measured", "a model differs from call to call"
        return self._said(judgement, measured, detail, claim=masks.claim)

    def _lossy(self, trial: Trial, masks: MaskTrial) -> Proven:
        """Return what is measured of channels whose removal is not the same as masking them."""
        if trial.problem:
            return self._said("not measured", trial, trial.problem)
        apart = masks.trial.problem or f"{words(masks.trial.found)} from the masked model"
        return self._said("changed", trial, apart, claim=masks.claim)

    def _holds(self, trial: Trial) -> bool:
        if trial.failed:
            return False
        found = trial.found
        return found.same if self._promised == "exact" else found.relative <= self._allowed

    def _broken(self, trial: Trial, *, training: bool) -> Proven:
        trials, sample = self._trials, trial.sample
        if sample is not None and not trials.is_steady(sample, training=training):
            mode = " in training" if training else ""
            return self._said("not measured", trial, f"a model differs from call to call{mode}")
        divergence = trials.divergence(trial, training=training, allowed=self._allowed)
        text = f"{trial.text} in training" if training else trial.text
        said = self._said("broken", trial, text)
        return Proven(
            said.edits, said.text, said.promised, said.judgement, said.absolute, said.relative,
            said.allowed, said.detail, divergence,
        )  # fmt: skip

    def _said(self, judgement: Judgement, trial: Trial, detail: str, *, claim: str = "") -> Proven:
        is_measured = judgement != "not measured" and not trial.failed
        is_open = self._promised == "changed" and (not claim or judgement == "changed")
        return Proven(
            self._numbers,
            self._text,
            self._promised,
            judgement,
            trial.found.absolute if is_measured else None,
            trial.found.relative if is_measured else None,
            None if is_open else self._allowed,
            "; ".join(filter(None, [self._note, detail])),
            claim=claim,
        )


def _why_together(span: Span) -> str:
    kept = all(stage is not None for stage in span.stages)
    what = "cannot be built" if kept else "is not kept"
    return f"proven together: the graph between them {what}"


def _source(whole: Span) -> Graph | None:
    """Return the graph of the one model that was traced; `None` if there were several."""
    stage = whole.stage
    if stage is None or stage.joined or any(each and each.joined for each in whole.stages):
        return None
    return live_of(stage.graph).graph


def _versions() -> dict[str, str]:
    backend = backends.current().name
    packages = {"ramet": ramet.__version__, "keras": keras.__version__, "backend": backend}
    for name in (backend, f"{backend}-cpu"):
        try:
            return {**packages, backend: version(name)}
        except PackageNotFoundError:
            continue
    return packages
