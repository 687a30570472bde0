"""How layers treat masks: which make, use, pass on or drop them.

No layer is called: what the class does not show is read from the graph.
"""

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.backends import is_of_keras
from ramet.graph import Call, Ref
from ramet.graph.tree import Tree
from ramet.tracing.mask_slots import call_arguments, holds_tensors, is_mask_argument

_MERGES = tuple(
    getattr(keras.layers, name)
    for name in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate")
)
_RECURRENT = (keras.layers.RNN, keras.layers.Bidirectional)
_ATTENTION = (keras.layers.Attention, keras.layers.AdditiveAttention)
_MAKERS = (keras.layers.Embedding, keras.layers.Masking)
_REVERSIBLE = getattr(keras.layers, "ReversibleEmbedding", ())  # since Keras 3.13
_ALONG_TIME = tuple(
    getattr(keras.layers, name)
    for name in (
        "Conv1D",
        "Conv1DTranspose",
        "DepthwiseConv1D",
        "SeparableConv1D",
        "AveragePooling1D",
        "MaxPooling1D",
        "Cropping1D",
        "UpSampling1D",
        "ZeroPadding1D",
    )
)


def arguments(layer: Any, call: Call) -> dict[str, Tree]:
    """Return the arguments of a call by name, the first one first."""
    if not isinstance(layer, keras.Layer):
        return {
            str(index): value for index, value in enumerate((*call.args, *call.kwargs.values()))
        }
    return call_arguments(layer, call.args, call.kwargs)


def data_arguments(layer: Any, call: Call) -> dict[str, Tree]:
    """Return the arguments of a call that hold tensors and are not masks."""
    named = arguments(layer, call)
    if not isinstance(layer, keras.Layer):
        return named
    return {
        name: value
        for name, value in named.items()
        if not is_mask_argument(name) and holds_tensors(value)
    }


def uses_mask(layer: Any, rank: int, mask_rank: int) -> bool:
    """Whether a layer that has a mask argument uses the mask.

    Args:
        layer: A layer that has a mask argument.
        rank: Number of dimensions of the tensor.
        mask_rank: Number of dimensions of its mask.
    """
    if isinstance(layer, keras.layers.TimeDistributed):
        return "mask" in inspect.signature(layer.layer.call).parameters
    if isinstance(layer, keras.layers.Lambda):
        return "mask" in inspect.signature(layer.function).parameters
    if isinstance(layer, keras.layers.Softmax):
        return rank == mask_rank
    if isinstance(layer, keras.layers.BatchNormalization):
        return rank == mask_rank + 1
    return True


def may_use_mask(layer: Any) -> bool:
    """Whether a user layer may use the mask of its input in the layers inside it."""
    if not isinstance(layer, keras.Layer) or is_of_keras(type(layer)):
        return False
    parts = internals.all_layers(layer)[1:]
    return any(is_mask_argument(n) for p in parts for n in inspect.signature(p.call).parameters)


def is_recurrent(layer: Any) -> bool:
    """Whether a layer steps through time."""
    return isinstance(layer, _RECURRENT)


def is_merge(layer: Any) -> bool:
    """Whether a layer merges several tensors, and their masks, into one."""
    return isinstance(layer, _MERGES)


def broadcasts_mask(layer: Any) -> bool:
    """Whether a layer broadcasts its mask over the last dimensions of its input."""
    return isinstance(layer, keras.layers.Softmax)


def changes_length(layer: Any) -> bool:
    """Whether a layer works along time and may return another number of steps."""
    return isinstance(layer, _ALONG_TIME)


def makes_mask(layer: Any) -> bool:
    """Whether a layer makes masks from values, whatever the mask of its input."""
    return isinstance(layer, _MAKERS)


def is_embedding(layer: Any) -> bool:
    """Whether a layer is an Embedding."""
    return isinstance(layer, keras.layers.Embedding)


def masks_when_run(layer: Any, call: Call) -> bool:
    """Whether a layer makes a mask only when it runs, so that none is recorded."""
    backwards = arguments(layer, call).get("reverse", False)
    return isinstance(layer, _REVERSIBLE) and bool(layer.mask_zero) and not backwards


