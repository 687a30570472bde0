"""Which arguments of a call Keras filled in and the author did not write.

Keras writes the mask attached to a tensor into the arguments of the call that
reads it, as if the author had. An argument that *is* the attached mask was
derived. In a model that Keras loaded or cloned, it no longer is: the recorded
argument comes from an operation of the file, while the layer that makes the
mask has attached a new one. There the two are the same computation, and the
attached one leads to no output.

An argument that Keras hands on from outer calls, such as `training`, is recorded
too. One that has its default value says nothing, whoever wrote it.
"""

from collections.abc import Callable, Iterator
from typing import Any

import keras

from ramet.bridge import internals


def derived_arguments(node: Any, is_needed: Callable[[Any], bool]) -> Iterator[str]:
    """Yields the keyword arguments of a call that are derived.

    Args:
        node: The call.
        is_needed: Tells whether an output of the model depends on a tensor.
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

    fillable = internals.fillable_masks(node)
    for name, value in node.arguments.kwargs.items():
        if name in fillable:
            masks = [leaf for leaf in keras.tree.flatten(value) if leaf is not None]
            if all(is_derived(mask) for mask in masks):
                yield name
        elif internals.is_context_default(node.operation, name, value):
            yield name


def same_computation(first: Any, second: Any) -> bool:
    """Tells whether two symbolic tensors are computed alike by plain operations.

    A layer may have state, so two calls of layers are never the same. Costs
    O(operations) above the tensors.
    """
    if first is second:
        return True
    if not (isinstance(first, keras.KerasTensor) and isinstance(second, keras.KerasTensor)):
        return internals.equal_constants(first, second)
    made, remade = internals.producer(first), internals.producer(second)
    if made is None or remade is None:
        return False
    (old, index), (new, other_index) = made, remade
    if index != other_index or not _same_operation(old.operation, new.operation):
        return False
    arguments = [(node.arguments.args, node.arguments.kwargs) for node in (old, new)]
    flat = [keras.tree.flatten(tree) for tree in arguments]
    return len(flat[0]) == len(flat[1]) and all(map(same_computation, *flat))


def _same_operation(old: Any, new: Any) -> bool:
    if isinstance(old, keras.Layer) or type(old) is not type(new):
        return False
    facts = [internals.operation_options(operation) for operation in (old, new)]
    return facts[0].keys() == facts[1].keys() and all(
        internals.equal_constants(facts[0][name], facts[1][name]) for name in facts[0]
    )
