"""Copies of layers, operations and models: empty shells first, which are filled from a queue.

A shell can take part in calls already, and no chain of layers is too long for Python's stack.
"""

import functools
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import keras

from ramet import keras_internals as internals
from ramet.backends.tensorflow import is_record, records_without
from ramet.copying.core import set_attribute
from ramet.copying.from_config import remake
from ramet.copying.handlers import Registry, Uncopyable
from ramet.errors import CopyError

if TYPE_CHECKING:
    from ramet.copying.deep_copy import Copier

copies = Registry()

LOCKS = (type(threading.Lock()), type(threading.RLock()))
"""Locks cannot be copied. A copy gets the one of a layer re-created from its config."""

_LOCK_HINT = ", or write a get_config() from which the layer can be re-created with its own lock"


class Shells:
    """The layers, operations and models that a copier has met."""

    def __init__(self) -> None:
        """Start without any."""
        self.pairs: list[tuple[Any, Any]] = []
        """All of them, with their copies."""
        self.waiting: deque[Any] = deque()
        """Those whose copies are ready to be filled."""
        self.skipped: dict[int, frozenset[str]] = {}
        """Attributes to omit from a copy, by the id of its source."""
        self.dropped: dict[int, list[Any]] = {}
        """Layers that a copy must not track, by the id of its source."""
        self.donors: dict[int, Any] = {}
        """Layers re-created from their configs, for their locks, by the ids of the sources."""


@copies(keras.Operation)
def copy_operation(copier: "Copier", operation: Any) -> Any:
    """Create the shell of a layer or operation, to be filled later."""
    shell = make_shell(copier, operation)
    copier.shells.waiting.append(operation)
    return shell


def make_shell(copier: "Copier", operation: Any) -> Any:
    """Create an empty object of the same class, with a name and without calls."""
    shell = copier.make_empty(operation)
    fields, held = shell.__dict__, operation.__dict__
    fields["name"] = operation.name
    for name in internals.NODE_LISTS:
        nodes = held[name]
        fields[name] = copier.memo[id(nodes)] = internals.empty_like(nodes)
    copier.shells.pairs.append((operation, shell))
    return shell


def fill_shell(copier: "Copier", source: Any) -> None:
    """Fill the shell of a layer, operation or model with attributes."""
    twin = copier.memo[id(source)]
    held = source.__dict__
    shells = copier.shells
    if _is_simple(type(source)) and not shells.skipped and not shells.dropped:
        _set_attributes(copier, source, twin, held)
    else:
        _set_chosen_attributes(copier, source, twin)
    fields = twin.__dict__
    for name in internals.NODE_LISTS:
        nodes = held[name]
        if type(nodes) is internals.TRACKED_LIST:
            fields[name].tracker = copier.copy(nodes.tracker)
    internals.settle_losses(fields)


@functools.cache
def _is_simple(cls: type) -> bool:
    """Whether operations of a class are copied by all of their `__dict__`, and nothing else."""
    return not (issubclass(cls, (keras.Function, internals.Trainer)) or internals.slots_of(cls))


def _set_chosen_attributes(copier: "Copier", source: Any, twin: Any) -> None:
    """Copy those attributes of an operation that are not skipped, and track what is not dropped."""
    attributes = _attributes(copier, source)
    dropped = copier.shells.dropped.get(id(source))
    if dropped is None:
        _set_attributes(copier, source, twin, attributes)
    else:
        _set_without_layers(copier, source, twin, attributes, dropped)
    fields = twin.__dict__
    for slot in internals.slots_of(type(source)):
        if slot in fields:
            set_attribute(twin, slot, fields.pop(slot))


def _attributes(copier: "Copier", source: Any) -> dict[str, Any]:
    """Return the attributes of an operation to copy, by name."""
    attributes = source.__dict__
    if internals.slots_of(type(source)):
        attributes = internals.live_attributes(source)
    skipped = copier.shells.skipped.get(id(source), frozenset())
    if isinstance(source, keras.Function):
        has_new_graph = id(source) in copier.graphs.ends
        skipped |= internals.GRAPH_FIELDS if has_new_graph else {internals.NODE_KEYS}
    if skipped:
        attributes = {n: value for n, value in attributes.items() if n not in skipped}
    if isinstance(source, internals.Trainer):
        records = records_without(attributes, internals.COMPILED_FIELDS)
        copier.alive.append(records)
        compiled = dict.fromkeys(internals.COMPILED_FIELDS & attributes.keys())
        attributes = attributes | compiled | records
    return attributes


