"""The measured numbers as Markdown."""

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.results import (
    CLONE,
    IMPORT,
    IMPORT_CLONE,
    IMPORT_KERAS,
    LONG,
    PEERS,
    SHORT,
    Result,
    Timing,
    best,
    per_layer,
    ratio,
)
from benchmarks.targets import Target, targets

NONE = "-"
"""Shown where nothing was measured."""


def markdown(results: Sequence[Result]) -> str:
    """Write the tables of all backends."""
    parts = [
        "# Figures",
        "Written by `make bench`; [README.md](README.md) says what is measured, and how.",
        *_conditions(results),
        "## Targets",
        _targets(results),
    ]
    for result in results:
        parts += [f"## {result['backend']}", _times(result), *_notes(result)]
    parts += ["## Growth, memory, imports", _others(results)]
    return "\n\n".join(parts) + "\n"


def number(figure: float) -> str:
    """Format a number with two or three significant digits."""
    if figure >= 100:
        return f"{figure:,.0f}"
    if figure >= 10:
        return f"{figure:.1f}"
    return f"{figure:.2f}" if figure >= 0.1 else f"{figure:.2g}"


def verdict(target: Target, result: Result) -> str:
    """Write what was measured for a target, and whether that meets it."""
    figure = target.measure(result)
    if figure is None:
        return NONE
    return f"{number(figure)} {'met' if target.met(figure) else '**missed**'}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table whose first column is text and whose others are numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _conditions(results: Sequence[Result]) -> Iterator[str]:
    """Describe machine and date; backends measured alike share a paragraph."""
    groups: dict[str, list[str]] = {}
    for result in results:
        machine = result["machine"]
        versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
        condition = (
            f"{result['date']}; {machine['system']}, {machine['cpu']}, "
            f"{machine['cores']} cores, {machine['memory_gib']} GiB; {versions}."
        )
        groups.setdefault(condition, []).append(result["backend"])
    for condition, backends in groups.items():
        yield f"{', '.join(backends)}: {condition}"


def _targets(results: Sequence[Result]) -> str:
    models = list(dict.fromkeys(model for result in results for model in result["models"]))
    rows = (
        [
            target.figure,
            target.subject,
            target.aim,
            *(verdict(target, result) for result in results),
        ]
        for target in targets(models)
    )
    return table(["figure", "of", "target", *(result["backend"] for result in results)], rows)


def _times(result: Result) -> str:
    peers = [
        way
        for way in PEERS
        if any(way in subject["timings"] for subject in result["models"].values())
    ]
    rows: list[list[str]] = []
    for model, subject in result["models"].items():
        clone = best(subject["timings"], CLONE)
        rows.append(
            [
                model,
                f"{subject['layers']:,}",
                number(subject["bytes"] / 1e6),
                _failure(subject["timings"][CLONE]) if clone is None else number(clone * 1000),
                *(_ratio(subject["timings"], way) for way in peers),
            ]
        )
    return table(["model", "layers", "MB", f"{CLONE}, ms", *peers], rows)


def _ratio(timings: dict[str, Timing], way: str) -> str:
    figure = ratio(timings, way, CLONE)
    return _failure(timings.get(way, {})) if figure is None else number(figure)


def _failure(timing: Timing) -> str:
    if "error" in timing:
        return f"failed: {timing['error']}"
    return "not run" if "not_run" in timing else NONE


def _notes(result: Result) -> Iterator[str]:
    """Explain why a way failed or was not run, once for all models concerned."""
    groups: dict[str, list[str]] = {}
    for model, subject in result["models"].items():
        for way, timing in subject["timings"].items():
            if "error" in timing:
                reason = f"failed: {timing['error']}: {timing.get('message', '')}"
            elif "not_run" in timing:
                reason = f"not run: {timing['not_run']}"
            else:
                continue
            groups.setdefault(f"{model}, {reason}", []).append(way)
    if groups:
        yield "\n".join(f"- {reason} ({', '.join(ways)})" for reason, ways in groups.items())


def _others(results: Sequence[Result]) -> str:
    rows: list[list[str]] = []
    for layers in (SHORT, LONG):
        taken = (per_layer(result, layers) for result in results)
        rows.append([f"a clone of {layers:,} layers, µs per layer", *_scaled(taken, 1e6)])
    memory = [result.get("memory") for result in results]
    grown = (None if peak is None else peak["growth"] for peak in memory)
    weights = (None if peak is None else peak["bytes"] for peak in memory)
    rows.append(["a clone's peak of memory, MB", *_scaled(grown, 1e-6)])
    rows.append(["the weights that it copies, MB", *_scaled(weights, 1e-6)])
    for statement in (IMPORT_KERAS, IMPORT, IMPORT_CLONE):
        taken = (best(result.get("imports", {}), statement) for result in results)
        rows.append([f"{statement}, ms", *_scaled(taken, 1e3)])
    return table(["", *(result["backend"] for result in results)], rows)


def _scaled(figures: Iterable[float | None], scale: float) -> list[str]:
    return [NONE if figure is None else number(figure * scale) for figure in figures]
