"""The sizes of tensors that a graph leaves open, for one batch size and size of the inputs."""

from collections.abc import Sequence
from typing import Any

import keras

from ramet.copying.deep_copy import Copier
from ramet.graph import Call, Layer, Spec
from ramet.graph.tree import Tree, leaves, map_tree
from ramet.profiling.tensors import Tensor, tensor_of


def output_tensors(
    layer: Layer, call: Call, specs: Sequence[Spec], args: Tree, kwargs: Tree
) -> tuple[Tensor, ...]:
    """Return the outputs of a call on tensors of known sizes.

    A layer keeps the batch axis, so the batch size is filled in. Of other open sizes, and of
    operations, the outputs are inferred as Keras does.

    Args:
        layer: The layer.
        call: The call.
        specs: What was recorded of the tensors among the arguments that the author wrote.
        args: The positional arguments, with a `Tensor` for each tensor.
        kwargs: The keyword arguments that the author wrote, in the same way.
    """
    recorded = tuple(
        Tensor(spec.shape, spec.dtype) if spec.known else Tensor((None, None), "float32")
        for spec in call.outputs
    )
    if all(tensor.is_known for tensor in recorded):
        return recorded
    if not layer.is_operation and not any(None in tensor.shape[1:] for tensor in recorded):
        tensors = [leaf for leaf in leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        batches = [
            tensor.shape[0]
            for tensor, spec in zip(tensors, specs, strict=True)
            if tensor.shape and spec.shape[0] is None
        ]
        if batches:
            return tuple(_with_batch(tensor, batches[0]) for tensor in recorded)
    return _inferred(layer, args, kwargs, recorded)


def _with_batch(tensor: Tensor, batch: int | None) -> Tensor:
    if tensor.is_known:
        return tensor
    return Tensor((batch, *tensor.shape[1:]), tensor.dtype)


def _inferred(
    layer: Layer, args: Tree, kwargs: Tree, recorded: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Return the outputs that Keras infers; the recorded ones if it cannot.

    A layer that does not say what its outputs are is copied, and the copy is called on symbols.
    """
    live = layer.origin
    symbols = map_tree(_symbol, (args, kwargs))
    try:
        if isinstance(live, keras.Layer) and not _says_shapes(live):
            live = Copier("share").copy_whole(live)
        outputs = live.compute_output_spec(*symbols[0], **symbols[1])
    except Exception:  # noqa: BLE001 user code raises anything, and the sizes stay unknown
        return recorded
    inferred = [tensor_of(leaf) for leaf in keras.tree.flatten(outputs) if leaf is not None]
    return tuple(inferred) if len(inferred) == len(recorded) else recorded


def _says_shapes(live: Any) -> bool:
    """Whether a layer infers the shapes of its outputs without being called."""
    cls: Any = type(live)
    return (
        cls.compute_output_shape is not keras.Layer.compute_output_shape
        or cls.compute_output_spec is not keras.Layer.compute_output_spec
    )


def _symbol(leaf: Any) -> Any:
    return keras.KerasTensor(leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else leaf
