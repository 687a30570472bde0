"""Losses and metrics that would apply the mask of an output if it had not been lost."""

from dataclasses import dataclass
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.graph import Graph, Ref
from ramet.graph.tree import map_tree
from ramet.masking.data import LostMask, Mask, Shape, fits
from ramet.masking.flow import Flow


@dataclass(frozen=True, slots=True)
class Unmasked:
    """An output whose mask was lost, and what would have used it."""

    output: str
    """Path of the call that makes the output."""
    lost: LostMask
    """The mask, and the call that lost it."""
    users: tuple[str, ...]
    """The losses and metrics, in words: `loss 'mse'`."""


def unmasked_outputs(flow: Flow, graph: Graph, model: Any) -> list[Unmasked]:
    """List the outputs that a compiled model is trained or evaluated on without their masks.

    Losses and metrics are not computed, only asked for the shape of what they return.
    """
    carries = {ref: flow.carry("", ref) for ref in keras.tree.flatten(graph.outputs)}
    lost = {ref: c.lost for ref, c in carries.items() if c.mask is None and c.lost}
    if not lost or not getattr(model, "compiled", False):
        return []
    with internals.untouched_names(), internals.untouched_randomness():
        users = _users(graph, model, lost)
    return [
        Unmasked(ref.call, mask, tuple(users[ref, mask]))
        for ref, masks in lost.items()
        for mask in masks
        if users.get((ref, mask))
    ]


def _users(
    graph: Graph, model: Any, lost: dict[Ref, tuple[LostMask, ...]]
) -> dict[tuple[Ref, LostMask], list[str]]:
    """Return the losses and metrics that would have used each lost mask, in words."""
    refs: dict[int, Ref] = {}

    def symbolic(ref: Ref) -> Any:
        spec = graph.calls[ref.call].outputs[ref.index]
        tensor = keras.KerasTensor(spec.shape, spec.dtype)
        refs[id(tensor)] = ref
        return tensor

    users: dict[tuple[Ref, LostMask], list[str]] = {}
    outputs = map_tree(symbolic, graph.outputs)
    for kind, name, function, output in _evaluations(model, outputs):
        ref = refs.get(id(output))
        if ref not in lost:
            continue
        values = internals.shape_of_values(function, output)
        for each in lost[ref]:
            words = users.setdefault((ref, each), [])
            if values is not None and _has_steps(values, each.mask, output.shape):
                words += [f"{kind} '{name}'"] * (f"{kind} '{name}'" not in words)
    return users


def _evaluations(model: Any, outputs: Any) -> list[internals.Evaluated]:
    try:
        return [*internals.masked_evaluations(model, outputs)]
    except Exception:  # noqa: BLE001 compiled in a way that does not fit its outputs: it cannot train
        return []


def _has_steps(values: Shape, mask: Mask, output: Shape) -> bool:
    """Whether a loss or metric has one value for each step of a mask.

    If it returns one number for all steps, a mask makes no difference.
    """
    return len(values) == len(mask.shape) and fits(values, output)
