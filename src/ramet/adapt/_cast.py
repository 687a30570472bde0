"""`cast`: let the layers that you name compute, and store their weights, in another precision."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, overload

from ramet._arguments import check_flag, check_word, shown
from ramet.adapt._choosing import chosen_by_any
from ramet.adapt.casting.explained import explained
from ramet.adapt.casting.policies import (
    POLICIES,
    can_be_cast,
    changes_for,
    policy_of,
    reason_against,
)
from ramet.errors import GraphError, OptionError
from ramet.graph import Graph, Layer
from ramet.graph.data import Edit
from ramet.graph.edits.remake import Remade, remake
from ramet.graph.journal import with_entry
from ramet.graph.names import counted, listed
from ramet.results.casting import Casting
from ramet.tracing.settled import settled
from ramet.tracing.trace import trace


@overload
def cast(
    model: Any,
    at: Any,
    dtype: str,
    *,
    keep: Any = None,
    explain: Literal[False] = False,
    data: Any = None,
) -> Graph: ...
@overload
def cast(
    model: Any,
    at: Any,
    dtype: str,
    *,
    keep: Any = None,
    explain: Literal[True],
    data: Any = None,
) -> Casting: ...
def cast(  # noqa: PLR0913 each is another option
    model: Any,
    at: Any,
    dtype: str,
    *,
    keep: Any = None,
    explain: bool = False,
    data: Any = None,
) -> Graph | Casting:
    """Let the layers that you name compute, and store their weights, in another precision.

    The layers get another dtype policy, and those inside them too; weights are rounded once.
    Layers that are kept convert what they read to their own precision. Inputs and operations of
    `keras.ops` have no policy.

    Args:
        model: A graph or a model.
        at: Which layers: a glob, as in `Graph.select`, a compiled regular expression, a
            selection, or a list of them; a nested model stands for the layers in it.
        dtype: The policy: `"bfloat16"`, `"float16"`, `"float32"` or `"float64"` for weights and
            computation, `"mixed_bfloat16"` or `"mixed_float16"` for weights in float32. Train in
            float16 with a `keras.optimizers.LossScaleOptimizer`.
        keep: What stays as it is: as `at`, or a word for which there is no layer of that name:
            `"norms"`; `"softmax"`; `"head"`, the layers nearest to the outputs that have weights.
        explain: Whether to return what changes instead: builds the new model and runs both.
        data: For `explain`, a batch to run the models on; by default made-up inputs.

    Returns:
        The new Graph; with `explain`, a `Casting`, which prints as a table.

    Raises:
        OptionError: If there is no such policy.
        GraphError: If `at` or `keep` matches nothing, or no layer can be cast.

    Examples:
        >>> half = ramet.adapt.cast(model, "*", "bfloat16", keep=["norms", "head"]).build()
        >>> [half.get_layer(name).dtype_policy.name for name in ("conv", "norm", "head")]
        ['bfloat16', 'float32', 'float32']
        >>> costs = ramet.adapt.cast(model, "*", "bfloat16", keep="head", explain=True)
        >>> costs.difference < 0.05
        True
    """
    check_flag(explain, "explain")
    check_word(dtype, "dtype", POLICIES)
    if data is not None and not explain:
        raise OptionError("data is what cast runs the models on to explain; pass explain=True too")
    # What starts afresh is drawn once, so that before and after have the same weights.
    graph = settled(model) if explain else trace(model)
    planned, left = _plan(graph, at, dtype, keep)
    cast_graph = _cast(graph, planned, left, dtype)
    return explained(graph, cast_graph, planned, left, data) if explain else cast_graph


def _plan(
    graph: Graph, at: Any, dtype: str, keep: Any
) -> tuple[dict[str, Layer], dict[str, tuple[Layer, str]]]:
    """Return the layers that change, and those that cannot, with reasons, by path."""
    meant = chosen_by_any(graph, at, "at")
    kept = {layer.identity for layer in chosen_by_any(graph, keep, "keep").values()}
    able = {path: layer for path, layer in meant.items() if can_be_cast(layer)}
    if not able:
        message = (
            f"at={shown(at)} names no layer of graph '{graph.name}' that computes with floats; "
            "name layers with weights or activations"
        )
        raise GraphError(message)
    free = {path: layer for path, layer in able.items() if layer.identity not in kept}
    reasons = {path: reason_against(layer, dtype) for path, layer in free.items()}
    left = {path: (free[path], reason) for path, reason in reasons.items() if reason is not None}
    if left and len(left) == len(free):
        lines = [f"'{path}' ({layer.kind}): {reason}" for path, (layer, reason) in left.items()]
        message = f"no layer of graph '{graph.name}' can be cast to {dtype}: {'; '.join(lines[:3])}"
        raise GraphError(message)
    planned = {
        path: layer
        for path, layer in free.items()
        if reasons[path] is None and policy_of(layer).name != dtype
    }
    return planned, left


def _cast(graph: Graph, planned: Mapping[str, Layer], left: Mapping[str, Any], dtype: str) -> Graph:
    names = listed([f"'{path}'" for path in left])
    more = f"; {names} cannot be cast" if left else ""
    if not planned:
        text = f"cast to {dtype}: all {'other ' if left else ''}layers are {dtype} already"
        return with_entry(graph, Edit(text + more, promise="exact"))
    lines = [
        f"cast '{path}' ({layer.kind}) from {policy_of(layer).name} to {dtype}"
        for path, layer in planned.items()
    ]
    text = lines[0] if len(lines) == 1 else f"cast {counted(len(lines), 'layer')} to {dtype}"
    edit = dataclasses.replace(Edit.of_many(text + more, lines), promise="changed")
    remade = {layer.identity: Remade(changes_for(layer, dtype)) for layer in planned.values()}
    return with_entry(remake(graph, remade, edit), edit)
