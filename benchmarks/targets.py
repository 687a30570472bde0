"""The targets of ramet, and whether the measured numbers meet them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.results import (
    CHAIN,
    CLONE,
    CLONE_MODEL,
    EFFICIENTNET,
    IMPORT,
    IMPORT_CLONE,
    LONG,
    MEMCPY,
    MLP,
    RESNET,
    SET_WEIGHTS,
    SHARE,
    SHORT,
    TORCH_DEEPCOPY,
    Result,
    best,
    per_layer,
    ratio,
)


@dataclass(frozen=True)
class Target:
    """One figure and its limit."""

    figure: str
    """What is divided by what."""
    subject: str
    """The model it is measured on, or what else it is about."""
    limit: float
    at_least: bool
    """Whether the figure has to reach the limit; otherwise it must not exceed it."""
    measure: Callable[[Result], float | None]
    """Finds the figure; None where it was not measured."""

    @property
    def aim(self) -> str:
        """The limit, as shown in a table."""
        return f"{'≥' if self.at_least else '≤'} {self.limit:g}"

    def met(self, figure: float) -> bool:
        """Whether a figure is on the right side of the limit."""
        return figure >= self.limit if self.at_least else figure <= self.limit


def targets(models: list[str]) -> Iterator[Target]:
    """List the targets, one of each kind for every model concerned."""
    for model in (RESNET, EFFICIENTNET):
        yield _of_ways(model, SET_WEIGHTS, CLONE, 10, at_least=True)
    yield _of_ways(RESNET, TORCH_DEEPCOPY, CLONE, 1, at_least=True)
    yield _of_ways(MLP, CLONE, MEMCPY, 1.3, at_least=False)
    for model in models:
        yield _of_ways(model, CLONE_MODEL, SHARE, 30, at_least=True)
    yield Target("peak of memory / bytes of the weights", MLP, 1.1, at_least=False, measure=_memory)
    yield Target(
        f"time per layer / that of {SHORT} layers", CHAIN, 1.3, at_least=False, measure=_growth
    )
    for statement in (IMPORT, IMPORT_CLONE):
        yield _of_import(statement, 50)


def _of_ways(model: str, over: str, under: str, limit: float, *, at_least: bool) -> Target:
    def measure(result: Result) -> float | None:
        if model not in result["models"]:
            return None
        return ratio(result["models"][model]["timings"], over, under)

    return Target(f"{over} / {under}", model, limit, at_least, measure)


def _memory(result: Result) -> float | None:
    memory = result.get("memory")
    return None if memory is None else memory["growth"] / memory["bytes"]


def _growth(result: Result) -> float | None:
    short, long = per_layer(result, SHORT), per_layer(result, LONG)
    return None if short is None or long is None else long / short


def _of_import(statement: str, limit: float) -> Target:
    def measure(result: Result) -> float | None:
        seconds = best(result.get("imports", {}), statement)
        return None if seconds is None else seconds * 1000

    return Target(f"{statement}, ms", "after keras", limit, at_least=False, measure=measure)
