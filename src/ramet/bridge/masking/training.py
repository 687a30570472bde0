"""Losses and metrics that would apply the mask of an output, had it not been lost."""

from dataclasses import dataclass
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.masking.flow import Flow
from ramet.bridge.masking.parts import Loss, Mask, Shape, fits
from ramet.graph import Graph, Ref
from ramet.graph.tree import map_tree


@dataclass(frozen=True, slots=True)
class Unmasked:
    """An output whose mask was lost, and what would have used it."""

    output: str
    """Path of the call that makes the output."""
    loss: Loss
    """The mask, and who lost it."""
    users: tuple[str, ...]
    """The losses and metrics, in words: `loss 'mse'`."""


def unmasked_outputs(flow: Flow, graph: Graph, model: Any) -> list[Unmasked]:
    """Lists the outputs that a compiled model is trained or evaluated on without their masks.

    Losses and metrics are not computed, only asked for the shape of what they return.
    """
    carries = {ref: flow.carry("", ref) for ref in keras.tree.flatten(graph.outputs)}
    lost = {ref: c.lost for ref, c in carries.items() if c.mask is None and c.lost}
    if not lost or not getattr(model, "compiled", False):
        return []
    with internals.untouched_names(), internals.untouched_randomness():
        users = _users(graph, model, lost)
    return [
        Unmasked(ref.call, loss, tuple(users[ref, loss]))
        for ref, losses in lost.items()
        for loss in losses
        if users.get((ref, loss))
    ]


def _users(
    graph: Graph, model: Any, lost: dict[Ref, tuple[Loss, ...]]
) -> dict[tuple[Ref, Loss], list[str]]:
    """Returns who would have used each lost mask."""
    refs: dict[int, Ref] = {}

    def symbolic(ref: Ref) -> Any:
        spec = graph.calls[ref.call].outputs[ref.index]
        tensor = keras.KerasTensor(spec.shape, spec.dtype)
        refs[id(tensor)] = ref
        return tensor

    found: dict[tuple[Ref, Loss], list[str]] = {}
    outputs = map_tree(symbolic, graph.outputs)
    for kind, name, function, output in _evaluations(model, outputs):
        ref = refs.get(id(output))
        if ref not in lost:
            continue
        values = internals.shape_of_values(function, output)
        for loss in lost[ref]:
            words = found.setdefault((ref, loss), [])
            if values is not None and _has_steps(values, loss.mask, output.shape):
                words += [f"{kind} '{name}'"] * (f"{kind} '{name}'" not in words)
    return found


def _evaluations(model: Any, outputs: Any) -> list[internals.Evaluated]:
    try:
        return [*internals.masked_evaluations(model, outputs)]
    except Exception:  # noqa: BLE001 compiled in a way that does not fit its outputs: it cannot train
        return []


def _has_steps(values: Shape, mask: Mask, output: Shape) -> bool:
    """Returns True if a loss or metric has one value for each step that a mask tells of.

    Where it returns one number for all steps, a mask makes no difference.
    """
    return len(values) == len(mask.shape) and fits(values, output)
