"""What becomes of every variable when a graph is built."""

from ramet import keras_internals as internals
from ramet.building.build import build_edited
from ramet.building.finish import NOT_COMPILED
from ramet.graph import Graph
from ramet.graph.edits.stale import ready_to_build
from ramet.results.transfer import Transfer, TransferReport
from ramet.tracing.origin import is_edited, live_of


def transfer_report(graph: Graph, weights: str = "copy") -> TransferReport:
    """Build a graph and report what became of every variable."""
    if not is_edited(graph):
        return _unedited_report(graph, weights)
    built = build_edited(ready_to_build(graph), weights, None, graph.name)
    transfers = tuple(built.inheritance.transfers(built.model))
    return TransferReport(graph.name, transfers, built.optimizer)


def _unedited_report(graph: Graph, weights: str) -> TransferReport:
    model = live_of(graph).model
    layers = internals.all_layers(model)
    adapted = {id(v) for layer in layers if internals.is_adapted(layer) for v in layer.variables}
    transfers = tuple(
        Transfer(
            v.path,
            tuple(v.shape),
            "fresh" if weights == "fresh" and id(v) not in adapted else "kept",
        )
        for v in model.variables
    )
    optimizer = getattr(model, "optimizer", None)
    how = "starts over" if weights == "fresh" else "kept as it is"
    words = NOT_COMPILED if optimizer is None else f"{type(optimizer).__name__.lower()}: {how}"
    return TransferReport(graph.name, transfers, words)
