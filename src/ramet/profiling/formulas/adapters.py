"""Low-rank adapters (LoRA) inside of Keras's own layers."""

from typing import Any


def of_adapter(layer: Any, macs: int, kernel_size: int) -> int:
    """Return what a low-rank adapter adds to a layer.

    Keras multiplies both factors into one kernel; of a quantized layer, it multiplies the inputs
    by one factor and then by the other.

    Args:
        layer: The layer.
        macs: The multiply-accumulates of the layer without the adapter.
        kernel_size: The number of weights of its kernel.
    """
    if not getattr(layer, "lora_enabled", False):
        return 0
    first, second = (tuple(getattr(layer, f"lora_kernel_{side}").shape) for side in "ab")
    sizes = [_product(first), _product(second)]
    if getattr(layer, "quantization_mode", None) is None:
        return sizes[0] * second[-1]
    return macs // max(kernel_size, 1) * sum(sizes)


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
