"""The layer copier: a structural copy that knows the seams of Keras.

Objects are copied attribute by attribute, each once, so that whatever was
shared is shared again. Layers, operations and models are made as empty shells
first and filled when their turn comes: a shell can be called in a graph, and
no chain of layers is too long for Python's stack.
"""

import functools
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import keras

from ramet.bridge import internals
from ramet.bridge.core import Handler, set_attribute
from ramet.bridge.plain import Uncopyable
from ramet.bridge.remake import remake
from ramet.bridge.state import StateCopier
from ramet.errors import CopyError

_LOCKS = (type(threading.Lock()), type(threading.RLock()))
"""What a layer made from its config can lend to the copy of another."""

_LOCK_HINT = ", or write a get_config() from which the layer can be made with one of its own"


def _tracks(name: str, value: Any) -> bool:
    """Tells whether an attribute leads to the layers that a model tracks."""
    return name in internals.TRACKING_FIELDS or isinstance(value, internals.TRACKED_COLLECTIONS)


@functools.cache
def _is_simple(kind: type) -> bool:
    """Tells whether all that the operations of a class are is in their `__dict__`, to be copied."""
    return not (issubclass(kind, (keras.Function, internals.Trainer)) or internals.slots_of(kind))


def _authored(name: str, attributes: dict[str, Any]) -> str:
    """Returns the author's name for what cannot be copied in TensorFlow's record of attributes."""
    if internals.is_record(name):
        for authored, value in attributes.items():
            if not internals.is_record(authored) and not isinstance(value, _LOCKS):
                try:
                    Copier(share=True).copy(value)
                except Uncopyable:
                    return authored
    return name


