"""Derived arguments of a call: those that Keras filled in, not the author.

Keras adds the mask attached to a tensor to the arguments of the call that reads
it, as if the author had. An argument that *is* the attached mask was derived.
In a model that Keras loaded or cloned, they are two tensors: the argument comes
from an operation in the file, while the layer that computes the mask has
attached a new one. Then both are the same computation, and no output depends on
the attached one.

Arguments that Keras passes on from outer calls, such as `training`, are recorded
too. One that has its default value counts as derived, whoever wrote it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.tracing.mask_slots import is_mask_argument, mask_slots


def derived_arguments(node: Any, is_needed: Callable[[Any], bool]) -> Iterator[str]:
    """Yield the keyword arguments of a call that are derived.

    Args:
        node: The call.
        is_needed: Returns whether an output of the model depends on a tensor.
    """
    attached = [
        mask
        for tensor in node.input_tensors
        if (mask := internals.get_keras_mask(tensor)) is not None
    ]

    def is_derived(mask: Any) -> bool:
        return any(
            mask is other or (not is_needed(other) and same_computation(mask, other))
            for other in attached
        )

    kwargs = node.arguments.kwargs
    yield from _filled_masks(node, {n for n, v in kwargs.items() if _is_all(is_derived, n, v)})
    for name, value in kwargs.items():
        if internals.is_context_default(node.operation, name, value):
            yield name


def _is_all(is_derived: Callable[[Any], bool], name: str, value: Any) -> bool:
    """Whether a mask argument holds only masks that may be derived, or nothing."""
    masks = [leaf for leaf in keras.tree.flatten(value) if leaf is not None]
    return is_mask_argument(name) and all(map(is_derived, masks))


def _filled_masks(node: Any, candidates: set[str]) -> set[str]:
    """Return those of some mask arguments that Keras fills in, given all others.

    An argument that Keras would not fill in was written by the author, which may change what
    Keras fills in: hence the loop.
    """
    arguments = node.arguments
    while candidates:
        written = {n: v for n, v in arguments.kwargs.items() if n not in candidates}
        slots = mask_slots(node.operation, arguments.args, written)
        filled = {slot.name for slot in slots if slot.filled} & candidates
        if filled == candidates:
            return filled
        candidates = filled
    return candidates


def same_computation(first: Any, second: Any) -> bool:
    """Whether two symbolic tensors are computed by the same operations on the same inputs.

    A layer may have state, so two calls of layers are never the same. Costs O(operations)
    before the tensors.
    """
    if first is second:
        return True
    if not (isinstance(first, keras.KerasTensor) and isinstance(second, keras.KerasTensor)):
        return internals.equal_constants(first, second)
    producers = internals.producer(first), internals.producer(second)
    if producers[0] is None or producers[1] is None:
        return False
    (node, index), (other, other_index) = producers[0], producers[1]
    if index != other_index or not _same_operation(node.operation, other.operation):
        return False
    arguments = [(each.arguments.args, each.arguments.kwargs) for each in (node, other)]
    flat = [keras.tree.flatten(tree) for tree in arguments]
    return len(flat[0]) == len(flat[1]) and all(map(same_computation, *flat))


def _same_operation(first: Any, second: Any) -> bool:
    if isinstance(first, keras.Layer) or type(first) is not type(second):
        return False
    options, others = internals.operation_options(first), internals.operation_options(second)
    return options.keys() == others.keys() and all(
        internals.equal_constants(options[name], others[name]) for name in options
    )
