"""What became of every variable, told by building a graph."""

from ramet.bridge import internals
from ramet.bridge.build import build_edited
from ramet.bridge.live import is_edited, live_of
from ramet.bridge.settle import NOT_COMPILED
from ramet.graph import Graph
from ramet.graph.stale import ready_to_build
from ramet.graph.transfer import Transfer, TransferReport


def transfer_report(graph: Graph, weights: str = "copy") -> TransferReport:
    """Builds a graph and tells what became of every variable."""
    if not is_edited(graph):
        return _unedited_report(graph, weights)
    made, builder = build_edited(ready_to_build(graph), weights, None, graph.name)
    transfers = tuple(builder.inheritance.transfers(made))
    return TransferReport(graph.name, transfers, builder.optimizer)


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
    how = "starts anew" if weights == "fresh" else "kept as it is"
    told = f"{type(optimizer).__name__.lower()}: {how}" if optimizer is not None else NOT_COMPILED
    return TransferReport(graph.name, transfers, told)
