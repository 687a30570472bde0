"""What it changes to cast layers: bytes and outputs."""

from collections.abc import Mapping
from typing import Any

from ramet.adapt._looking import data_for, live_model, outputs_of, relative_difference
from ramet.adapt._sizes import bytes_of
from ramet.adapt.casting.policies import policy_of
from ramet.graph import Graph, Layer
from ramet.graph.paths import layer_paths
from ramet.results.casting import Casting, CastLayer
from ramet.tracing.trace import trace


def explained(
    graph: Graph,
    new: Graph,
    planned: Mapping[str, Layer],
    left: Mapping[str, tuple[Layer, str]],
    data: Any,
) -> Casting:
    """Return what changes when layers are cast; builds the new model and runs both.

    Args:
        graph: The graph before.
        new: The graph afterwards.
        planned: The layers that change, by path.
        left: Those that cannot change, with reasons.
        data: A batch to run the models on; `None` for generated inputs.
    """
    batch = data_for(graph, data)
    models = live_model(graph), live_model(new)
    before, after = (dict(layer_paths(trace(model))) for model in models)
    outputs = [outputs_of(model, batch) for model in models]
    rows = [_row(path, before[path], after[path]) for path in planned]
    stay = [
        CastLayer(path, layer.kind, policy_of(layer).name, policy_of(layer).name, size, size, why)
        for path, (layer, why) in left.items()
        for size in [bytes_of(layer.origin)]
    ]
    return Casting(graph.name, tuple(rows), tuple(stay), relative_difference(*outputs))


def _row(path: str, before: Layer, after: Layer) -> CastLayer:
    names = [str(policy_of(layer).name) for layer in (before, after)]
    sizes = [bytes_of(layer.origin) for layer in (before, after)]
    return CastLayer(path, before.kind, names[0], names[1], sizes[0], sizes[1])