def _set_attributes(copier: "Copier", source: Any, twin: Any, attributes: dict[str, Any]) -> None:
    """Set copies of attributes on an operation; a lock comes from a re-created layer."""
    fields, done = attributes.copy(), ()
    while True:
        try:
            copier.copy_fields(fields, *done)
            break
        except Uncopyable as problem:
            name = copier.failed
            done = (name,)
            owner = _named_by_user(copier, name, attributes)
            fields[name] = _lock_of_donor(copier, source, owner, problem)
        except Exception as error:
            error.add_note(f"while copying attribute '{copier.failed}' of '{twin.name}'")
            raise
    # Not before: user code that runs meanwhile would change the source's.
    if not twin.__dict__.keys() <= fields.keys():
        fields |= {n: value for n, value in twin.__dict__.items() if n not in fields}
    set_attribute(twin, "__dict__", fields)


def _set_without_layers(
    copier: "Copier", source: Any, twin: Any, attributes: dict[str, Any], dropped: list[Any]
) -> None:
    """Copy the attributes of a model, except that it does not track some layers.

    Those that no attribute reaches are not copied at all: stand-ins take their places until
    they are untracked.
    """
    tracking = {name: value for name, value in attributes.items() if _tracks(name, value)}
    others = {name: value for name, value in attributes.items() if name not in tracking}
    _set_attributes(copier, source, twin, others)
    for name, value in tracking.items():
        if name not in internals.TRACKING_FIELDS:
            _copy_items(copier, value)
    absent = {id(layer): object() for layer in dropped if id(layer) not in copier.memo}
    for key, stand_in in absent.items():
        copier.memo[key] = stand_in
    _set_attributes(copier, source, twin, tracking)
    internals.untrack(twin, [*absent.values()])
    for key in absent:
        del copier.memo[key]
        copier.deepcopy_memo.pop(key, None)


def _tracks(name: str, value: Any) -> bool:
    """Whether an attribute leads to the layers that a model tracks."""
    return name in internals.TRACKING_FIELDS or isinstance(value, internals.TRACKED_COLLECTIONS)


def _copy_items(copier: "Copier", value: Any) -> None:
    """Copy what a tracked collection holds, but not the tracker that it reports to."""
    if isinstance(value, internals.TRACKED_COLLECTIONS):
        for item in value.values() if isinstance(value, dict) else value:
            _copy_items(copier, item)
    else:
        copier.copy(value)


def _named_by_user(copier: "Copier", name: str, attributes: dict[str, Any]) -> str:
    """Return the attribute that cannot be copied; for TensorFlow's records, the user's name."""
    if is_record(name):
        for other, value in attributes.items():
            if not is_record(other) and not isinstance(value, LOCKS):
                try:
                    type(copier)("share").copy(value)
                except Uncopyable:
                    return other
    return name


def _lock_of_donor(copier: "Copier", source: Any, name: str, problem: Uncopyable) -> Any:
    """Return the lock of a layer re-created from its config; a lock has no state worth copying.

    Raises:
        CopyError: If the attribute is not a lock, or the layer cannot be re-created.
    """
    value = internals.live_attributes(source)[name]
    if isinstance(value, LOCKS) and isinstance(source, keras.Layer):
        donors = copier.shells.donors
        if id(source) not in donors:
            # Making a copy must not change the random numbers drawn next.
            with internals.untouched_randomness():
                donors[id(source)] = remake(source)
        donor = donors[id(source)]
        lock = internals.live_attributes(donor).get(name) if donor else None
        if type(lock) is type(value):
            return lock
    noun = "model" if isinstance(source, keras.Model) else "layer"
    message = (
        f"{noun} '{source.name}' ({type(source).__name__}) cannot be copied: its "
        f"attribute '{name}' holds a {problem.class_name}, which has no copy; "
        "delete the attribute before cloning, and set it again on both"
        f"{_LOCK_HINT if isinstance(value, LOCKS) else ''}"
    )
    raise CopyError(message) from problem
