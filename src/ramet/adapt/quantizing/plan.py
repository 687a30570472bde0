"""Which layers of a graph are quantized, and how: patterns, in order, the first that matches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from ramet._arguments import check_word, shown
from ramet.adapt._choosing import chosen, chosen_by_any
from ramet.adapt.quantizing.modes import CALIBRATED, MODES, has_kernel, reason_against
from ramet.errors import GraphError, OptionError
from ramet.graph import Graph, Layer
from ramet.graph.names import listed

_REST = ("*", "**")
"""Patterns for all the rest, of which nothing may be left."""


@dataclass(frozen=True)
class Plan:
    """What becomes of the layers of a graph, by path."""

    modes: dict[str, tuple[Layer, str]]
    """The layers that are quantized, and how."""
    left: dict[str, tuple[Layer, str]]
    """The layers that cannot be, and why."""


def plan(graph: Graph, at: Any, skip: Any) -> Plan:
    """Return which layers are quantized, and how.

    Raises:
        OptionError: If the patterns are not a dict of modes.
        GraphError: If a pattern has no effect: it matches nothing, comes after others that match
            the same, or matches only layers that cannot be quantized.
    """
    modes = _checked(at)
    skipped = {layer.identity for layer in chosen_by_any(graph, skip, "skip").values()}
    done = Plan({}, {})
    claimed: set[tuple[int, int]] = set()
    for pattern, mode in modes.items():
        meant = chosen(graph, pattern, "the pattern")
        relevant = {path: layer for path, layer in meant.items() if has_kernel(layer)}
        free = {
            path: layer
            for path, layer in relevant.items()
            if layer.identity not in skipped | claimed
        }
        _check_effect(graph, pattern, mode, relevant, free)
        reasons = {path: reason_against(layer, mode) for path, layer in relevant.items()}
        _check_possible(graph, pattern, mode, relevant, reasons)
        for path, layer in free.items():
            claimed.add(layer.identity)
            reason = reasons[path]
            into, what = (done.modes, mode) if reason is None else (done.left, reason)
            into[path] = layer, what
    return done


def _checked(at: Any) -> Mapping[Any, str]:
    if not isinstance(at, Mapping) or not at:
        message = (
            "at must be a dict of modes by patterns, such as {'encoder/**': 'int4', '*': 'int8'}, "
            f"got {shown(at)}"
        )
        raise OptionError(message)
    for pattern, mode in at.items():
        what = f"mode for {shown(getattr(pattern, 'pattern', pattern))}"
        if isinstance(cast("Any", mode), str) and mode in CALIBRATED:
            message = (
                f"{what} cannot be '{mode}': Keras calibrates only models that declare "
                "which blocks they consist of, and otherwise rounds silently; use 'int4'"
            )
            raise OptionError(message)
        check_word(mode, what, MODES)
    return at


def _check_effect(
    graph: Graph, pattern: Any, mode: str, relevant: dict[str, Layer], free: dict[str, Layer]
) -> None:
    text = shown(getattr(pattern, "pattern", pattern))
    if not relevant:
        message = (
            f"the pattern {text} matches no layer of graph '{graph.name}' with a kernel or "
            f"embeddings, so there is nothing to quantize to {mode}; name other layers"
        )
        raise GraphError(message)
    if not free and pattern not in _REST:
        message = (
            f"the pattern {text} has no effect in graph '{graph.name}': an earlier pattern or "
            f"skip has every layer that it matches ({', '.join([*relevant][:3])}); write it first"
        )
        raise GraphError(message)


def _check_possible(
    graph: Graph,
    pattern: Any,
    mode: str,
    relevant: dict[str, Layer],
    reasons: dict[str, str | None],
) -> None:
    if any(reason is None for reason in reasons.values()):
        return
    text = shown(getattr(pattern, "pattern", pattern))
    lines = [f"'{path}' ({relevant[path].kind}): {reason}" for path, reason in reasons.items()]
    message = (
        f"the pattern {text} matches no layer of graph '{graph.name}' that can be quantized to "
        f"{mode}: {listed(lines, separator='; ')}"
    )
    raise GraphError(message)
