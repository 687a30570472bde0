"""`verify`: whether two models are the same, and if not, where they part."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from ramet.bridge import compare, internals
from ramet.bridge.checks import check_model
from ramet.bridge.divergence import Difference, Divergence, first_divergence
from ramet.bridge.live import is_edited
from ramet.bridge.samples import SIZES, Sample, make_sample
from ramet.bridge.trace import has_graph
from ramet.errors import DifferenceError
from ramet.graph import Graph
from ramet.graph.console import as_text
from ramet.graph.html import html_table
from ramet.graph.names import counted
from ramet.graph.reach import unsettled_calls

_SHOWN = 3
"""How many differences of a kind the table shows; `Check.differences` has all."""
_COLUMNS = ("aspect", "verdict", "found")


@dataclass(frozen=True, slots=True)
class Check:
    """One aspect in which two models were compared."""

    name: str
    """The aspect: structure, sharing, state, outputs or training."""
    differences: tuple[str, ...]
    """How the models differ, in words; empty if they do not."""
    scope: str
    """What was compared, or why nothing was."""
    done: bool = True
    """Whether the comparison could be made."""

    @property
    def ok(self) -> bool:
        """Whether no difference was found."""
        return not self.differences

    @property
    def verdict(self) -> str:
        """`same`, `different` or `not checked`."""
        if not self.done:
            return "not checked"
        return "same" if self.ok else "different"


@dataclass(frozen=True, slots=True)
class Report:
    """What `verify` found. Printed, it is a table."""

    first: str
    """Name of the first model."""
    second: str
    """Name of the second model."""
    checks: tuple[Check, ...]
    """The aspects in which they were compared."""
    first_divergence: Divergence | None = None
    """The first call, in data order, whose inputs agree and whose outputs do not."""

    @property
    def ok(self) -> bool:
        """Whether the models are the same in every aspect that was checked."""
        return all(check.ok for check in self.checks)

    @property
    def complete(self) -> bool:
        """Whether every aspect could be checked."""
        return all(check.done for check in self.checks)

    def check(self, name: str) -> Check:
        """Returns the check of one aspect."""
        return next(check for check in self.checks if check.name == name)

    def raise_if_different(self) -> None:
        """Raises an error that names the first difference of each kind.

        Raises:
            DifferenceError: If the models differ.
        """
        if not self.ok:
            found = [f"{c.name}: {c.differences[0]}" for c in self.checks if not c.ok]
            message = (
                f"models '{self.first}' and '{self.second}' differ in {'; '.join(found)}; "
                "print the report to see more"
            )
            raise DifferenceError(message)

    @property
    def title(self) -> str:
        """Which models were compared, and the verdict."""
        same = "the same" if self.complete else "the same in what was checked"
        return f"{self.first} and {self.second}: {same if self.ok else 'different'}"

    def _repr_html_(self) -> str:
        """Returns the report as a table, which notebooks show."""
        rows = [(check.name, check.verdict, "\n".join(_lines(check))) for check in self.checks]
        return html_table(self.title, _COLUMNS, rows)

    def __rich__(self) -> Table:
        """Returns the report as a table for rich."""
        table = Table(title=Text(self.title), title_justify="left")
        for column in _COLUMNS:
            table.add_column(column)
        for check in self.checks:
            table.add_row(check.name, check.verdict, Text("\n".join(_lines(check))))
        if self.first_divergence is not None:
            table.add_row("divergence", "first at", Text(str(self.first_divergence)))
        return table

    def __str__(self) -> str:
        """Returns the report as a table of plain text."""
        return as_text(self)


def _lines(check: Check) -> Iterator[str]:
    if check.ok:
        yield check.scope
    yield from check.differences[:_SHOWN]
    if len(check.differences) > _SHOWN:
        yield f"and {counted(len(check.differences) - _SHOWN, 'more difference')}"


def verify(  # noqa: PLR0913 each is an option of its own
    first: Any,
    second: Any,
    *,
    inputs: Any = None,
    seed: int = 0,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> Report:
    """Compares two models in structure, sharing, state and numbers, bit by bit.

    Both are called on the same data, for inference and for training, without
    changing either. The name of a model is not compared. Costs four calls; where
    outputs differ and both models have graphs, they are run once more call by call.

    Args:
        first: A Keras model.
        second: Another one. For a Graph that was edited, what it builds is compared in
            everything that the edits do not reach.
        inputs: Data to call the models with, in the structure of their inputs.
            By default it is made up: shapes and dtypes are the model's own, and
            integers stay within the vocabularies that they reach.
        seed: Seed of the made-up data.
        rtol: How much outputs may differ, relative to the first model's.
        atol: How much outputs may differ at all. With neither, bits are compared.

    Returns:
        A report: `report.ok`, `report.first_divergence`, `print(report)`,
        `report.raise_if_different()`.

    Raises:
        ModelError: If one of them is not a Keras model.
    """
    differs = compare.Tolerance(rtol, atol).difference
    if isinstance(second, Graph) and not is_edited(second):
        second = second.build()
    check_model(first)
    if isinstance(second, Graph):
        with internals.room_for(first, second):
            return _verify_edited(first, second, inputs, seed, differs)
    check_model(second)
    with internals.room_for(first, second):
        return _verify(first, second, inputs, seed, differs)


def _verify(first: Any, second: Any, inputs: Any, seed: int, differs: Difference) -> Report:
    layers = counted(len(first.layers), "layer")
    variables = counted(compare.count_variables(first), "variable")
    checks = (
        Check("structure", tuple(compare.structure(first, second)), layers),
        Check("sharing", tuple(compare.sharing(first, second)), f"{layers}, {variables}"),
        Check("state", tuple(compare.state(first, second)), variables),
    )
    runs = [
        _on_made_up(name, first, second, seed, differs)
        if inputs is None
        else _on_given(name, first, second, inputs, differs)
        for name in ("outputs", "training")
    ]
    divergence = None
    if not runs[0].ok and has_graph(first) and has_graph(second):
        divergence = _divergence(first, second, inputs, seed, differs)
    return Report(first.name, second.name, (*checks, *runs), divergence)


def _divergence(  # noqa: PLR0913, PLR0917 what verify takes, and one more
    first: Any,
    second: Any,
    inputs: Any,
    seed: int,
    differs: Difference,
    expected: frozenset[str] = frozenset(),
) -> Divergence | None:
    """Finds the first call that gives something else, on the first data that fits."""
    samples = [Sample((inputs,), {})]
    if inputs is None:
        samples = [sample for size in SIZES if (sample := make_sample(first, size, seed))]
    for sample in samples:
        try:
            return first_divergence(first, second, sample, differs, expected=expected)
        except Exception:
            if sample is samples[-1]:
                raise
    return None


def _verify_edited(first: Any, graph: Graph, inputs: Any, seed: int, differs: Difference) -> Report:
    """Compares a model with what an edited graph builds, where no edit reaches."""
    made = graph.build()
    reached = unsettled_calls(graph)
    divergence = _divergence(first, made, inputs, seed, differs, frozenset(reached or {""}))
    told = () if divergence is None else (str(divergence),)
    untouched = counted(len(graph.calls) - len(reached), "call")
    edited = {key for key, layer in graph.layers.items() if layer.edit is not None}
    kept = [v for v in made.variables if v.path.split("/")[0] not in edited]
    old = {variable.path: variable for variable in first.variables}
    lost = [v.path for v in kept if v.path in old and not compare.same_values(old[v.path], v)]
    checks = (
        Check("untouched", told, f"{untouched} that no edit reaches"),
        Check(
            "state",
            tuple(f"variable '{path}' differs" for path in lost),
            f"{counted(len(kept), 'variable')} of layers that no edit changes",
        ),
        Check("expected", (), f"may differ: {'; '.join(map(str, graph.journal))}"),
    )
    return Report(first.name, made.name, checks, divergence)


@dataclass(frozen=True, slots=True)
class _Run:
    """One call of both models."""

    sample: Sample
    scope: str
    training: bool
    differs: Difference

    def compared(self, name: str, expected: compare.Results, model: Any) -> Check:
        """Compares what a model computes with what another one did."""
        try:
            found = compare.run(model, self.sample, training=self.training)
        except Exception as error:  # noqa: BLE001 the first took the data, so it is a difference
            return Check(name, (f"the second model fails: {_first_line(error)}",), self.scope)
        return Check(name, tuple(compare.outputs(expected, found, self.differs)), self.scope)


def _on_given(name: str, first: Any, second: Any, inputs: Any, differs: Difference) -> Check:
    """Compares what two models compute on data that the caller gave."""
    sample = Sample((inputs,), {})
    run = _Run(sample, "on the given inputs", name == "training", differs)
    return run.compared(name, compare.run(first, run.sample, training=run.training), second)


def _on_made_up(name: str, first: Any, second: Any, seed: int, differs: Difference) -> Check:
    """Compares what two models compute on the first made-up data that fits."""
    if not first.built:
        return Check(name, (), "the model has not been built; pass inputs", done=False)
    problem = "the shape of its inputs is not known; pass inputs"
    for size in SIZES:
        try:
            sample = make_sample(first, size, seed)
            if sample is None:
                break
            run = _Run(sample, "on made-up inputs", name == "training", differs)
            expected = compare.run(first, sample, training=run.training)
        except Exception as error:  # noqa: BLE001 data that does not fit may raise anything
            problem = f"made-up inputs do not fit; pass inputs ({_first_line(error)})"
            continue
        check = run.compared(name, expected, second)
        # A backend may compute nonsense from data that is too small to make sense.
        if check.ok or run.compared(name, expected, first).ok:
            return check
        problem = "the first model does not give the same twice; pass inputs"
    return Check(name, (), problem, done=False)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:80]}" if lines else type(error).__name__