class Copier(StateCopier):
    """Copies Keras objects and what they hold, each object once."""

    def __init__(self, *, share: bool = False, renew: bool = False) -> None:
        """Starts with nothing copied.

        Args:
            share: Whether the variables of layers are kept instead of copied.
            renew: Whether initializers without a seed draw a new one.
        """
        super().__init__(share=share, renew=renew)
        self.on_function: Callable[[Any, Any], bool] | None = None
        """Gives the shell of a `keras.Function` another graph than a copy of the source's,
        and tells whether it did so."""
        self._root: Any = None
        self._inside: set[int] | None = None
        self._skipped: dict[int, frozenset[str]] = {}
        self._dropped: dict[int, list[Any]] = {}
        self._functions: deque[Any] = deque()
        self._given: set[int] = set()
        self._unfilled: deque[Any] = deque()
        self._late: deque[Any] = deque()
        self._mapped: list[Any] = []
        self._donors: dict[int, Any] = {}

    def begin(self, source: Any) -> None:
        """Tells what is copied, so that weak references to anything outside of it are kept."""
        self._root = source

    def _is_ours(self, value: Any) -> bool:
        if self._root is None or not isinstance(value, keras.Layer):
            return super()._is_ours(value)
        if self._inside is None:
            self._inside = {id(layer) for layer in internals.all_layers(self._root)}
        return id(value) in self._inside or id(value) in self.memo

    def skip(self, source: Any, names: frozenset[str]) -> None:
        """Leaves attributes of an object out of its copy."""
        self._skipped[id(source)] = names

    def drop(self, source: Any, layers: list[Any]) -> None:
        """Lets the copy of a model track none of some layers that the source tracks."""
        self._dropped[id(source)] = layers

    def finish(self) -> None:
        """Fills all shells, orders calls, and finds the slots of optimizers again."""
        self.drain()
        self.settle_calls()
        for function in self._mapped:
            internals.key_nodes(function)
        self.settle_optimizers()

    def drain(self) -> None:
        """Fills all shells made so far and makes the copies of values that were put off."""
        while True:
            if self._functions:
                self._copy_graph(self._functions.popleft())
            elif self.waiting_nodes:
                self.fill_node(self.waiting_nodes.popleft())
            elif self._unfilled:
                self.fill(self._unfilled.popleft())
            elif self._late:
                source = self._late.popleft()
                for tensor in internals.starts_inside(source):
                    if id(tensor) not in self.memo:
                        self.bare_tensor(tensor)
                self._unfilled.append(source)
            else:
                break
        self.values.finish()

    def _copy_graph(self, source: Any) -> None:
        """Lets the shell of a `keras.Function` be filled, when its graph can be.

        One that starts in the middle of another graph comes last: the tensors that it
        starts from may be copied with that graph.
        """
        made = self.memo[id(source)]
        if self.on_function is not None and self.on_function(source, made):
            self._given.add(id(source))
            self._unfilled.append(source)
        else:
            self._mapped.append(made)
            late = internals.starts_inside(source)
            (self._late if late else self._unfilled).append(source)

    @classmethod
    def exact_handlers(cls) -> dict[type, Handler]:
        """Returns the ways to copy the instances of some classes, but not of their subclasses."""
        return super().exact_handlers() | {keras.dtype_policies.DTypePolicy: cls._same}

    @classmethod
    def _bases(cls) -> tuple[tuple[Any, Handler], ...]:
        return (
            (keras.KerasTensor, cls._tensor),
            (internals.Node, cls._node),
            (internals.KerasHistory, cls._history),
            (keras.Function, cls._keras_function),
            (keras.Operation, cls._shell),
            *super()._bases(),
        )

    def _shell(self, value: Any) -> Any:
        made = self._empty_operation(value)
        self._unfilled.append(value)
        return made

    def _keras_function(self, value: Any) -> Any:
        made = self._empty_operation(value)
        self._functions.append(value)
        return made

    def _empty_operation(self, value: Any) -> Any:
        made = self.make_empty(value)
        fields, held = made.__dict__, value.__dict__
        fields["name"] = value.name
        for name in internals.NODE_LISTS:
            nodes = held[name]
            fields[name] = self.memo[id(nodes)] = internals.empty_like(nodes)
        self.operations.append((value, made))
        return made

    def fill(self, source: Any) -> None:
        """Gives the shell of a layer, operation or model its attributes."""
        made = self.memo[id(source)]
        held = source.__dict__
        if _is_simple(type(source)) and not self._skipped and not self._dropped:
            self._set_attributes(source, made, held)
        else:
            self._set_chosen_attributes(source, made)
        fields = made.__dict__
        for name in internals.NODE_LISTS:
            nodes = held[name]
            if type(nodes) is internals.TRACKED_LIST:
                fields[name].tracker = self.copy(nodes.tracker)
        internals.settle_losses(fields)

    def _set_chosen_attributes(self, source: Any, made: Any) -> None:
        """Gives an operation the attributes of its source that it is to have."""
        attributes = self._attributes(source)
        dropped = self._dropped.get(id(source))
        if dropped is None:
            self._set_attributes(source, made, attributes)
        else:
            self._set_most_attributes(source, made, attributes, dropped)
        fields = made.__dict__
        for slot in internals.slots_of(type(source)):
            if slot in fields:
                set_attribute(made, slot, fields.pop(slot))

    def _attributes(self, source: Any) -> dict[str, Any]:
        """Returns the attributes of an operation that are copied, by name."""
        attributes = source.__dict__
        if internals.slots_of(type(source)):
            attributes = internals.live_attributes(source)
        skipped = self._skipped.get(id(source), frozenset())
        if isinstance(source, keras.Function):
            given = id(source) in self._given
            skipped |= internals.GRAPH_FIELDS if given else {internals.NODE_KEYS}
        if skipped:
            attributes = {n: value for n, value in attributes.items() if n not in skipped}
        if isinstance(source, internals.Trainer):
            attributes = attributes | dict.fromkeys(internals.COMPILED_FIELDS & attributes.keys())
        return attributes

    def _set_attributes(self, source: Any, made: Any, attributes: dict[str, Any]) -> None:
        """Gives an operation copies of attributes, or what is made anew for a lock."""
        fields, done = attributes.copy(), ()
        while True:
            try:
                self.copy_fields(fields, *done)
                break
            except Uncopyable as problem:
                done = (self.failed,)
                authored = _authored(self.failed, attributes)
                fields[self.failed] = self._remade_attribute(source, authored, problem)
            except Exception as error:
                error.add_note(f"while copying attribute '{self.failed}' of '{made.name}'")
                raise
        # Not before: code of the author's that runs meanwhile would change the source's.
        if not made.__dict__.keys() <= fields.keys():
            fields |= {n: value for n, value in made.__dict__.items() if n not in fields}
        set_attribute(made, "__dict__", fields)

    def _set_most_attributes(
        self, source: Any, made: Any, attributes: dict[str, Any], dropped: list[Any]
    ) -> None:
        """Gives a model its attributes, and lets it track none of some layers.

        What no attribute reaches is not copied just to be forgotten.
        """
        rest = {name: value for name, value in attributes.items() if _tracks(name, value)}
        own = {name: value for name, value in attributes.items() if name not in rest}
        self._set_attributes(source, made, own)
        for name, value in rest.items():
            if name not in internals.TRACKING_FIELDS:
                self._copy_items(value)
        absent = {id(layer): object() for layer in dropped if id(layer) not in self.memo}
        for key, stand_in in absent.items():
            self.memo[key] = stand_in
        self._set_attributes(source, made, rest)
        internals.untrack(made, [*absent.values()])
        for key in absent:
            self.forget(key)

    def _copy_items(self, value: Any) -> None:
        """Copies what a tracked collection holds, but not the tracker that it reports to."""
        if isinstance(value, internals.TRACKED_COLLECTIONS):
            for item in value.values() if isinstance(value, dict) else value:
                self._copy_items(item)
        else:
            self.copy(value)

    def _remade_attribute(self, source: Any, name: str, problem: Uncopyable) -> Any:
        """Takes a lock from the layer made anew; nothing else has no state to lose."""
        value = internals.live_attributes(source)[name]
        if isinstance(value, _LOCKS) and isinstance(source, keras.Layer):
            if id(source) not in self._donors:
                # From a side stream: a copy does not change what is drawn next.
                with internals.untouched_randomness():
                    self._donors[id(source)] = remake(source)
            donor = self._donors[id(source)]
            found = internals.live_attributes(donor).get(name) if donor else None
            if type(found) is type(value):
                return found
        noun = "model" if isinstance(source, keras.Model) else "layer"
        message = (
            f"{noun} '{source.name}' ({type(source).__name__}) cannot be copied: its "
            f"attribute '{name}' holds a {problem.kind}, which cannot be had twice; "
            "delete the attribute while cloning and make it again on both"
            f"{_LOCK_HINT if isinstance(value, _LOCKS) else ''}"
        )
        raise CopyError(message) from problem
