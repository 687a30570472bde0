"""Layers that call a layer inside them."""

from ramet.profiling.registry import Called, counts_layers, outputs_inside
from ramet.profiling.tensors import Tensor


@counts_layers("Bidirectional")
def bidirectional(called: Called) -> int:
    """Count both directions."""
    sequence = called.inputs[0]
    parts = called.layer.forward_layer, called.layer.backward_layer
    return sum(called.inside(part, sequence) for part in parts)


@counts_layers("TimeDistributed")
def time_distributed(called: Called) -> int:
    """Count the layer inside for each time step."""
    batch, steps, *rest = called.inputs[0].shape
    step = Tensor((batch, *rest), called.inputs[0].dtype)
    return int(steps or 0) * called.inside(called.layer.layer, step)


@counts_layers("SpectralNormalization")
def spectral_normalization(called: Called) -> int:
    """Count the layer inside: weights are normalized in training only."""
    return called.inside(called.layer.layer, *called.args)


@counts_layers("Pipeline")
def pipeline(called: Called) -> int:
    """Count layers that are called one after the other."""
    tensor, total = called.inputs[0], 0
    for layer in called.layer.layers:
        total += called.inside(layer, tensor)
        tensor = outputs_inside(layer, (tensor,))[0]
    return total