def drops_mask(layer: Any) -> bool:
    """Whether a layer or operation loses masks because it does not support masking."""
    if not isinstance(layer, keras.Layer):
        return True
    if isinstance(layer, keras.layers.Lambda):
        return layer.mask is None
    return not layer.supports_masking


def computes_mask(layer: Any) -> bool:
    """Whether a layer may pass on another mask than that of its input."""
    own = type(layer).compute_mask is not keras.Layer.compute_mask
    return own and not isinstance(layer, (*_RECURRENT, *_ATTENTION))


def passed_on(layer: Any, masks: Sequence[Any], count: int) -> list[Sequence[Any]]:
    """List for each output the input masks that make up its mask.

    For a layer whose input masks differ from those recorded with the graph. One that
    overrides `compute_mask` is assumed to pass masks on.

    Args:
        layer: A layer that supports masking.
        masks: The masks of its first argument, `None` where there is none.
        count: Number of outputs.
    """
    known = [mask for mask in masks if mask is not None]
    nothing: list[Sequence[Any]] = [()] * count
    if not known or isinstance(layer, (keras.layers.GlobalAveragePooling1D, keras.layers.Dot)):
        return nothing
    if is_merge(layer):
        whole = isinstance(layer, keras.layers.Concatenate) or len(known) == len(masks)
        return [known if whole else (), *nothing[1:]]
    first = masks[:1] if masks[0] is not None else ()
    if is_recurrent(layer):
        both = isinstance(layer, keras.layers.Bidirectional) and not layer.merge_mode
        carrying = (1 + both) if layer.return_sequences else 0
        return [first] * carrying + nothing[carrying:]
    if isinstance(layer, _ATTENTION):
        return [first, *nothing[1:]]
    one_each = [(mask,) if mask is not None else () for mask in masks[:count]]
    return [*one_each, *nothing[len(one_each) :]]


def keeps_time(
    layer: Any, call: Call, ref: Ref, before: Sequence[Any], after: Sequence[Any]
) -> bool:
    """Whether axis 1 of an output is still axis 1 of an input, maybe of another length.

    Args:
        layer: The layer or operation.
        call: The call of it.
        ref: The input.
        before: Shape of the input.
        after: Shape of the output.
    """
    if len(before) < 2 or len(after) < 2:  # noqa: PLR2004 there is no axis 1
        return False
    same = before[1] == after[1]
    if not isinstance(layer, keras.Layer):
        return _operation_keeps_time(layer, call, ref, before, after)
    if isinstance(layer, _ALONG_TIME):
        return True
    if isinstance(layer, keras.layers.Permute):
        return layer.dims[0] == 1
    if isinstance(layer, keras.layers.Concatenate):
        return same or len(after) > 2  # noqa: PLR2004 joined along time
    mixes = isinstance(layer, (keras.layers.Dense, keras.layers.EinsumDense))
    return same and not (mixes and len(before) == 2)  # noqa: PLR2004 time is the last axis


def _operation_keeps_time(
    operation: Any, call: Call, ref: Ref, before: Sequence[Any], after: Sequence[Any]
) -> bool:
    class_name, options = type(operation).__name__, internals.operation_options(operation)
    same = before[1] == after[1]
    if class_name == "GetItem":
        return _slices_time(call.args[1], same=same)
    if class_name == "Transpose":
        axes = options.get("axes")
        return axes is not None and axes[1] == 1
    if class_name in {"Swapaxes", "Moveaxis"}:
        return False
    if class_name in {"Matmul", "Einsum", "Tensordot", "Dot"}:
        return same and call.refs[0] == ref
    if "keepdims" in options or len(after) < len(before):
        return same and 1 not in _reduced(options.get("axis", ()), len(before))
    resampled = len(before) == len(after) > 2 and before[2:] == after[2:]  # noqa: PLR2004 as above
    return same or resampled


def _slices_time(key: Any, *, same: bool) -> bool:
    steps = key if isinstance(key, (list, tuple)) else (key,)  # a list in a loaded model
    if any(step is None or step is Ellipsis for step in steps[:2]):
        return same
    return all(isinstance(step, slice) for step in steps[:2])


def _reduced(axis: Any, rank: int) -> Iterator[int]:
    axes = range(rank) if axis is None else (axis if isinstance(axis, (list, tuple)) else (axis,))
    return (item % rank for item in axes)
