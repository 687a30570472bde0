"""What the adapters of `ramet.adapt` add to the multiply-accumulates of a layer."""

from typing import Any

import keras

from ramet.layers import Adapted
from ramet.layers.adapters import is_quantized
from ramet.layers.entries import Target
from ramet.layers.kernels import kernel_at


def class_of(layer: Any) -> Any:
    """Return the class of a layer; of one with adapters, the one that it has without them."""
    return layer.base_class if isinstance(layer, Adapted) else type(layer)


def macs_of_updates(layer: Any, macs: int, outputs: int) -> int | None:
    """Return what the adapters of a layer take in one call.

    Every adapter multiplies its two factors, once for each call, whether it is in use or not; the
    product is added to the kernel, which counts as nothing. To a quantized kernel nothing can be
    added: the inputs are multiplied by the factors of all adapters, one after the other.

    Args:
        layer: The layer.
        macs: The multiply-accumulates of the layer without adapters.
        outputs: The number of its outputs.

    Returns:
        Their multiply-accumulates; `None` if they are not known, of quantized kernels inside of
        other layers.
    """
    if not isinstance(layer, Adapted):
        return 0
    total = 0
    for (held, name), adapters in layer.adapters.by_kernel().items():
        targets = [target for _, target, _ in adapters]
        known = kernel_at(layer, held, name)
        if known is None:
            continue
        if not is_quantized(known[1]):
            total += sum(_of_product(target, target.rank) for target in targets)
        elif held:
            return None
        else:
            is_lookup = isinstance(known[0], keras.layers.Embedding)
            rank = sum(target.rank for target in targets)
            total += outputs * rank if is_lookup else _of_quantized(targets[0], rank, macs)
    return total


def _of_product(target: Target, rank: int) -> int:
    """Return what the product of two factors takes."""
    inside, outside = target.sizes
    return inside * rank * outside


def _of_quantized(target: Target, rank: int, macs: int) -> int:
    """Return what the factors of adapters for one quantized kernel take, of all ranks together."""
    inside, outside = target.sizes
    calls = macs // max(inside * outside, 1)
    if target.outs == (len(target.shape) - 1,):
        return calls * rank * (inside + outside)
    # Keras has two factors for the last axis only: the update, and a matrix that changes nothing.
    return _of_product(target, rank) + calls * outside * (inside + target.shape[-1])
