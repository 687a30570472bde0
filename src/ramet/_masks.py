"""`masks`: where masks come from, who uses them, and where they are lost."""

from collections.abc import Iterator
from typing import Any

from ramet import keras_internals as internals
from ramet.graph import Graph
from ramet.graph.tree import leaves
from ramet.masking.flow import Flow
from ramet.masking.lint import findings
from ramet.masking.losses import unmasked_outputs
from ramet.masking.numbering import Place
from ramet.results.masks import MaskFlow, TensorMask
from ramet.tracing.origin import live_of
from ramet.tracing.settled import settled


def masks(model: Any) -> MaskFlow:
    """Follow the masks through a model, and find where they go wrong.

    For a compiled model, also find where losses and metrics see outputs without their masks.
    The model is neither called nor changed. Takes O(calls), where the calls of a nested model
    count once per use. An edited Graph is built first, on the weights of its model, because
    its masks are not known before.

    Args:
        model: A model that can be traced, or a Graph.

    Returns:
        The flow, a list of findings: `flow.ok`, `flow.findings`, `flow.tensors`, `print(flow)`.

    Raises:
        ModelError: If the argument is not a model, or has no graph.

    Examples:
        >>> tokens = keras.Input((None,), dtype="int32", name="tokens")
        >>> words = layers.Embedding(100, 8, mask_zero=True, name="words")(tokens)
        >>> tagger = keras.Model(tokens, layers.LSTM(4, name="lstm")(words), name="tagger")
        >>> ramet.masks(tagger).ok
        True
    """
    graph = settled(model)
    flow = Flow()
    with internals.room_for(graph):
        flow.follow(graph)
        unmasked = unmasked_outputs(flow, graph, live_of(graph).model)
    return MaskFlow(graph.name, tuple(_tensors(flow, graph)), tuple(findings(flow, unmasked)))


def _tensors(flow: Flow, graph: Graph) -> Iterator[TensorMask]:
    outputs: set[Place] = {("", ref) for ref in leaves(graph.outputs)}
    for place, spec in flow.specs.items():
        prefix, ref = place
        mask = flow.carries[place].mask
        yield TensorMask(
            path=f"{prefix}{ref.call}",
            index=ref.index,
            spec=spec,
            sources=() if mask is None else mask.sources,
            users=tuple(flow.users.get(place, ())),
            dropped_at=tuple(flow.droppers.get(place, ())),
            passed_to=tuple(flow.passed_to.get(place, ())),
            is_output=place in outputs,
        )
