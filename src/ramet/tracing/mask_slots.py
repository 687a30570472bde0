"""Mask arguments of a call: what they mask, and which of them Keras fills in."""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.graph import Ref
from ramet.graph.tree import Tree, leaves


@dataclass(frozen=True, slots=True)
class Slot:
    """A mask argument of a call."""

    name: str
    """Its name: `mask`, or `query_mask` for the mask of `query`."""
    data: Tree
    """The argument whose mask it is."""
    given: Tree
    """The mask that was passed explicitly; `None` if there is none."""
    filled: bool
    """Whether Keras fills it in if no mask is passed."""

    def pairs(self) -> list[tuple[Any, Any]]:
        """Pair each tensor with the mask that was passed for it, or `None`."""
        data, masks = list(leaves(self.data)), list(leaves(self.given))
        masks += [None] * (len(data) - len(masks))
        return list(zip(data, masks, strict=False))


def is_mask_argument(name: str) -> bool:
    """Whether Keras treats an argument of `call` as a mask, by its name."""
    return name == "mask" or name.endswith("_mask")


def call_arguments(layer: Any, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of a layer by name, in the order of the signature.

    Arguments that the layer's `call` does not accept, such as `training`, are left out. If the
    others do not match the signature either, positional ones are numbered.
    """
    signature = internals.call_signature(layer)
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    known = kwargs
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        known = {name: value for name, value in kwargs.items() if name in signature.parameters}
    try:
        return dict(signature.bind(*args, **known).arguments)
    except TypeError:
        return {**{str(place): value for place, value in enumerate(args)}, **kwargs}


def mask_slots(layer: Any, args: Any, kwargs: Mapping[str, Any]) -> list[Slot]:
    """List the mask arguments of a call, by Keras's rules.

    Keras fills in `mask` if one argument has tensors, and `x_mask` for each argument `x` if
    several have. A mask that is passed counts among them.

    Args:
        layer: The layer. An operation of `keras.ops` has no such arguments.
        args: Positional arguments: tensors may be symbolic, arrays, or `Ref`s.
        kwargs: Keyword arguments, without those that Keras filled in.
    """
    if not isinstance(layer, keras.Layer):
        return []
    names = internals.call_signature(layer).parameters
    arguments = call_arguments(layer, args, kwargs)
    tensors = [name for name, value in arguments.items() if holds_tensors(value)]
    data = {name: arguments[name] for name in tensors if not is_mask_argument(name)}
    slots: list[Slot] = []
    if data and "mask" in names:
        first = next(iter(data.values()))
        slots.append(Slot("mask", first, arguments.get("mask"), filled=len(tensors) == 1))
    if len(tensors) > 1:
        slots += [
            Slot(f"{name}_mask", value, arguments.get(f"{name}_mask"), filled=True)
            for name, value in data.items()
            if f"{name}_mask" in names
        ]
    return slots


def holds_tensors(value: Tree) -> bool:
    """Whether Keras counts an argument among the tensors of a call."""
    flat = [*leaves(value)]
    return any(map(_is_tensor, flat)) and all(leaf is None or _is_tensor(leaf) for leaf in flat)


def _is_tensor(leaf: Any) -> bool:
    # Keras converts whatever is like an array before it counts tensors.
    return isinstance(leaf, (Ref, keras.KerasTensor)) or hasattr(leaf, "__array__")


def implied_masks(layer: Any, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the mask arguments that Keras would fill in for a call.

    Keras records some of them in the graph. For a layer with several tensor arguments, it
    reads them from the tensors when the graph runs.
    """
    implied: dict[str, Any] = {}
    for slot in mask_slots(layer, args, kwargs):
        masks = keras.tree.map_structure(internals.get_keras_mask, slot.data)
        masked = any(mask is not None for mask in keras.tree.flatten(masks))
        if slot.filled and slot.given is None and masked:
            implied[slot.name] = masks
    if isinstance(layer, keras.layers.MultiHeadAttention) and "query_mask" in implied:
        # Keras reads that one from the tensor only, whatever is passed.
        rows = keras.ops.expand_dims(implied["query_mask"], -1)
        passed = call_arguments(layer, args, kwargs).get("attention_mask")
        implied["attention_mask"] = rows if passed is None else keras.ops.logical_and(rows, passed)
    return implied


def masked_arguments(
    layer: Any, args: Any, kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of each mask argument of a call, the tensor it masks, and the mask.

    The mask is the one that is passed or, if none is, the one that Keras will fill in.
    """
    for slot in mask_slots(layer, args, kwargs):
        masks = slot.given
        if masks is None and slot.filled:
            masks = keras.tree.map_structure(internals.get_keras_mask, slot.data)
        pairs = [keras.tree.flatten(tree) for tree in (slot.data, masks)]
        if len(pairs[0]) == len(pairs[1]):
            yield from ((slot.name, tensor, mask) for tensor, mask in zip(*pairs, strict=True))
