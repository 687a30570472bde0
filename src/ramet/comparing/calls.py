"""What calls that belong together are called on, in terms of the first graph."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import keras

from ramet import keras_internals as internals
from ramet.backends.values import is_tensor
from ramet.comparing.alignment.align import Alignment
from ramet.comparing.alignment.facts import constant
from ramet.comparing.alignment.nodes import Node
from ramet.comparing.objects.texts import ABSENT
from ramet.comparing.objects.values import is_value
from ramet.graph import Ref
from ramet.graph.tree import leaves, map_tree


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in terms of the first graph."""

    name: str
    """The call that makes it, and which of its outputs it is."""
    is_past: bool
    """Whether it is read by way of a layer that only one of the graphs has."""


class Tensors:
    """The tensors of two graphs, in terms of the first."""

    def __init__(self, level: Alignment) -> None:
        """Read which calls belong together."""
        self._level = level
        pairs = level.pairing
        self._partners = {id(a): b for a, b in pairs}, {id(b): a for a, b in pairs}

    def has_partner(self, node: Node, side: int) -> bool:
        """Whether both graphs have a call."""
        return id(node) in self._partners[side]

    def of(self, node: Node, index: int, side: int) -> Any:
        """Return a tensor, past layers that only one graph has; `ABSENT` if several lead there."""
        is_past = not self.has_partner(node, side)
        while not self.has_partner(node, side):
            if len(node.inputs) != 1:
                return ABSENT  # What makes it is listed as added or removed.
            ((node, index),) = node.inputs
        path = self._partners[1][id(node)].path if side else node.path
        return Tensor(f"{path}.{index}", is_past)

    def reads(self, node: Node, side: int) -> list[Any]:
        """Return the tensors that a call reads, in order."""
        return [self.of(*tensor, side) for tensor in node.inputs]

    def arguments(self, node: Node, side: int) -> tuple[Any, Any]:
        """Return the arguments of a call, as its author wrote them."""
        tensors = iter(node.inputs)

        def shown(leaf: Any) -> Any:
            return self.of(*next(tensors), side) if isinstance(leaf, Ref) else leaf

        return map_tree(shown, (node.call.args, node.kwargs))

    def ends(self, tree: Any, side: int) -> Any:
        """Return inputs or outputs of a graph."""
        tensors = self._level.nodes[side].tensors
        return map_tree(lambda ref: self.of(*tensors[ref], side), tree)


def agree(old: Any, new: Any) -> bool:
    """Whether trees are the same, but for tensors whose makers only one of the models has."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(agree(old[key], new[key]) for key in old)
    if isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)):
        same = isinstance(old, list) == isinstance(new, list) and len(old) == len(new)
        return same and all(map(agree, old, new))
    if old is ABSENT or new is ABSENT:
        return True
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        # Who read a layer that was removed, and reads one that was added, follows them.
        return old.name == new.name or (old.is_past and new.is_past)
    if isinstance(old, Tensor) or isinstance(new, Tensor):
        return False
    return constant(old) == constant(new)


def named(node: Node, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return arguments of a call by name."""
    if node.layer is None or not (args or kwargs):
        return {}
    return internals.named_arguments(node.layer.origin, args, kwargs)


def written(node: Node) -> dict[str, Any]:
    """Return the arguments of a call by name, as its author wrote them."""
    return named(node, node.call.args, dict(node.kwargs))


def are_called_alike(old: Node, new: Node) -> bool:
    """Whether two calls are of layers of one class, which have the same arguments."""
    kinds = [None if node.layer is None else type(node.layer.origin) for node in (old, new)]
    return kinds[0] is kinds[1]


def objects(old: Node, new: Node) -> Iterator[tuple[str, Any, Any]]:
    """Yield objects and variables that two calls are called on, by the names of arguments."""
    if not are_called_alike(old, new):
        return
    first, second = written(old), written(new)
    for name in first.keys() & second.keys():
        pairs = [*zip(leaves(first[name]), leaves(second[name]), strict=False)]
        for number, both in enumerate(pairs):
            if all(map(_is_object, both)):
                yield (f"{name}.{number}" if len(pairs) > 1 else name), *both


def _is_object(leaf: Any) -> bool:
    if isinstance(leaf, (Ref, slice)) or is_value(leaf):
        return False
    return isinstance(leaf, keras.Variable) or not is_tensor(leaf)
